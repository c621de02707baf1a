"""Vector engines with fewer lanes than a word has elements: what a file may say, how they are walked, what it takes."""

from __future__ import annotations

import pytest

from tests.parts import PARTS
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.table import works_of
from tilewright.isa.templates.vector import vector_walk
from tilewright.isa.timing import vec_write

SECOND = "engines:\n  vec2: {template: vector, lanes: LANES, queue: 1, reads: [act, acc], writes: [act, acc]}\n"


def with_second(lanes: int, *instructions: str) -> Machine:
    lines = "".join(f"  {line}\n" for line in instructions)
    text = f"extends: base16\n{SECOND.replace('LANES', str(lanes))}instructions:\n{lines}"
    return load_machine_text(text, "m.yaml")


@pytest.mark.parametrize("lanes", [3, 32])
def test_refuses_lanes_that_do_not_divide_a_word(lanes: int) -> None:
    with pytest.raises(IsaError) as raised:
        with_second(lanes, "copy: {engine: [vec, vec2]}")

    assert str(raised.value) == (
        f"m.yaml:3:35: engines.vec2.lanes: {lanes} lanes do not divide words of lanes = 16 elements; "
        "expected one of 1, 2, 4, 8, 16"
    )


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("y = wrap(a - lanes_max(a), int8)", "nothing can be taken outside of it, as `a` is"),
        ("y = lanes_max(wrap(lanes_sum(a), int8))", "nothing across lanes can be within it, as lanes_sum is"),
    ],
    ids=["outside", "within"],
)
def test_refuses_what_needs_a_word_before_its_last_part(statement: str, why: str) -> None:
    instruction = f"largest: {{engine: vec2, loops: {{i: 4}}, from: {{a: act}}, to: {{y: act}}, do: '{statement}'}}"
    with pytest.raises(IsaError) as raised:
        with_second(4, instruction)

    assert str(raised.value) == (
        f"m.yaml:5:{instruction.index('do:') + len('  do: ') + 1}: instructions.largest: vec2 has 4 lanes for words of "
        f"16 elements: lanes_max is there when the last part of a word has come, and {why}; split the statement into "
        "two instructions, or give it to an engine of 16 lanes"
    )
    assert with_second(16, instruction).engines["vec2"].vector.parts == 1


def test_parts_are_a_loop_outside_of_the_reduce_loops() -> None:
    machine = load_machine_text(PARTS, "parts")
    walks = {name: vector_walk(machine.format(name)) for name in ("copy", "max_pool", "multiply")}

    assert {name: [loop.name for loop in walk.loops] for name, walk in walks.items()} == {
        "copy": ["i", "j", "k", "parts of a word"],
        "max_pool": ["c", "y", "x", "parts of a word", "r", "s"],
        "multiply": ["n", "y", "parts of a word", "k", "rows of a tile"],
    }
    assert walks["multiply"].counts == {"rows of a tile": 6, "parts of a word": 3}
    assert walks["max_pool"].groups == {"reduce": {"r", "s"}, "word": {"r", "s", "parts of a word"}}


def test_engines_with_all_lanes_have_no_parts() -> None:
    walk = vector_walk(load_machine("base16").format("max_pool"))

    assert [loop.name for loop in walk.loops] == ["c", "y", "x", "r", "s"]
    assert walk.groups == {"reduce": {"r", "s"}}


def test_each_part_of_a_word_takes_a_cycle() -> None:
    # A window of 2 words for each of 5 results: 10 words, each in 4 parts.
    trips = {"trip.x": 5, "trip.s": 2, "y.x": 1}
    machine = with_second(4, "max_pool: {engine: [vec, vec2]}")
    formats = machine.alike["max_pool"]
    whole, parts = works_of(machine, [make_instruction(format, trips) for format in formats])

    assert (whole.busy, parts.busy) == (10, 40)
    assert (whole.complete, parts.complete) == (10 + vec_write(formats[0]), 40 + vec_write(formats[0]))
    assert [access.times for access in whole.accesses] == [10, 5]
    assert [access.times for access in parts.accesses] == [40, 5]  # each part reads its word again


def test_an_engine_of_fewer_lanes_does_the_same() -> None:
    machine = with_second(4, "max_pool: {engine: [vec, vec2]}")

    assert [format.mnemonic for format in machine.alike["max_pool"]] == ["max_pool", "max_pool_vec2"]
