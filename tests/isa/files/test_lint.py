"""Lint: every fault with its place, its line and a caret; nothing for what loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa.files.lint import lint
from tilewright.isa.files.loader import shipped_machines


@pytest.mark.parametrize("name", shipped_machines())
def test_finds_nothing_in_a_shipped_machine(name: str) -> None:
    assert lint(name) == ()


def test_shows_every_fault_with_its_line_and_a_caret(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: base16\nlanes: '16'\ninstructions:\n  copy: {engine: vex}\n")

    assert lint(file) == (
        f"{file}:2:8: lanes: expected an integer, not the string '16'; leave the quotes out\n"
        "    lanes: '16'\n"
        "           ^",
        f"{file}:4:18: instructions.copy.engine: unknown engine 'vex' (did you mean 'vec'?); "
        "expected load, mma, vec, store\n"
        "      copy: {engine: vex}\n"
        "                     ^",
    )


def test_shows_the_line_of_a_shipped_machine_that_no_longer_fits() -> None:
    first = lint("base16", ["memories.par=null"])[0].splitlines()

    assert first[0].startswith("base16.yaml:20:95: engines.load.writes: unknown 'par'")
    limits = "queue: 4, contexts: 4, bursts: 16, beats: 2"
    assert first[1].strip() == f"load:  {{{limits}, reads: [dram], writes: [act, wgt, acc, par, lut]}}"
    assert first[1][first[2].index("^") :] == "par, lut]}"


def test_shows_a_syntax_error_with_unprintable_characters_marked(tmp_path: Path) -> None:
    file = tmp_path / "tab.yaml"
    file.write_text("extends: base16\nmemories:\n\tact: {kib: 3}\n")

    assert lint(str(file)) == (
        f"{file}:3:1: not YAML: found character '\\t' that cannot start any token\n    ·act: {{kib: 3}}\n    ^",
    )


def test_shows_the_part_of_a_long_line_that_matters(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(f"{{extends: base16, about: {'x' * 300}, lanes: odd}}\n")

    message, line, caret = lint(file)[0].splitlines()

    assert message.endswith("lanes: expected an integer; unknown parameter 'odd'; there are: rows, cols")
    assert len(line) <= 4 + 120
    assert line[caret.index("^") :].startswith("odd}")


def test_a_fault_without_a_line_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")

    assert lint(tmp_path / "empty.yaml") == (f"{tmp_path}/empty.yaml: is empty; expected a machine description",)
    assert lint("base16", ["lanes=odd"]) == (
        "--set lanes=odd: lanes: expected an integer; unknown parameter 'odd'; there are: rows, cols",
    )


def test_an_engine_that_nothing_runs_on_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "idle.yaml"
    path.write_text(
        "extends: tiny8\nengines:\n  vec2: {template: vector, queue: 2, results: 2, reads: [act], writes: [act]}\n"
    )
    (fault,) = lint(path)
    assert fault.splitlines()[0] == (
        f"{path}:3:9: engines.vec2: no instruction runs on it; name it in one (engine: vec2), or take it away "
        "(engines.vec2: null)"
    )
    assert lint(path, ("engines.vec2=null",)) == ()
