"""Vector engines: they compute what their instructions' statements say, lane by lane.

An instruction goes through its iterations, and within them through what it takes one by one:

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.isa.errors import listed
from tilewright.isa.key_kinds import SIZE, Key, WholeNumber
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import FloatType
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTION_WORDS, REDUCTIONS, Op
from tilewright.isa.machine.encoding import InstructionFormat, Loop, Operand
from tilewright.isa.machine.engine import Direction, Systolic, Template, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.mathematics import statement_mathematics
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.machine.products import adds_product, is_product
from tilewright.isa.templates.datapath_schedule import bind, schedule
from tilewright.isa.templates.facet import Facet
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights
from tilewright.isa.templates.work import BlockAccess, Task, Work
from tilewright.isa.timing import format_stages, pipeline_nodes, vec_beats, vec_rows, vec_write

_RESULTS = Key(
    WholeNumber(1, 64),
    "Results that may wait where the array writes too; enough for one each cycle if left out.",
    is_needed=False,
)

_LANES = Key(
    SIZE,
    "Its own lanes, which divide `lanes`: 4 take four cycles for a word of 16; as many as `lanes` if left out.",
    is_needed=False,
)


class VectorFacet(Facet):
    """Instructions that compute; their statements make the datapath."""

    def keys(self, direction: Direction | None) -> Mapping[str, Key]:
        return {"lanes": _LANES, "results": _RESULTS}

    def settings(
        self, direction: Direction | None, said: Mapping[str, int], array: Systolic | None, lanes: int
    ) -> Vector:
        own = said.get("lanes", lanes)
        parts = 1 if lanes % own else lanes // own  # the reader complains of lanes that do not divide a word
        return Vector(lanes // parts, said.get("results"), parts)

    def violations(self, format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
        yield from _violations(format, memories, format.engine.vector.word)
        if format.engine.vector.parts > 1:
            yield from _across_parts(format)

    def each_word(self, operand: Operand, format: InstructionFormat) -> str:
        return ", one for each element of the vector" if operand is self.row_by_row(format) else ""

    def elements_computed(self, machine: Machine) -> int:
        return machine.lanes

    def stages(self, format: InstructionFormat) -> int:
        return format_stages(format)

    def row_by_row(self, format: InstructionFormat) -> Operand | None:
        return None if format.statement.dot is None else systolic_weights(format)

    def work(self, machine: Machine, task: Task) -> Work:
        """A result is there when the last word that it depends on was read."""
        format, beats, write = task.format, vec_beats(task.format), vec_write(task.format)
        iterations, reduced = task.iterations * beats, task.reduced * beats
        complete = iterations + write
        reads = [BlockAccess(source, iterations, 0, iterations) for source in format.streams]
        results = BlockAccess(format.destination, iterations // reduced, write + reduced - 1, complete, is_write=True)
        return Work(iterations, complete, (*reads, results), iterations=iterations)

    def meaning(self, format: InstructionFormat, machine: Machine) -> Iterator[str]:
        yield f"  in each of {machine.lanes} lanes:"  # of a word, whatever the engine's own are
        yield f"    {statement_mathematics(format)}"

    def timing(self, format: InstructionFormat, machine: Machine) -> str:
        rows, vector = vec_rows(format), format.engine.vector
        each = "" if rows == 1 else f", times {rows}: an iteration takes a word of its weight tile in each cycle"
        if vector.parts > 1:
            each += f", times {vector.parts}: {format.engine} has {vector.lanes} lanes for {vector.word} elements"
        return (
            f"let N be the number of iterations (the product of the trip counts{each}). They occupy the engine for N "
            f"cycles. The datapath has {self.stages(format)} stages for this statement. "
            f"Without port conflicts, the instruction completes N + {vec_write(format) + 1} cycles after its start."
        )

    def datapath(self, format: InstructionFormat, machine: Machine) -> Sequence[tuple[str, str, str]]:
        formats = machine.formats_of(format.engine)
        said = {new: old for old, new in pipeline_nodes(format.statement.expr).items()}
        rows = []
        for unit in bind(schedule(formats)):
            for operation in unit.operations:
                if formats[operation.format] is format:
                    others = [formats[other.format].mnemonic for other in unit.operations if other is not operation]
                    first, last = operation.stage + 1, operation.done_stage
                    stages = f"{first} to {last}" if first < last else str(last)
                    computes = said.get(operation.expr, operation.expr)
                    what = f"steps of `{computes}`" if computes.op.facts.is_implied else f"`{computes}`"
                    rows.append((operation.stage, (stages, what, ", ".join(others) or "none")))
        return [row for _, row in sorted(rows, key=lambda row: row[0])]


def _violations(format: InstructionFormat, memories: Mapping[str, Memory], lanes: int) -> Iterator[str]:
    tile = None
    if format.statement.dot is not None:
        yield from _product(format, lanes)
        tile = _tile(format.statement.dot)
    for operand in format.operands:
        if operand.memory == DRAM:
            yield f"operand {operand.name}: a vector engine does not reach dram"
        elif memories[operand.memory].width != lanes:
            yield (
                f"operand {operand.name}: a word of {operand.memory} has {memories[operand.memory].width} elements; "
                f"a vector engine needs lanes = {lanes}"
            )
        is_block = operand in format.tables or operand.name == tile or operand.name in format.statement.blocks
        if operand.block != 1 and not is_block:
            yield (
                f"operand {operand.name} is a block of {operand.block} words; a vector engine takes one an iteration, "
                f"or looks up in it: lut({operand.name}, …), or takes all of them: words_sum({operand.name})"
            )
    yield from _tables(format)
    if format.has_accumulate:
        yield "a vector engine has no accumulate flag"
    reduces = any(node.op in REDUCTIONS for node in walk(format.statement.expr))
    if reduces != bool(format.reduce_loops):
        words = listed(REDUCTION_WORDS, "and")
        yield f"{words} go with a `reduce:` list of loops, and a `reduce:` list with one of them"
    inner = tuple(loop.name for loop in format.loops[len(format.loops) - len(format.reduce_loops) :])
    if format.reduce_loops != inner:
        yield f"a vector engine reduces over its innermost loops; expected reduce: [{', '.join(inner)}]"
    for name in format.reduce_loops:
        if name in format.destination.loops:
            yield f"{format.destination.name} strides over the reduce loop {name}; give it a list without {name}"


def _across_parts(format: InstructionFormat) -> Iterator[str]:
    """What an engine with fewer lanes than a word has elements cannot compute.

    A sum over the lanes is there when the last part of the word has come, and is the result of all parts. So it takes
    all that the statement takes of operands.
    """
    expr, vector = format.statement.expr, format.engine.vector
    trees = [node for node in walk(expr) if node.op in ACROSS_LANES]
    if not trees:
        return
    outside = next((node for node in _outside_trees(expr) if node.op in (Op.SOURCE, Op.LUT, *REDUCTIONS)), None)
    inside = ((tree, node) for tree in trees for node in walk(tree.args[0]) if node.op in ACROSS_LANES)
    tree, nested = next(inside, (trees[0], None))
    if nested is None and outside is None:
        return
    what = f"nothing can be taken outside of it, as `{outside}` is"
    if nested is not None:
        what = f"nothing across lanes can be within it, as {nested.op.value} is"
    yield (
        f"{format.engine} has {vector.lanes} lanes for words of {vector.word} elements: {tree.op.value} is there when "
        f"the last part of a word has come, and {what}; split the statement into two instructions, or "
        f"give it to an engine of {vector.word} lanes"
    )


def _outside_trees(expr: Expr) -> Iterator[Expr]:
    """The nodes of an expression that are not below one across lanes."""
    if expr.op not in ACROSS_LANES:
        yield expr
        for arg in expr.args:
            yield from _outside_trees(arg)


def _product(format: InstructionFormat, lanes: int) -> Iterator[str]:
    """What a product must be: sums of a vector and a weight tile, as they are or added to one operand."""
    c, dot = format.destination, format.statement.dot
    assert dot is not None
    expected = f"{c.name} = wrap(sum(dot(a, w)), {c.element.type})"
    if format.statement.expr.type != c.element.type or not (is_product(format) or adds_product(format)):
        yield (
            f"a vector engine multiplies as `{expected}`, or `{c.name} = wrap(b + sum(dot(a, w)), {c.element.type})`; "
            "say in an instruction of its own what becomes of the sums"
        )
        return
    plain = [arg.name for arg in dot.args if arg.op is Op.SOURCE and not arg.field]
    if len(set(plain)) != len(dot.args):
        yield "in a vector engine, dot takes two operands, a vector and a weight tile; transpose needs an array"
        return
    for operand in map(format.operand, plain):
        if isinstance(operand.element.type, FloatType):
            yield f"operand {operand.name} holds {operand.element.type}, and a vector engine's dot multiplies integers"
    tile, added = format.operand(plain[1]), adds_product(format)
    if tile.block != lanes:
        yield (
            f"operand {tile.name} is {tile.block} word{'s' if tile.block > 1 else ''}; a vector of {lanes} elements is "
            f"multiplied with a tile of as many words: say `lanes * {tile.memory}[…]`"
        )
    if added is not None and added.name in plain:
        yield f"{added.name} is multiplied and added; give the sums that are added an operand of their own"
    for name in format.reduce_loops:
        if added is not None and name in added.loops:
            yield f"{added.name} strides over the reduce loop {name}; give it a list without {name}"


def _tile(dot: Expr) -> str:
    """The name of the operand that is a weight tile."""
    matrix = dot.args[1]
    return matrix.args[0].name if matrix.op is Op.TRANSPOSE else matrix.name


def _tables(format: InstructionFormat) -> Iterator[str]:
    if format.sources != (*format.streams, *format.tables):
        yield f"in `from:`, tables ({_names(format.tables)}) come after the other sources"
    lookups = [format.operand(node.name).memory for node in set(walk(format.statement.expr)) if node.op is Op.LUT]
    for memory in sorted({memory for memory in lookups if lookups.count(memory) > 1}):
        yield (
            f"{lookups.count(memory)} lookups in {memory}, which gives each lane one element a cycle; put each table "
            "into a memory of its own"
        )


def _names(operands: Sequence[Operand]) -> str:
    return " and ".join(operand.name for operand in operands)


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
