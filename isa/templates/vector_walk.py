"""What a vector engine goes through in an instruction: its iterations, and of a product each row of a weight tile.

A cycle takes an element of the vector, the same for all lanes, and a word of the tile. Example: `dot(a, w)` of a vector
of 16 elements with a tile of 16 words takes 16 cycles. The rows are one more loop, inside all others, which only the
tile moves over; it is reduced, as `dot` is a sum. Instructions of other engines are walked as they are written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.isa.machine.encoding import InstructionFormat, Loop, Operand
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights
from tilewright.isa.timing import vec_beats

ROWS = "rows of a tile"
"""The name of the loop over them; no loop of a machine file can have it."""


@dataclass(frozen=True, slots=True)
class VectorWalk:
    """The loops of an instruction as they are walked, outermost first, and what its operands move over.

    `rows` is the trip count of the loop over rows; 1 where there is none. `streams` and `sources` are those of the
    format, but a tile of weights is a word here.
    """

    loops: tuple[Loop, ...]
    reduce_loops: frozenset[str]
    sources: tuple[Operand, ...]
    streams: tuple[Operand, ...]
    rows: int


def vector_walk(format: InstructionFormat) -> VectorWalk:
    """The walk of an instruction."""
    reduced, rows = frozenset(format.reduce_loops), vec_beats(format)
    if rows == 1:
        return VectorWalk(format.loops, reduced, format.sources, format.streams, rows)
    tile = systolic_weights(format)
    word = replace(tile, block=1, loops=(*tile.loops, ROWS))
    sources = tuple(word if source is tile else source for source in format.sources)
    loop = Loop(ROWS, (rows - 1).bit_length(), is_reduce=True)
    return VectorWalk((*format.loops, loop), reduced | {ROWS}, sources, sources, rows)


def multiplied_by_element(format: InstructionFormat) -> Operand | None:
    """The vector of which a cycle takes one element, the same for all lanes."""
    return None if format.statement.dot is None else systolic_activations(format)
