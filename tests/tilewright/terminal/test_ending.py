"""How commands end, each in a process of its own: readers that stop early, Ctrl-C, and what standard output holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model
from tests.tilewright.command_line import Command, Ended
from tilewright.cli import main
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import load, save
from tilewright.isa.program.program import Program

TILEWRIGHT = [sys.executable, "-c", "from tilewright.cli import main; main()"]


def shell(line: str, folder: Path) -> Ended:
    """How a line ends in bash with pipefail, in which `tilewright` is the command."""
    function = f"tilewright() {{ {sys.executable} -c 'from tilewright.cli import main; main()' \"$@\"; }}"
    command = ["bash", "-c", f"set -o pipefail; {function}; {line}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_reader_that_stops_early_is_no_failure(tmp_path: Path) -> None:
    ended = shell("tilewright isa manual base16 | head -1", tmp_path)
    assert ended == Ended(0, "# base16: instruction set\n", "")


def test_a_reader_of_errors_may_stop_early_too(tmp_path: Path) -> None:
    ended = shell("tilewright check none.npu 2>&1 | true; echo ${PIPESTATUS[0]}", tmp_path)
    assert (ended.out, ended.err) == ("1\n", "")


def test_the_work_goes_on_without_a_reader(tmp_path: Path) -> None:
    """The dump is long, and the program is written after it."""
    onnx.save(conv_model(np.random.default_rng(0)), tmp_path / "conv.onnx")
    dumps = "--dump-after import --dump-after tile"
    ended = shell(f"tilewright compile conv.onnx --isa base16 {dumps} -o net.npu | head -1 > first", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert load(tmp_path / "net.npu").instructions


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_once(tmp_path: Path) -> None:
    ended = shell("tilewright isa show base16 > /dev/full", tmp_path)
    assert ended == Ended(1, "", "error: standard output: No space left on device\n")


def test_standard_output_may_be_closed(tmp_path: Path) -> None:
    assert shell("tilewright isa show base16 >&-", tmp_path) == Ended(0, "", "")


def test_a_character_that_the_terminal_lacks_is_spelled_out(tmp_path: Path) -> None:
    ended = shell("PYTHONIOENCODING=latin-1 tilewright isa diff tiny8 base16 | head -1", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "\\u2192" in ended.out


def test_an_interruption_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    """Its source is a pipe: when that is open, the command reads it and waits."""
    os.mkfifo(tmp_path / "source.s")
    words = ["assemble", "source.s", "--isa", "tiny8", "-o", "out.npu"]
    process = subprocess.Popen([*TILEWRIGHT, *words], cwd=tmp_path, stdout=-1, stderr=-1, text=True)
    with open(tmp_path / "source.s", "w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert os.listdir(tmp_path) == ["source.s"]


# -- what standard output holds ----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, copy_program: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program, its assembly, its input, and a model."""
    monkeypatch.chdir(tmp_path)
    save(copy_program, "copy.npu")
    np.savez("in.npz", x=np.arange(96, dtype=np.int8).reshape(1, 16, 6, 1))
    onnx.save(conv_model(np.random.default_rng(0)), "conv.onnx")
    Path("copy.s").write_text(disassemble(copy_program))
    return tmp_path


WRITERS = (
    "compile conv.onnx --isa base16",
    "run copy.npu --input in.npz --on interpreter",
    "assemble copy.s --isa base16",
    "disassemble copy.npu",
    pytest.param("rtl --isa tiny8", marks=pytest.mark.slow),
    "isa manual tiny8",
    "isa schema",
)


@pytest.mark.parametrize("words", WRITERS)
def test_a_dash_is_standard_output_and_has_the_file_alone(
    folder: Path, words: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for output in ("-", "out"):
        monkeypatch.setattr(sys, "argv", ["tilewright", *words.split(), "-o", output])
        with pytest.raises(SystemExit, match="^0$"):
            main()
        if output == "-":
            printed = capfdbinary.readouterr().out
    assert printed == (folder / "out").read_bytes()
    assert not (folder / "-").exists()


REPORTERS = ("profile copy.npu", "check copy.npu", "isa list", "isa show tiny8", "isa lint tiny8")


@pytest.mark.parametrize("words", [*(w for w in WRITERS if w != "isa schema"), *REPORTERS])
def test_json_is_alone_on_standard_output(folder: Path, words: str, tilewright: Command) -> None:
    output = [] if words in REPORTERS else ["-o", "out"]
    ended = tilewright(*words.split(), *output, "--json", "-")
    assert ended.code == 0
    assert isinstance(json.loads(ended.out), dict | list)
    assert not output or (folder / "out").exists()


def test_json_is_alone_beside_a_dump(folder: Path, tilewright: Command) -> None:
    ended = tilewright("compile", "conv.onnx", "--isa", "base16", "--dump-after", "tile", "--json", "-")
    assert json.loads(ended.out)["isa"] == "base16"
    assert '"tile.program"' in ended.err


@pytest.mark.parametrize("order", [("-o", "-", "--json", "-"), ("--json", "-", "-o", "-")])
def test_standard_output_holds_one_thing(folder: Path, tilewright: Command, order: tuple[str, ...]) -> None:
    ended = tilewright("disassemble", "copy.npu", *order)
    assert (ended.code, ended.out) == (2, "")
    assert "--output and" in ended.err


INTERRUPTING = """
import os
import signal
import sys
import time


class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


sys.meta_path.insert(0, Interrupt())
sys.argv = ["tilewright", "isa", "list"]
from tilewright.__main__ import main

main()
"""
"""The command of which Ctrl-C meets the import of a module."""


IMPORTED = ["tilewright.cli", "typer", "tilewright.terminal.ending", "tilewright.errors", "numpy"]


@pytest.mark.parametrize("module", IMPORTED)
def test_ctrl_c_during_imports_is_one_line(module: str) -> None:
    run = [sys.executable, "-c", INTERRUPTING.format(module=module)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_files_name_need_not_be_text(tmp_path: Path) -> None:
    """On Linux it is bytes; these are no UTF-8."""
    onnx.save(conv_model(np.random.default_rng(0)), tmp_path / "conv.onnx")
    name = os.fsdecode(b"conv\xff")
    (tmp_path / "conv.onnx").rename(tmp_path / f"{name}.onnx")
    commands = [
        ["compile", f"{name}.onnx", "--isa", "base16", "--effort", "0", "-o", f"{name}.npu"],
        ["profile", f"{name}.npu", "--html", f"{name}.html"],
    ]
    for command in commands:
        done = subprocess.run([*TILEWRIGHT, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
    assert "conv\\udcff" in (tmp_path / f"{name}.html").read_text()


def test_an_unread_name_is_said_in_the_error(tmp_path: Path) -> None:
    missing = os.fsdecode(b"conv\xff.npu")
    done = subprocess.run([*TILEWRIGHT, "check", missing], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "error: conv\\udcff.npu: cannot be read: No such file or directory\n")
