"""Constraints of the clock: the same clock in each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tilewright.command_line import Command, make_command
from tilewright.rtl.constraints import clock_constraints


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return make_command(capsys, monkeypatch)


def test_a_clock_in_each_format() -> None:
    texts = clock_constraints("clk", 40.0)
    assert texts["sdc"] == texts["xdc"] == "create_clock -name clk -period 25.000 [get_ports clk]\n"
    assert texts["lpf"] == 'FREQUENCY PORT "clk" 40.0 MHZ;\n'


def test_a_clock_without_a_folder_is_refused(tilewright: Command, tmp_path: Path) -> None:
    ended = tilewright("rtl", "--isa", "tiny8", "-o", tmp_path / "npu.sv", "--clock", 80)
    assert ended.code == 2 and "it writes files beside the modules" in ended.err
