"""Systolic arrays: they multiply vectors with weight tiles and add up the products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tilewright.isa.key_kinds import SIZE, Key
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import FloatType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Direction, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.templates.facet import Facet
from tilewright.isa.templates.work import BlockAccess, Task, Work
from tilewright.isa.timing import MMA_WEIGHT_LEAD, mma_read, mma_tile, mma_write

_ROWS = Key(SIZE, "Its own rows, a multiple of lanes; those of `array` if left out.", is_needed=False)
_COLS = Key(SIZE, "Its own columns, a multiple of lanes; those of `array` if left out.", is_needed=False)


class SystolicFacet(Facet):
    """Instructions that multiply; all of a machine use the same memories."""

    adds_in_memory = True

    def keys(self, direction: Direction | None) -> Mapping[str, Key]:
        return {"rows": _ROWS, "cols": _COLS}

    def settings(
        self, direction: Direction | None, said: Mapping[str, int], array: Systolic | None, lanes: int
    ) -> Systolic | None:
        sizes = {} if array is None else {"rows": array.rows, "cols": array.cols}
        sizes |= said
        return Systolic(sizes["rows"], sizes["cols"]) if len(sizes) == len(self.keys(direction)) else None

    def violations(self, format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
        assert isinstance(format.engine.settings, Systolic)
        yield from _violations(format, memories, format.engine.settings)

    def disagreements(self, formats: Sequence[InstructionFormat]) -> Iterator[tuple[str, str]]:
        for format in formats[1:]:
            if [operand.memory for operand in format.operands] != [operand.memory for operand in formats[0].operands]:
                message = f"uses other memories than {formats[0].mnemonic}; the array is wired to one set"
                yield format.mnemonic, message

    def row_by_row(self, format: InstructionFormat) -> Operand:
        return systolic_weights(format)

    def sizes_of_values(self, machine: Machine) -> tuple[int, ...]:
        return machine.array.rows, machine.array.cols

    def work(self, machine: Machine, task: Task) -> Work:
        """Every tile streams its vectors, and takes at least as long as the rows of the next one.

        Every product is written to its sum, and all but the first of a sum are added to what it was.
        """
        format, outer, vectors = task.format, tile_loops(task.format), task.iterations
        tiles, of_each = prod(task.trips[:outer]), prod(task.trips[outer:])
        array = format.engine.array
        rows, read = tiles * array.rows, mma_read(array)
        busy = MMA_WEIGHT_LEAD + (tiles - 1) * max(of_each, mma_tile(array)) + of_each
        complete = busy + mma_write(array)
        added = vectors if task.adds else vectors - vectors // task.reduced
        accesses = (
            BlockAccess(systolic_activations(format), vectors, 0, busy),
            BlockAccess(systolic_weights(format), rows, 0, busy),
            BlockAccess(format.destination, added, read, read + busy, is_first=True),
            BlockAccess(format.destination, vectors, complete - busy, complete, is_write=True, is_first=True),
        )
        return Work(busy, complete, accesses, vectors=vectors, weight_rows=rows)

    def meaning(self, format: InstructionFormat, machine: Machine) -> Iterator[str]:
        a, w = systolic_activations(format).name, systolic_weights(format).name
        element = "col, row" if is_transposing(format) else "row, col"
        old = f"{format.destination.name}[col] · accumulate + " if format.has_accumulate else ""
        wraps = next(node for node in walk(format.statement.expr) if node.op is Op.WRAP)
        columns = format.engine.array.cols * sums_of_a_column(format, machine.memories)
        yield f"  for all col < {columns}:"
        yield (
            f"    {format.destination.name}[col] ← wrap_{wraps.type}({old}Σ[{', '.join(format.reduce_loops)}, "
            f"row < {format.engine.array.rows}] {a}[row] · {w}[{element}])"
        )

    def timing(self, format: InstructionFormat, machine: Machine) -> str:
        count = tile_loops(format)
        tiles = "·".join(f"trip.{loop.name}" for loop in format.loops[:count]) or "1"
        vectors = "·".join(f"trip.{loop.name}" for loop in format.loops[count:]) or "1"
        least, write = mma_tile(format.engine.array), mma_write(format.engine.array)
        return (
            f"there are T = {tiles} weight tiles of V = {vectors} vectors. A tile takes max(V, {least}) cycles, "
            f"so the array is never idle between tiles if V ≥ {least}. Without port conflicts, the instruction "
            f"completes (T - 1) · max(V, {least}) + V + {MMA_WEIGHT_LEAD + write + 1} cycles after "
            "its start."
        )

    def each_word(self, operand: Operand, format: InstructionFormat) -> str:
        if operand is not systolic_weights(format):
            return ""
        return f", one for each {'column' if is_transposing(format) else 'row'} of the array"


def tile_loops(format: InstructionFormat) -> int:
    """How many outer loops of a systolic instruction choose the weight tile; the others stream vectors through it."""
    weights = systolic_weights(format)
    for count, loop in enumerate(format.loops):
        if loop.name not in weights.loops:
            return count
    return len(format.loops)


def systolic_activations(format: InstructionFormat) -> Operand:
    """The operand that streams through the array: the first argument of `dot`."""
    return format.operand(_dot_arguments(format)[0])


def systolic_weights(format: InstructionFormat) -> Operand:
    """The operand that stays in the array: the second argument of `dot`, transposed or not."""
    return format.operand(_dot_arguments(format)[1])


def sums_of_a_column(format: InstructionFormat, memories: Mapping[str, Memory]) -> int:
    """How many sums each column of the array makes: one, or several of weights as narrow as that."""
    memory, w = memories[systolic_weights(format).memory], systolic_weights(format)
    whole = memory.width * memory.element.bits // w.element.bits
    return max(1, whole // format.engine.array.cols)


def is_transposing(format: InstructionFormat) -> bool:
    """Whether an instruction's dot product is with the elements of each word of the weights: `transpose(w)`."""
    return any(node.op is Op.TRANSPOSE for node in walk(format.statement.expr))


