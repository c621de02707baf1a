"""The table of the engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.isa.program.state import EngineCounters
from tilewright.profiles.engines import print_engines
from tilewright.simulator.run_profile import DramBytes, RunProfile

EMPTY = RunProfile("m", 10, 0, 0, 0.0, {}, DramBytes(0, 0), (), {})


def test_a_column_adds_up_to_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    load = EngineCounters(busy=4, wait={"mma": 2}, stall={"dram": 1}, idle=3)
    print_engines(replace(EMPTY, engines={"load": load}))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["wait", "mma", "2"] for line in lines)
    assert any(line.split() == ["total", "10"] for line in lines)


def test_hardware_that_counts_few_things_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_engines(EMPTY)
    message = "m's hardware does not count what its engines do: `counters: all` in its file does.\n"
    assert capsys.readouterr().out == message
