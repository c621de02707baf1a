"""Vector engines that multiply: what their instructions may say, how they are walked, which one continues which."""

from __future__ import annotations

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.table import works_of
from tilewright.isa.templates.vector import multiplied_by_element, vector_walk

MACHINE = load_machine("vector-only")  # 8 lanes


def changed(instructions: str) -> Machine:
    """The machine with other instructions, one a line."""
    lines = "".join(f"  {line}\n" for line in instructions.splitlines())
    return load_machine_text(f"extends: vector-only\ninstructions:\n{lines}", "m.yaml")


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            "multiply: {do: 'c = wrap(sum(dot(a, transpose(w))), int32)'}",
            "m.yaml:3:18: instructions.multiply: in a vector engine, dot takes two operands, a vector and a weight "
            "tile; transpose needs an array",
        ),
        (
            "multiply: {do: 'c = wrap(sum(dot(a, w)) * 2, int32)'}",
            "m.yaml:3:18: instructions.multiply: a vector engine multiplies as `c = wrap(sum(dot(a, w)), int32)`, or "
            "`c = wrap(b + sum(dot(a, w)), int32)`; say in an instruction of its own what becomes of the sums",
        ),
        (
            "multiply: {do: 'c = wrap(sum(dot(a, w)), int16)'}",
            "m.yaml:3:18: instructions.multiply: a vector engine multiplies as `c = wrap(sum(dot(a, w)), int32)`, or "
            "`c = wrap(b + sum(dot(a, w)), int32)`; say in an instruction of its own what becomes of the sums",
        ),
        (
            "multiply: {from: {w: '4 * wgt[n, r, s, k]'}}",
            "vector-only.yaml:24:9: instructions.multiply: operand w is 4 words; a vector of 8 elements is multiplied "
            "with a tile of as many words: say `lanes * wgt[…]`",
        ),
        (
            "multiply_add: {from: {b: 'acc[n, y, x, k]'}}",
            "vector-only.yaml:33:9: instructions.multiply_add: b strides over the reduce loop k; give it a list "
            "without k",
        ),
        (
            "multiply: {flags: [accumulate]}",
            "vector-only.yaml:24:9: instructions.multiply: a vector engine has no accumulate flag",
        ),
    ],
    ids=["transposed", "scaled", "narrow", "few words", "added", "flag"],
)
def test_refuses_other_products(instruction: str, message: str) -> None:
    with pytest.raises(IsaError) as raised:
        changed(instruction)

    assert str(raised.value) == message


def test_the_rows_of_a_tile_are_the_innermost_loop() -> None:
    walk = vector_walk(MACHINE.format("multiply"))
    a, w = walk.sources

    assert [loop.name for loop in walk.loops] == ["n", "y", "x", "r", "s", "k", "rows of a tile"]
    assert (walk.rows, walk.loops[-1].bits, walk.loops[-1].is_reduce) == (8, 3, True)
    assert (a.block, a.loops) == (1, ("y", "x", "r", "s", "k"))
    assert (w.block, w.loops) == (1, ("n", "r", "s", "k", "rows of a tile"))


def test_other_instructions_are_walked_as_they_are_written() -> None:
    for format in (MACHINE.format("add"), load_machine("tiny8").format("mma")):
        walk = vector_walk(format)
        assert (walk.loops, walk.sources, walk.rows) == (format.loops, format.sources, 1)


def test_only_the_vector_is_taken_element_by_element() -> None:
    found = {name: multiplied_by_element(format) for name, format in MACHINE.formats.items()}
    assert {name: each.name for name, each in found.items() if each} == {"multiply": "a", "multiply_add": "a"}


def test_each_row_of_a_tile_takes_a_cycle() -> None:
    # 2 words of results, each the sum of 3 · 5 tiles of 8 rows; then 4 cycles to the write, and 5 with an addition.
    trips = {"trip.x": 2, "trip.r": 3, "trip.k": 5}
    more = {**trips, "b.x": 1, "c.x": 1}
    works = list(works_of(MACHINE, [make_instruction(MACHINE.format("multiply"), trips),
                                    make_instruction(MACHINE.format("multiply_add"), more)]))  # fmt: skip

    assert [work.busy for work in works] == [2 * 3 * 5 * 8] * 2
    assert works[1].complete == works[0].complete + 1
    assert [access.times for access in works[1].accesses] == [240, 240, 240, 2]


def test_an_instruction_that_adds_continues_the_one_that_it_is_like() -> None:
    assert {name: more.mnemonic for name, more in MACHINE.continuing.items()} == {"multiply": "multiply_add"}
    assert {name: more.mnemonic for name, more in load_machine("tiny8").continuing.items()} == {
        "mma": "mma",
        "mma_transposed": "mma_transposed",
    }


@pytest.mark.parametrize(
    "instruction",
    [
        "multiply_add: null",
        "multiply_add: {from: {b: 'acc[y, x]'}}",
        "multiply_add: {loops: {k: 6}}",
        "multiply_add: {bits: {b.base: 12}}",
    ],
)
def test_one_that_is_unlike_it_does_not(instruction: str) -> None:
    assert changed(instruction).continuing == {}
