"""Limits of engines are said, never hit: each with its line, the count and the key to change, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa.files.lint import lint
from tilewright.isa.files.loader import load_machine

SECOND_VECTOR = "vec2: {template: vector, queue: 4, results: 4, reads: [act, acc, par], writes: [act, acc]}"


def faults(folder: Path, *lines: str) -> list[str]:
    """What lint says of base16 with more lines, without the folder and the lines that it shows."""
    path = folder / "m.yaml"
    path.write_text("\n".join(["extends: base16", *lines]) + "\n")
    return [fault.splitlines()[0].removeprefix(f"{folder}/") for fault in lint(path)]


def test_every_limit_of_a_file_is_said_at_once(tmp_path: Path) -> None:
    """Ports that nobody has and writers of one port, lanes, an engine without instructions, instructions without one,
    an engine of a list that does not read what the instruction does."""
    found = faults(
        tmp_path,
        "dram: {ports: 2}",
        "engines:",
        "  vec2: {template: vector, lanes: 5, queue: 4, results: 4, reads: [act, acc, par], writes: [act, acc]}",
        "  vec3: {template: vector, queue: 4, results: 4, reads: [act], writes: [act]}",
        "  idle: {template: vector, queue: 4, results: 4, reads: [act], writes: [act]}",
        "  store2: {template: dma, queue: 2, reads: [act], writes: [dram]}",
        "instructions:",
        "  requantize:",
        "    engine: [vec, vec2, vec3]",
        "  copy: {engine: [vec, vce]}",
        "  lonely: {loops: {i: 4}, from: {a: act}, to: {y: act}, do: y = a}",
        "  store_act: {engine: [store, store2]}",
    )
    assert found == [
        "m.yaml:2:15: dram.ports: nothing is on port 1; give each to a DMA engine (`port: N`), or have fewer ports",
        "m.yaml:4:3: engines: expected one dma engine that writes dram on port 0, not 2: store, store2; beats of one "
        "port cannot be mixed: give each a `port` of its own, and the machine as many dram.ports",
        "m.yaml:4:35: engines.vec2.lanes: 5 lanes do not divide words of lanes = 16 elements; expected one of 1, 2, 4, "
        "8, 16",
        "m.yaml:6:9: engines.idle: no instruction runs on it; name it in one (engine: idle), or take it away "
        "(engines.idle: null)",
        "m.yaml:10:13: instructions.requantize.from.a: the vec3 engine does not read acc; it reads act: add it to "
        "engines.vec3.reads",
        "m.yaml:10:13: instructions.requantize.from.p: the vec3 engine does not read par; it reads act: add it to "
        "engines.vec3.reads",
        "m.yaml:11:24: instructions.copy.engine: unknown 'vce' (did you mean 'vec'?); expected load, mma, vec, store, "
        "vec2, vec3, idle, store2",
        "m.yaml:12:11: instructions.lonely: the key 'engine' is missing",
    ]


def test_arrays_that_are_to_run_one_instruction_are_of_one_size(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        "engines:",
        "  mma2: {template: systolic, queue: 2, rows: 16, cols: 32, reads: [act, wgt], writes: [acc]}",
        "instructions:",
        "  mma: {engine: [mma, mma2]}",
    )
    assert found == [
        "m.yaml:5:17: instructions.mma: on mma2, operand w must be rows = 16 words of cols = 32 elements: say "
        "`rows * wgt[…]`; mma can run it: give both the same sizes, or mma2 an instruction of its own",
    ]


def test_two_arrays_that_write_one_bank_without_asking_are_refused(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        "engines:",
        "  mma2: {template: systolic, queue: 2, reads: [act, wgt], writes: [acc]}",
        "instructions:",
        "  mma: {engine: [mma, mma2]}",
    )
    assert found == [
        f"m.yaml:5:8: instructions.mma: mma and mma2 both have sums or weights in {memory}, which they read without "
        "asking; give mma2 a memory of its own"
        for memory in ("acc", "wgt")
    ]


def test_an_array_without_a_memory_of_weights_is_told_which_key_gives_it_one(tmp_path: Path) -> None:
    """Both of its instructions of base16 read weights."""
    found = faults(tmp_path, "engines:", "  mma: {reads: [act]}")
    missing = "the mma engine does not read wgt; it reads act: add it to engines.mma.reads"
    assert [fault.partition("from.w: ")[2] for fault in found] == [missing, missing]


@pytest.mark.parametrize(("count", "is_one_too_many"), [(28, False), (29, True)])
def test_more_engines_than_wait_counts_are_counted(tmp_path: Path, count: int, is_one_too_many: bool) -> None:
    """base16 has four more. An instruction of 29 engines is there on each."""
    names = [f"v{number}" for number in range(count)]
    found = faults(
        tmp_path,
        "engines:",
        *[f"  {SECOND_VECTOR.replace('vec2', name)}" for name in names],
        "instructions:",
        f"  requantize: {{engine: [vec, {', '.join(names)}]}}",
    )
    if is_one_too_many:
        [fault] = found
        assert fault.endswith("engines: has 33 engines; expected at most 32, each with a wait count in every word")
    else:
        assert found == []
        assert len(load_machine(tmp_path / "m.yaml").alike["requantize"]) == 29
