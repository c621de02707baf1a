"""Commands that write a folder: what is there already is kept or told, and never taken for theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tilewright.command_line import Command, make_command
from tilewright.commands.options import write_folder


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return make_command(capsys, monkeypatch)


def test_a_file_to_keep_stays_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path, {"platform.c": "ours", "net.c": b"first"}, kept="platform.c")
    assert capsys.readouterr().err == ""
    (tmp_path / "platform.c").write_text("theirs")
    write_folder(tmp_path, {"platform.c": "ours", "net.c": b"second"}, kept="platform.c")
    assert (tmp_path / "platform.c").read_text() == "theirs" and (tmp_path / "net.c").read_text() == "second"
    assert capsys.readouterr().err == f"note: {tmp_path / 'platform.c'} is another than ours and is kept\n"


def test_files_of_another_run_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path, {"inferred/a.sv": "one", "b.sv": "two"})
    write_folder(tmp_path, {"b.sv": "three"})
    assert capsys.readouterr().err == f"note: {tmp_path} has 1 file besides, such as inferred/a.sv\n"
    assert (tmp_path / "inferred" / "a.sv").read_text() == "one"


@pytest.mark.parametrize("clock", ["inf", "0", "1e9", "nan"])
def test_a_clock_that_has_no_period_is_refused(tilewright: Command, tmp_path: Path, clock: str) -> None:
    ended = tilewright("rtl", "--isa", "tiny8", "--split", tmp_path / "hw", "--clock", clock)
    assert ended.code == 2 and "--clock" in ended.err and not (tmp_path / "hw").exists()
