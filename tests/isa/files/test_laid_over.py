"""An engine set to nothing takes its work along: in a file that extends, in an overlay, and in a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

TWO = """extends: tiny8
engines: {vec2: {template: vector, queue: 2, results: 2, reads: [act, acc, par], writes: [act, acc]}}
instructions: {requantize: {engine: [vec, vec2]}, copy: {engine: [vec, vec2]}, fill: {engine: vec2}}
"""
OF_VEC = {name for name, format in load_machine("tiny8").formats.items() if format.engine.name == "vec"}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return path


def test_what_several_engines_run_stays_with_the_others(two: Path) -> None:
    machine = load_machine(two, ("engines.vec2=null",))
    assert "vec2" not in machine.engines
    assert machine.formats.keys() == load_machine("tiny8").formats.keys() - {"fill"}


def test_the_engine_that_stays_may_be_another_than_the_first(two: Path) -> None:
    machine = load_machine(two, ("engines.vec=null",))
    assert {name for name, format in machine.formats.items() if format.engine.name == "vec2"} == {
        "requantize",
        "copy",
        "fill",
    }
    assert not (OF_VEC - {"requantize", "copy", "fill"}) & machine.formats.keys()


def test_an_overlay_takes_an_engine_away_and_gives_its_instruction_another(two: Path, tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text("engines: {vec2: null}\ninstructions: {fill: {engine: vec}}\n")
    assert load_machine(two, (), (over,)).formats.keys() == load_machine("tiny8").formats.keys()


def test_a_file_takes_an_engine_of_what_it_extends_away(two: Path) -> None:
    one = two.with_name("one.yaml")
    one.write_text(f"extends: {two.name}\nengines: {{vec2: null}}\n")
    assert "vec2" not in load_machine(one).engines


def test_an_engine_that_must_be_there_is_asked_for_in_one_line() -> None:
    with pytest.raises(IsaError) as caught:
        load_machine("tiny8", ("engines.load=null",))
    assert str(caught.value).endswith("engines: the key 'load' is missing: a dma engine that reads dram")
    assert "\n" not in str(caught.value)


def test_a_setting_may_name_a_key_that_the_file_leaves_out() -> None:
    machine = load_machine("tiny8", ("memories.act.ports=1", "memories.act.interleave=words", "clock_gating=unit"))
    assert machine.memories["act"].has_one_port
    assert (str(machine.memories["act"].interleave), machine.has_gated_clocks) == ("words", True)
    assert not machine.memories["wgt"].has_one_port


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("memories.act.ports=3", "memories.act.ports: 3 is out of range; expected 1 to 2"),
        ("memories.act.interleave=bits", "memories.act.interleave: expected words, none, not 'bits'"),
        ("memories.act.prots=1", "memories.act has no 'prots'"),
        ("memories.akt.ports=1", "memories has no 'akt' (did you mean 'act'?)"),
        ("memories.act.depth=64", "memories.act has no 'depth'"),  # which `kib` says already
        ("clock_gating=yes", "clock_gating: expected none, unit, not True"),
    ],
)
def test_a_setting_that_fits_no_key_is_told_once(setting: str, said: str) -> None:
    with pytest.raises(IsaError) as caught:
        load_machine("tiny8", (setting,))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
