"""Nests that are alike have one likeness: only names and values differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.space import Correction
from tilewright.compiler.select.bindings import Parameters, TensorRead
from tilewright.compiler.select.select import select
from tilewright.compiler.tiling.likeness import likeness
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.shape import NestShape, Within

OF = machine("tiny8")
LANES = OF.lanes


def network(seed: int = 0, zero: int = 3, names: str = "") -> NestProgram:
    """A convolution of several weight tiles, behind others that only make names longer."""
    network = network_for(OF, seed)
    x = network.input(1, 2 * LANES, 6, 6)
    for _ in names:
        x = network.conv(x, 2 * LANES, (1, 1))
    return network.program(network.conv(x, 2 * LANES, (3, 3), pad=1, zero=zero))


def last_shape(program: NestProgram) -> NestShape:
    return Planner(select(program, OF), TilingOptions(residency="none")).plan().shapes[-1]


def of_last(program: NestProgram) -> object:
    return likeness(last_shape(program), program)


def test_other_weights_zero_points_and_names_are_alike() -> None:
    one = of_last(network())
    assert of_last(network(seed=1)) == one
    assert of_last(network(zero=7)) == one
    assert of_last(network(names="two")) == one


def test_weight_tiles_of_zeros_are_seen() -> None:
    program = network()
    weights = program.constants["conv0.w"].copy()
    weights[:, LANES:] = 0
    assert of_last(replace(program, constants={**program.constants, "conv0.w": weights})) != of_last(program)
    weights = np.where(program.constants["conv0.w"] == 5, 0, program.constants["conv0.w"])
    assert of_last(replace(program, constants={**program.constants, "conv0.w": weights})) == of_last(program)


def with_step(**changes: object) -> Callable[[NestShape], NestShape]:
    """A change of the last instruction."""

    def change(shape: NestShape) -> NestShape:
        *others, last = shape.cover.steps
        steps = (*others, replace(last, **changes))  # type: ignore[arg-type]
        return replace(shape, cover=replace(shape.cover, steps=steps))

    return change


def with_other_fields(shape: NestShape) -> NestShape:
    """The parameters of the last instruction have a number in place of a tensor."""
    last = shape.cover.steps[-1]
    inputs = {
        name: replace(bound, fields={**bound.fields, "shift": 9}) if isinstance(bound, Parameters) else bound
        for name, bound in last.inputs.items()
    }
    assert inputs != last.inputs
    return with_step(inputs=inputs)(shape)


OTHERS: dict[str, Callable[[NestShape], NestShape]] = {
    "another instruction": with_step(format=OF.format("add")),
    "another operand": lambda shape: with_step(inputs={**shape.cover.steps[-1].inputs, "a": TensorRead("x")})(shape),
    "other parameters": with_other_fields,
    "a product with a number": with_step(corrections=(Correction(1, True),)),
    "more words": with_step(words=99),
    "words of a block": with_step(word_loop="r"),
    "a step less": lambda shape: replace(shape, cover=replace(shape.cover, steps=shape.cover.steps[:1])),
    "no weights": lambda shape: replace(shape, weights=None),
    "a result that stays": lambda shape: replace(shape, stores_result=False),
    "a result that has its place": lambda shape: replace(shape, result_on_chip=True),
    "a tensor on chip": lambda shape: replace(shape, off_chip=frozenset()),
    "parameters of pixels": lambda shape: replace(shape, pixel_blocks={(0, "p"): 1}),
    "another nest in its tiles": lambda shape: replace(shape, within=(Within(0, "x", shape, 1),)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_differs_is_not_alike(case: str) -> None:
    program = network()
    shape = last_shape(program)
    assert likeness(OTHERS[case](shape), program) != likeness(shape, program)
