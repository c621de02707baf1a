"""The changes that are tried follow from the machine's file and the loader's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.renamed import NAMES, renamed_text
from tilewright.codesign.advise.changes import (
    Change,
    Way,
    each_instruction,
    next_step,
    overlays,
    steps,
    without_instructions,
)
from tilewright.codesign.advise.engines import engines_fewer, engines_more
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text

TINY = load_machine("tiny8")


def named(name: str) -> Change:
    return next(change for change in steps(TINY) if change.name == name)


def test_every_number_goes_up_and_down_and_no_other_key_changes() -> None:
    names = [change.name for change in steps(TINY)]
    for name in (
        *("array.rows 8 → 16", "array.cols 8 → 4", "lanes 8 → 4", "dram.bus_bytes 8 → 4", "memories.act.kib 64 → 128"),
        *("memories.act.banks 4 → 2", "engines.store.beats 3 → 2", "engines.store.beats 3 → 4", "counters few → none"),
        *("fetch_beats 64 → 32", "array.rows, array.cols, lanes × 2", "array.rows, array.cols, lanes ÷ 2"),
    ):
        assert name in names
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith(("rounding", "instructions", "name", "about"))]


def test_an_engine_of_any_name_has_the_steps_of_its_kind() -> None:
    renamed = load_machine_text(renamed_text("tiny8"), "renamed")
    expected = set()
    for change in steps(TINY):
        section, _, rest = change.name.partition(".")
        old, _, key = rest.partition(".")
        expected.add(f"engines.{NAMES[old][0]}.{key}" if section == "engines" else change.name)
    assert {change.name for change in steps(renamed)} == expected


def test_no_step_leaves_the_range_of_its_key() -> None:
    names = [change.name for change in steps(load_machine("tiny8", ("dram.bus_bytes=1", "fetch_beats=4096")))]
    assert not [name for name in names if name.startswith("dram.bus_bytes") and name.endswith("→ 0")]
    assert [name for name in names if name.startswith("fetch_beats")] == ["fetch_beats 4096 → 2048"]


def test_the_type_of_elements_becomes_the_next_wider_and_narrower_one() -> None:
    names = {change.name for change in steps(TINY)}
    assert {"memories.act.element int8 → int16", "memories.act.element int8 → int4"} <= names
    assert {"memories.acc.element int32 → int40", "memories.acc.element int32 → int24"} <= names
    assert not [name for name in names if name.startswith("memories.par.element")]  # its fields round results
    narrower = named("memories.acc.element int32 → int24").apply(TINY)
    assert str(narrower.memories["acc"].element.type) == "int24"
    floats = [change.name for change in steps(load_machine("mx16")) if ".element" in change.name]
    assert floats and not [name for name in floats if "e4m3" in name]


def test_an_expression_follows_its_keys() -> None:
    assert TINY.memories["act"].width == TINY.lanes
    assert not [change for change in steps(TINY) if change.name.startswith("memories.act.width")]


def test_a_change_is_applied_to_the_whole_machine() -> None:
    both = named("array.rows, array.cols, lanes × 2").apply(TINY)
    assert (both.array.rows, both.array.cols, both.lanes, both.memories["act"].width) == (16, 16, 16, 16)
    assert named("dram.bus_bytes 8 → 16").apply(TINY).dram.bus_bytes == 16
    assert named("dram.bus_bytes 8 → 16").apply(TINY).name == "tiny8[dram.bus_bytes 8 → 16]"


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    with pytest.raises(IsaError, match="array.rows = 4 is not a multiple of lanes = 8"):
        named("array.rows 8 → 4").apply(TINY)


def test_a_step_goes_on_in_its_direction_to_the_end_of_the_range() -> None:
    step: Change | None = named("dram.bus_bytes 8 → 16")
    values = []
    while step is not None:
        values.append(step.over["dram"]["bus_bytes"])
        step = next_step(step)
    assert values == [16, 32, 64, 128]


def test_overlays_are_the_given_and_the_shipped_ones(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("dram: {latency_cycles: 8}\n")
    found = {change.name: change for change in overlays(TINY, "tiny8", [mine])}
    types = ["+base16-a16", "+base16-w4", "+dw16", "+llm16", "+llm16-a16", "+mixed16", "+mx16"]
    assert list(found) == ["+mine", *types, "+sequence16", "+sequence16-a16", "+vector16"]
    assert found["+mine"].apply(TINY).dram.latency_cycles == 8
    assert "depthwise" in found["+dw16"].apply(TINY).formats
    assert {"deviation", "reciprocal"} <= set(found["+sequence16"].apply(TINY).formats)  # of vector16, which it extends


def test_what_the_machine_extends_is_no_change() -> None:
    machine = load_machine("sequence16")
    found = [change.name for change in overlays(machine, "sequence16", ())]
    types = ["+base16-a16", "+base16-w4", "+dw16", "+llm16", "+llm16-a16", "+mixed16", "+mx16"]
    assert found == [*types, "+sequence16-a16", "-sequence16"]


def test_the_machines_own_overlay_is_taken_off() -> None:
    machine = load_machine("dw16")
    (off,) = (change for change in overlays(machine, "dw16", ()) if change.way is Way.OFF)
    assert off.name == "-dw16" and set(machine.formats) - set(off.apply(machine).formats) == {"depthwise"}


def test_changes_beside_each_other() -> None:
    both = named("dram.bus_bytes 8 → 16").beside(without_instructions(["copy", "mul"])).beside(named("lanes 8 → 4"))
    machine = both.apply(TINY)
    assert (machine.dram.bus_bytes, machine.lanes) == (16, 4)
    assert set(TINY.formats) - set(machine.formats) == {"copy", "mul"}


def test_each_instruction_goes_by_itself() -> None:
    changes = each_instruction(TINY)
    assert [change.key for change in changes] == [f"instructions.{name}" for name in TINY.formats]
    without_copy = next(change for change in changes if change.key == "instructions.copy").apply(TINY)
    assert set(TINY.formats) - set(without_copy.formats) == {"copy"}


def test_each_engine_that_can_share_its_memories_gets_a_second() -> None:
    changes = {change.key: change for change in engines_more(TINY)}
    assert list(changes) == ["engines.load2", "engines.vec2"]  # an array has memories of its own; one engine writes
    changed = changes["engines.vec2"].apply(TINY)
    assert changed.engines["vec2"].settings == changed.engines["vec"].settings
    assert "lut" in changed.engines["vec"].reads and "lut" not in changed.engines["vec2"].reads
    second = {format.mnemonic for format in changed.formats.values() if format.engine.name == "vec2"}
    of_vec = {name for name, format in TINY.formats.items() if format.engine.name == "vec"}
    assert second == {f"{name}_vec2" for name in of_vec - {"lookup"}}


def test_an_engine_goes_whose_work_others_can_do() -> None:
    (second,) = (change for change in engines_more(TINY) if change.key == "engines.load2")
    both = second.apply(TINY)
    fewer = {change.key: change.apply(both) for change in engines_fewer(both)}
    assert list(fewer) == ["engines.load", "engines.load2"]
    assert fewer["engines.load2"].formats.keys() == TINY.formats.keys() and list(engines_fewer(TINY)) == []
    assert {format.engine.name for format in fewer["engines.load"].formats.values()} >= {"load2", "vec", "store"}
    assert [change.key for change in engines_more(both)] == ["engines.load3", "engines.vec2"]


def test_the_machines_own_overlay_with_an_engine_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(
        "extends: tiny8\n"
        "engines: {vec2: {template: vector, queue: 2, results: 2, reads: [act, acc, par], writes: [act, acc]}}\n"
        "instructions: {requantize: {engine: [vec, vec2]}, add: {engine: [vec, vec2]}}\n"
    )
    machine = load_machine(path)
    (off,) = (change for change in overlays(machine, path, ()) if change.way is Way.OFF)
    assert off.apply(machine).formats.keys() == TINY.formats.keys()
