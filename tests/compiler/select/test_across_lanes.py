"""Reductions over channels: only instructions that go on across lanes compute them, and those nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.compiler.nests import axis
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.expressions import across_lanes, source
from tilewright.compiler.nest.nest import Access, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.select.select import select
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.expressions import Expr, make
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op

INT8 = IntegerType(8, True)
LARGEST = make(Op.MAX_OVER, source("a", INT8.interval))
BATCH, CHANNEL, SUMMED, ROW, COLUMN = (axis((loop, 1)) for loop in "noiyx")


def program(expr: Expr, access: Access, reduce: int, channels: int = 1) -> NestProgram:
    """One nest that reduces over a loop i; of [1, 32, 4, 4]."""
    trips: Mapping[str, int] = {"n": 1, "o": channels, "y": 4, "x": 4}
    loops = (*(NestLoop(loop, trip) for loop, trip in trips.items()), NestLoop("i", reduce, is_reduce=True))
    nest = Nest("nest", ("node",), loops, {"a": access}, Access("y", (BATCH, CHANNEL, ROW, COLUMN)), expr, 0)
    buffers = {"x": Buffer("x", (1, 32, 4, 4), INT8), "y": Buffer("y", (1, channels, 4, 4), INT8)}
    return NestProgram("program", (nest,), buffers, {}, {}, (), ())


def refusal(of: NestProgram, machine: str = "vector16") -> str:
    with pytest.raises(CompileError) as refused:
        select(of, load_machine(machine))
    return str(refused.value)


def test_channels_are_reduced_by_an_instruction_across_lanes() -> None:
    largest = program(across_lanes(Op.LANES_MAX, LARGEST), Access("x", (BATCH, SUMMED, ROW, COLUMN)), 32)
    (cover,) = select(largest, load_machine("vector16")).covers
    (step,) = cover.steps
    assert (step.format.mnemonic, step.words, set(step.across)) == ("max_lanes", 2 * 16, {"a", "p"})


def test_lane_by_lane_is_not_a_reduction_of_channels() -> None:
    assert refusal(program(LARGEST, Access("x", (BATCH, SUMMED, ROW, COLUMN)), 32)) == (
        "node: no instruction of vector16 computes `max_over(a)`; add one to the machine's instructions"
    )


def test_a_window_of_pixels_is_not_reduced_across_lanes() -> None:
    window = Access("x", (BATCH, CHANNEL, axis(("y", 1), ("i", 1)), COLUMN), 0)
    assert refusal(program(across_lanes(Op.LANES_MAX, LARGEST), window, 3, channels=32)) == (
        "node: its reduce loops over channels are none; an operation across lanes needs one, of a multiple of the "
        "machine's 16 lanes"
    )


def test_words_are_reduced_whole() -> None:
    assert refusal(program(across_lanes(Op.LANES_MAX, LARGEST), Access("x", (BATCH, SUMMED, ROW, COLUMN)), 20)) == (
        "node: its reduce loops over channels are i of 20; an operation across lanes needs one, of a multiple of the "
        "machine's 16 lanes"
    )


def test_a_value_of_each_channel_is_not_read_by_all() -> None:
    """The first channel of a tensor is in the first lane only; a reduction across lanes would be in all of them."""
    first = program(across_lanes(Op.LANES_MAX, LARGEST), Access("x", (BATCH, SUMMED, ROW, COLUMN)), 32, channels=32)
    (nest,) = first.nests
    one = make(Op.MAX, nest.expr, source("b", INT8.interval))
    reads = {**nest.reads, "b": Access("x", (BATCH, axis(), ROW, COLUMN))}
    assert refusal(replace(first, nests=(replace(nest, expr=one, reads=reads),))) == (
        "node: no instruction of vector16 computes `max(act, b)`; add one to the machine's instructions"
    )


def test_a_reduction_takes_no_value_that_is_computed_for_each_of_its_iterations() -> None:
    """An instruction before it would leave one word for all of them."""
    both = make(Op.MAX_OVER, make(Op.MAX, source("a", INT8.interval), source("b", INT8.interval)))
    window = Access("x", (BATCH, CHANNEL, axis(("y", 1), ("i", 1)), COLUMN), 0)
    largest = program(both, window, 3, channels=32)
    (nest,) = largest.nests
    assert refusal(replace(largest, nests=(replace(nest, reads={"a": window, "b": window}),))) == (
        "node: no instruction of vector16 computes `max_over(max(a, b))`; add one to the machine's instructions"
    )
