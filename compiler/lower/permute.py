"""`permute` as nests: copies of whole words, exchanges of channels and pixels, and products that pick channels.

`compiler.lower.permute_steps` decides which of them, and with which buffers between.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.element_order import order_of
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, Operator
from tilewright.compiler.lower.matmul import transposition
from tilewright.compiler.lower.moves import picking, refolded, selector
from tilewright.compiler.lower.network import SPACE, LoweringNetwork, Spread, affine, result_loops
from tilewright.compiler.lower.permute_steps import JoinedFactors, PermuteStep, StepKind, steps_of
from tilewright.compiler.lower.product_types import is_sum
from tilewright.compiler.lower.products import product_nest
from tilewright.compiler.nest.nest import Access, Affine, Nest
from tilewright.isa.program.stored_types import COMPUTED_NAMES

Loops = dict[str, JoinedFactors]
"""The runs that loops walk along."""


def lower_permute(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """The steps from operand to result, one after the other; raises CompileError where there are none."""
    x, y = operator.inputs[0], operator.outputs[0]
    steps = None
    if not is_sum(x, network):
        order = order_of(operator.attributes["shape"], operator.attributes["axes"])
        steps = steps_of(order, network.shape(x), network.shape(y), network.lanes)
        if steps is None and _only_rows_change(operator, network):
            return _by_way_of_one_row(operator, network)
    if steps is None:
        raise CompileError(
            operator,
            f"moves the elements of {list(network.shape(x))} to {list(network.shape(y))} in a way that the machine "
            "has no steps for",
            expected=f"{COMPUTED_NAMES}, and dimensions whose parts move as wholes",
        )
    nests: list[Nest] = []
    source = network.buffer_of[x]
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        shape = step.result.shape
        target = network.buffer_of[y] if is_last else network.add_buffer(f"{operator.name}.step{position}", shape)
        name = operator.name if len(steps) == 1 else f"{operator.name}.step{position}"
        nests += _nests(name, operator, step, source, target, network)
        if is_last and step.kind is StepKind.PICK and _keeps_pixels(step):
            channels = np.array(_picked(step, {}))
            network.spreads[target] = Spread(source, channels, step.source.shape[CHANNEL])
        source = target
    return nests


def _only_rows_change(operator: Operator, network: LoweringNetwork) -> bool:
    """Whether the elements stay in order, and batches and channels as they are: 3×13 pixels become 13×3."""
    before, after = (network.shape(name) for name in (operator.inputs[0], operator.outputs[0]))
    axes = operator.attributes["axes"]
    return tuple(axes) == tuple(range(len(axes))) and before[:ROW] == after[:ROW]


def _by_way_of_one_row(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    x, y = operator.inputs[0], operator.outputs[0]
    before, after = network.shape(x), network.shape(y)
    batches, channels, rows, columns = before
    flat = (batches, channels, 1, rows * columns)
    row = network.add_buffer(f"{operator.name}.row", flat)
    return [
        refolded(f"{operator.name}.join", operator, network.buffer_of[x], row, before, flat, network),
        refolded(f"{operator.name}.cut", operator, row, network.buffer_of[y], flat, after, network),
    ]


def _nests(
    name: str, operator: Operator, step: PermuteStep, source: str, target: str, network: LoweringNetwork
) -> list[Nest]:
    """The nests of a step: for each combination of the unrolled indices one, or those of one exchange."""
    nests: list[Nest] = []
    matrices: dict[tuple[int, ...], str] = {}
    loops = _named(step)
    trips = tuple(loops[loop].size if loop in loops else 1 for loop in SPACE)
    for position, indices in enumerate(np.ndindex(*(run.size for run in step.unrolled))):
        part = name if step.nests == 1 else f"{name}.part{position}"
        at = dict(zip(step.unrolled, map(int, indices), strict=True))
        read = Access(source, _indices(loops, at, is_result=False))
        write = Access(target, _indices(loops, at, is_result=True))
        match step.kind:
            case StepKind.COPY:
                expr = network.activation("a")
                nests.append(Nest(part, operator.nodes, result_loops(trips), {"a": read}, write, expr, 0))
            case StepKind.EXCHANGE:
                nests += transposition(part, operator, trips, read, write, network)
            case StepKind.PICK:
                channels = tuple(_picked(step, at))
                if channels not in matrices:
                    matrices[channels] = selector(name, channels, step.source.shape[CHANNEL], network)
                read, write = _over(read, affine(("i", 1))), _over(write, affine(("o", 1)))
                along = (trips[BATCH], len(channels), *trips[ROW:])
                _, zero = network.quantization(operator.outputs[0])
                made = picking(matrices[channels], read, along, write, zero, network)
                nests.append(product_nest(part, operator, made, 0, network))
            case _:
                assert_never(step.kind)
    return nests


def _named(step: PermuteStep) -> Loops:
    """The loops n, o, y and x over the dimensions of the result; in an exchange, x walks along the former channels."""
    names = dict(enumerate(SPACE))
    if step.kind is StepKind.EXCHANGE:
        others = [dimension for dimension in (BATCH, ROW, COLUMN) if dimension != step.leaving]
        names = {CHANNEL: "o", step.leaving: "x", others[0]: "n", others[1]: "y"}
    return {names[d]: run for d, run in enumerate(step.loops) if run is not None}


def _indices(loops: Loops, at: dict[JoinedFactors, int], is_result: bool) -> tuple[Affine, ...]:
    """An access's index in each dimension: along the loops, from where the unrolled indices put it."""
    terms: list[list[tuple[str, int]]] = [[], [], [], []]
    constants = [0, 0, 0, 0]
    for loop in SPACE:
        if loop in loops:
            dimension, step = loops[loop].result if is_result else loops[loop].source
            terms[dimension].append((loop, step))
    for run, index in at.items():
        dimension, step = run.result if is_result else run.source
        constants[dimension] += index * step
    return tuple(affine(*moving, constant=constant) for moving, constant in zip(terms, constants, strict=True))


def _over(access: Access, channels: Affine) -> Access:
    """The access with another index of channels."""
    return Access(access.tensor, (access.index[BATCH], channels, *access.index[ROW:]))


def _picked(step: PermuteStep, at: dict[JoinedFactors, int]) -> list[int]:
    """For each channel of the result the channel of the source that it is, at these unrolled indices."""
    first = sum(index * run.source[1] for run, index in at.items() if run.source[0] == CHANNEL)
    channels = np.full(step.result.shape[CHANNEL], first)
    for run in step.picked:
        index = np.arange(len(channels)) // run.result[1] % run.size
        channels += index * run.source[1]
    return [int(channel) for channel in channels]


def _keeps_pixels(step: PermuteStep) -> bool:
    """Whether only channels change their places."""
    runs = (run for run in step.loops if run is not None)
    return not step.unrolled and all(run.source == run.result for run in runs)