def _dot_arguments(format: InstructionFormat) -> tuple[str, str]:
    dot = format.statement.dot
    assert dot is not None, format.mnemonic
    return dot.args[0].name, _matrix(dot).name


def _matrix(dot: Expr) -> Expr:
    """What is inside of `transpose`, if that is the second argument."""
    return dot.args[1].args[0] if dot.args[1].op is Op.TRANSPOSE else dot.args[1]


def _violations(format: InstructionFormat, memories: Mapping[str, Memory], array: Systolic) -> Iterator[str]:
    rows, cols = array.rows, array.cols
    c = format.destination
    expr = format.statement.expr
    match (expr.op, expr.args[0].op if expr.args else None):
        case (Op.WRAP, Op.SUM) if expr.args[0].args[0].op is Op.DOT:
            dot = expr.args[0].args[0]
        case _:
            yield f"a systolic engine computes `{c.name} = wrap(sum(dot(a, w)), {c.memory})`, or with transpose(w)"
            return
    arguments = (dot.args[0], _matrix(dot))
    if any(arg.op is not Op.SOURCE or arg.field for arg in arguments) or arguments[0].name == arguments[1].name:
        yield "dot takes two operands, activations then weights"
        return
    if len(format.sources) != 2 or format.immediates:
        yield "a systolic engine has two sources and no imm"
    if expr.type != c.element.type:
        yield f"the sum wraps into {expr.type}, but {c.name} holds {c.element.type or 'a structure'}"
    a, w = systolic_activations(format), systolic_weights(format)
    if isinstance(a.element.type, FloatType) != isinstance(w.element.type, FloatType):
        yield (
            f"{a.name} holds {a.element.type} and {w.name} {w.element.type}; the array multiplies integers by "
            "integers, and floating numbers by floating ones"
        )
    sums = cols * sums_of_a_column(format, memories)
    columns = "cols" if sums == cols else f"{sums // cols} * cols"
    for operand, elements, role in ((a, rows, "rows"), (c, sums, columns)):
        width = memories[operand.memory].width
        if operand.block * width != elements:
            yield (
                f"operand {operand.name} is {operand.block} words of {width} elements; the array moves "
                f"{role} = {elements} elements a cycle: say `{role} // {width} * {operand.memory}[…]`"
            )
    if w.block != rows or memories[w.memory].width * memories[w.memory].element.bits != sums * w.element.bits:
        yield f"operand {w.name} must be rows = {rows} words of cols = {cols} elements: say `rows * {w.memory}[…]`"
    if is_transposing(format) and sums != cols:
        yield f"transpose({w.name}) needs words of cols = {cols} elements, and one of {w.name} has {sums}"
    elif is_transposing(format) and rows != cols:
        yield (
            f"transpose({w.name}) needs rows = cols, and the array has rows = {rows}, cols = {cols}; "
            "say `if: rows == cols` to have the instruction on square arrays only"
        )
    if w.memory == c.memory:
        yield f"{w.name} and {c.name} are both in {c.memory}; weights and sums need memories of their own"
    count = tile_loops(format)
    for loop in format.loops[count:]:
        if loop.name in w.loops:
            yield f"the weights {w.name} stride over {loop.name}, inside a loop that they do not; move {loop.name} out"
        if loop.is_reduce:
            yield f"the array cannot reduce over {loop.name}: it streams vectors; reduce only over loops of {w.name}"
    for name in format.reduce_loops:
        if name in c.loops:
            yield f"{c.name} strides over the reduce loop {name}; leave {name} out of its list"
