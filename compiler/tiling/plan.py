"""What is decided for a program before any operation is made: what stays on chip, and how each nest is cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.select.bindings import TensorRead
from tilewright.compiler.select.cover import Cover, Selection
from tilewright.compiler.tiling.choice import TileChoice
from tilewright.compiler.tiling.residency import Residency
from tilewright.compiler.tiling.shape import NestShape
from tilewright.isa.program.program import Layer


@dataclass(frozen=True)
class Plan:
    """The decisions for a program; `shapes` and `choices` have one entry for each nest."""

    memory: str  # where tensors that stay on chip live
    sum_memory: str  # where those of sums do
    residency: Residency
    shapes: tuple[NestShape, ...]
    choices: tuple[TileChoice, ...]
    within: Mapping[int, int]  # nests that are computed in the tiles of another one, by position
    live: Mapping[str, range]  # the nests from the first to the last that use a tensor, by position
    layers: tuple[Layer, ...]  # the nests as layers of the program
    looks: tuple[CanonicalForm, ...]  # equal for nests that are alike
    arrays: int | None  # so many share the work; None: all


def memory_read(shape: NestShape, constants: Collection[str], otherwise: str) -> str:
    """The memory that a nest reads computed tensors from, other than what is computed within it; or `otherwise`."""
    cover, within = shape.cover, shape.reads_within
    for step in cover.steps:
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            if not isinstance(bound, TensorRead) or bound.read in within:
                continue
            if cover.nest.reads[bound.read].tensor not in constants:
                return operand.memory
    return otherwise


def read_in_blocks(covers: Sequence[Cover]) -> frozenset[str]:
    """The tensors of which some nest reads blocks of words."""
    return frozenset(cover.nest.reads[read].tensor for cover in covers for read in cover.block_reads)


def sums_for_others(selection: Selection, within: Mapping[int, int]) -> dict[str, int]:
    """The tensors of sums that the array leaves in parts for other nests, and the most words that it writes at once.

    Several nests write them, each a part, as the sums of blocks of weights, and the last instruction of each is the
    array's own: nothing else would leave them in its memory until another nest has read them.
    """
    program, found = selection.program, dict[str, int]()
    ends = {tensor.name for tensor in (*program.inputs, *program.outputs)}
    parts: dict[str, list[int]] = {}
    for position, nest in enumerate(program.nests):
        parts.setdefault(nest.result.tensor, []).append(position)
    for tensor, positions in parts.items():
        covers = [selection.covers[position] for position in positions]
        is_plain = all(len(cover.steps) == 1 and cover.dot is not None for cover in covers)
        if len(positions) > 1 and is_plain and tensor not in ends and not within.keys() & {*positions}:
            found[tensor] = max(cover.steps[0].format.destination.block for cover in covers)
    return found
