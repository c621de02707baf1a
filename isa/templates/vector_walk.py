"""What a vector engine goes through in an instruction: its iterations, and within them what it takes one by one.

The rows of a weight tile: a cycle takes an element of the vector, the same for all lanes, and a word of the tile.
Example: `dot(a, w)` of a vector of 16 elements with a tile of 16 words takes 16 cycles. The rows are one more loop,
inside all others, which only the tile moves over; it is reduced, as `dot` is a sum.

The parts of a word: an engine with fewer lanes than a word has elements takes as many elements in a cycle as it has
lanes. Example: 4 lanes take words of 16 elements in 4 parts. The parts are a loop outside of the reduce loops and
inside all others, so a lane sums up one element at a time. No operand moves over it. The result is written with the
last part.

Instructions of other engines are walked as they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import ACROSS_LANES
from tilewright.isa.machine.encoding import InstructionFormat, Loop, Operand
from tilewright.isa.machine.engine import Template
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights
from tilewright.isa.timing import vec_rows

ROWS = "rows of a tile"
PARTS = "parts of a word"
"""The names of the loops over them; no loop of a machine file can have these."""


@dataclass(frozen=True, slots=True)
class VectorWalk:
    """The loops of an instruction as they are walked, outermost first, and what its operands move over.

    `reduce_loops` are those that a lane sums up over. `streams` and `sources` are those of the format, but a tile of
    weights is a word here. `counts` has the trip counts of the loops that have no field: over rows, over parts.
    """

    loops: tuple[Loop, ...]
    reduce_loops: frozenset[str]
    sources: tuple[Operand, ...]
    streams: tuple[Operand, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Words of a weight tile, 1 where there is none."""
        return self.counts.get(ROWS, 1)

    @property
    def groups(self) -> Mapping[str, frozenset[str]]:
        """`reduce`: the loops over which a lane's result is made. `word`: those over which a word is."""
        parts = frozenset({PARTS}) & self.counts.keys()
        return {"reduce": self.reduce_loops} | ({"word": self.reduce_loops | parts} if parts else {})


def vector_walk(format: InstructionFormat) -> VectorWalk:
    """The walk of an instruction."""
    written = VectorWalk(format.loops, frozenset(format.reduce_loops), format.sources, format.streams)
    if format.engine.template is not Template.VECTOR:
        return written
    return _in_parts(_row_by_row(written, format), format.engine.vector.parts)


def _row_by_row(written: VectorWalk, format: InstructionFormat) -> VectorWalk:
    rows = vec_rows(format)
    if rows == 1:
        return written
    tile = systolic_weights(format)
    word = replace(tile, block=1, loops=(*tile.loops, ROWS))
    sources = tuple(word if source is tile else source for source in written.sources)
    loops = (*written.loops, _loop(ROWS, rows))
    return VectorWalk(loops, written.reduce_loops | {ROWS}, sources, sources, {ROWS: rows})


def _in_parts(whole: VectorWalk, parts: int) -> VectorWalk:
    if parts == 1:
        return whole
    outer = sum(loop.name not in whole.reduce_loops for loop in whole.loops)
    loops = (*whole.loops[:outer], _loop(PARTS, parts), *whole.loops[outer:])
    return replace(whole, loops=loops, counts={**whole.counts, PARTS: parts})


def _loop(name: str, count: int) -> Loop:
    return Loop(name, (count - 1).bit_length(), is_reduce=True)


def multiplied_by_element(format: InstructionFormat) -> Operand | None:
    """The vector of which a cycle takes one element, the same for all lanes."""
    return None if format.statement.dot is None else systolic_activations(format)


def is_same_in_all_lanes(format: InstructionFormat) -> bool:
    """Whether a word is taken in parts and its result is there with the last: it is of all lanes, and equal in each."""
    is_across = any(node.op in ACROSS_LANES for node in walk(format.statement.expr))
    return is_across and format.engine.vector.parts > 1
