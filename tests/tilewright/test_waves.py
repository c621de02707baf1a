"""Waves of the hardware: what is refused, the cycles that are asked for, and that their texts are those of the run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.engines import ENGINES
from tests.tilewright.command_line import Command
from tilewright.api import compile  # noqa: A004
from tilewright.errors import InputError
from tilewright.pictures.array import small_inputs, small_program
from tilewright.profiles.one_layer import instructions_of_layer
from tilewright.program import Program
from tilewright.rtl.simulation.fst import fst_of
from tilewright.rtl.simulation.waves import WaveWindow
from tilewright.waves import layer_names, waves_window

EXAMPLE = "programs/digits/example.npz"


@pytest.fixture(scope="module")
def program() -> Program:
    return compile("programs/digits/digits_int8.onnx", "tiny8", effort=0)


@pytest.fixture(scope="module")
def program_file(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("waves") / "net.npu"
    program.save(path)
    return path


def test_a_layers_waves_are_the_cycles_in_which_it_works(program: Program) -> None:
    (run,) = program.runs()
    for position, layer in enumerate(program.profile()["layers"]):
        own = [one for one in instructions_of_layer([run], position) if one.instruction.engine.name != "load"]
        window = WaveWindow(min(one.started for one in own), max(one.retired for one in own))
        assert waves_window(program, None, layer["name"]) == window
    end = run.counters.cycles
    assert waves_window(program, None, None) == WaveWindow(0, end)
    assert waves_window(program, 7, None) == WaveWindow(7, end)


def test_waves_that_would_be_too_large_are_refused_before_the_run(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.waves.MOST_CYCLES", 1000)
    message = r"^waves of 6,676 cycles, and viewers take 1,000: choose a layer with --layer, or begin later with "
    with pytest.raises(InputError, match=message):
        waves_window(program, None, None)
    assert waves_window(program, 6000, None).first == 6000


def test_cycles_after_the_end_and_unknown_layers_are_refused(program: Program) -> None:
    with pytest.raises(InputError, match=r"^--from-cycle 9,999 is after the end, which is cycle 6,676$"):
        waves_window(program, 9999, None)
    with pytest.raises(InputError, match=r"^no layer 'conv9'; there are: conv1, conv2, "):
        waves_window(program, None, "conv9")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--waves", "out.vcd"), "waves are of the hardware: add --on rtl"),
        (("--layer", "conv1"), "say where the waves go"),
        (("--on", "rtl", "--waves", "out.lxt"), "waves are VCD, or FST"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tilewright: Command, program_file: Path, options: tuple[str, ...], message: str
) -> None:
    ended = tilewright("run", program_file, "--input", EXAMPLE, *options)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.slow
def test_the_hardwares_waves_name_the_instruction_and_the_layer_of_every_cycle(
    tilewright: Command, tmp_path: Path
) -> None:
    program = small_program()
    program.save(tmp_path / "small.npu")
    np.savez(tmp_path / "small.npz", **small_inputs())
    options = ("--on", "rtl", "--waves", tmp_path / "out.vcd", "--layer", "conv", "--from-cycle", 50)
    ended = tilewright("run", tmp_path / "small.npu", "--input", tmp_path / "small.npz", *options)
    assert ended.code == 0, ended.err
    assert f"{program.profile()['cycles']:,} cycles" in ended.out
    values = by_cycle((tmp_path / "out.vcd").read_text())
    window = waves_window(program, 50, "conv")
    assert min(values) >= 50
    assert set(range(window.first + 1, window.last)) <= set(values)
    (run,) = program.runs()
    layers, instructions = layer_names(run.program), run.program.instructions
    for engine in ENGINES:
        own = [index for index, one in enumerate(instructions) if one.engine.name == engine]
        for cycle in range(window.first + 1, window.last):
            held = [i for i in own if run.counters.started[i] < cycle < run.counters.retired[i]]
            shown = [text(values[cycle][f"{engine}_{what}"]) for what in ("mnemonic", "layer")]
            expected = [instructions[held[0]].mnemonic, layers[held[0]]] if held else ["", ""]
            assert shown == expected, (engine, cycle)
            assert not held or int(values[cycle][f"{engine}_instruction"], 2) == held[0]


def test_waves_that_cannot_be_written_leave_no_file(
    tilewright: Command, program: Program, program_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = program.run(dict(np.load(EXAMPLE)))
    monkeypatch.setattr("tilewright.rtl.simulation.build.is_built", lambda machine, has_waves: True)
    monkeypatch.setattr("tilewright.waves.run_for_waves", lambda *_: (result, b"$enddefinitions $end\n#0\nx!\n"))
    options = ("--on", "rtl", "--waves", tmp_path / "out.fst")
    ended = tilewright("run", program_file, "--input", EXAMPLE, *options)
    assert (ended.code, ended.err) == (
        1,
        "error: waves: expected values of 0 and 1, came 'x!'; write them as .vcd, and report it\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_each_run_has_the_same_waves_in_either_format(tilewright: Command, program_file: Path, tmp_path: Path) -> None:
    """From cycle 0 on, when the bus has not carried anything yet, and all that follows in all signals."""
    for name in ("out.vcd", "again.vcd", "out.fst"):
        ended = tilewright("run", program_file, "--input", EXAMPLE, "--on", "rtl", "--waves", tmp_path / name)
        assert ended.code == 0, ended.err
    vcd = (tmp_path / "out.vcd").read_bytes()
    is_same = [(tmp_path / "again.vcd").read_bytes() == vcd, (tmp_path / "out.fst").read_bytes() == fst_of(vcd)]
    assert is_same == [True, True]  # and no comparison of millions of lines


def text(bits: str) -> str:
    """The characters of a vector of bits, without the zeros in front."""
    number = int(bits, 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "big").decode()


def by_cycle(vcd: str) -> dict[int, dict[str, str]]:
    """By cycle, the bits of what each engine works on."""
    head, _, body = vcd.partition("$enddefinitions")
    wanted = {"cycle", *(f"{e}_{what}" for e in ENGINES for what in ("instruction", "mnemonic", "layer"))}
    names: dict[str, str] = {}
    for identifier, name in re.findall(r"\$var \w+ +\d+ (\S+) (\w+)", head):
        if name in wanted and name not in names.values():  # the first is the bench's, which contains the machine
            names[identifier] = name
    now: dict[str, str] = {}
    found: dict[int, dict[str, str]] = {}
    for line in [*body.splitlines(), "#0"]:
        if line.startswith("#") and "cycle" in now:
            found[int(now["cycle"], 2)] = dict(now)
        elif line.startswith("b") and line.split()[1] in names:
            value, identifier = line[1:].split()
            now[names[identifier]] = value
    return found
