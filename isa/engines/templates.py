"""What each engine template can do: the form that an instruction's nest and statement must have to run on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from tilewright.isa.errors import listed
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import REDUCTION_WORDS, REDUCTIONS, Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Dma, Systolic, Template, Vector
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.timing import in_pipeline, operator_starts


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


def violations(format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
    """Why an instruction's engine cannot run it: nothing if it can."""
    match format.engine.settings:
        case Dma():
            yield from _dma(format)
        case Systolic(rows, cols):
            yield from _systolic(format, memories, rows, cols)
        case Vector(lanes):
            yield from _vector(format, memories, lanes)
        case _ as never:
            assert_never(never)


def _dma(format: InstructionFormat) -> Iterator[str]:
    if len(format.sources) != 1 or (format.sources[0].memory == DRAM) == (format.destination.memory == DRAM):
        yield "a dma engine moves one operand, with dram at one end and an on-chip memory at the other"
    if format.statement.expr.op is not Op.SOURCE or format.immediates or format.reduce_loops or format.has_accumulate:
        yield "a dma engine only moves: expected `destination = source`, no reduce, no imm, no flags"
    for operand in format.operands:
        if operand.block != 1:
            yield f"operand {operand.name} is a block of {operand.block} words; a dma engine moves one word a step"


def _systolic(format: InstructionFormat, memories: Mapping[str, Memory], rows: int, cols: int) -> Iterator[str]:
    c = format.destination
    expr = format.statement.expr
    match (expr.op, expr.args[0].op if expr.args else None):
        case (Op.WRAP, Op.SUM) if expr.args[0].args[0].op is Op.DOT:
            dot = expr.args[0].args[0]
        case _:
            yield f"a systolic engine computes `{c.name} = wrap(sum(dot(a, w)), int32)`, or with transpose(w)"
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
    for operand, elements, role in ((a, rows, "rows"), (c, cols, "cols")):
        width = memories[operand.memory].width
        if operand.block * width != elements:
            yield (
                f"operand {operand.name} is {operand.block} words of {width} elements; the array moves "
                f"{role} = {elements} elements a cycle: say `{role} // {width} * {operand.memory}[…]`"
            )
    if w.block != rows or memories[w.memory].width != cols:
        yield f"operand {w.name} must be rows = {rows} words of cols = {cols} elements: say `rows * {w.memory}[…]`"
    if is_transposing(format) and rows != cols:
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


def _vector(format: InstructionFormat, memories: Mapping[str, Memory], lanes: int) -> Iterator[str]:
    for operand in format.operands:
        if operand.memory == DRAM:
            yield f"operand {operand.name}: a vector engine does not reach dram"
        elif memories[operand.memory].width != lanes:
            yield (
                f"operand {operand.name}: a word of {operand.memory} has {memories[operand.memory].width} elements; "
                f"a vector engine needs lanes = {lanes}"
            )
        if operand.block != 1 and operand not in format.tables and operand.name not in format.statement.blocks:
            yield (
                f"operand {operand.name} is a block of {operand.block} words; a vector engine takes one an iteration, "
                f"or looks up in it: lut({operand.name}, …), or takes all of them: words_sum({operand.name})"
            )
    yield from _tables(format)
    if format.has_accumulate:
        yield "a vector engine has no accumulate flag"
    if any(node.op is Op.DOT for node in walk(format.statement.expr)):
        yield "dot needs a systolic engine; a vector engine works lane by lane"
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


def _tables(format: InstructionFormat) -> Iterator[str]:
    if format.sources != (*format.streams, *format.tables):
        yield f"in `from:`, tables ({_names(format.tables)}) come after the other sources"
    lookups = [format.operand(node.name).memory for node in set(walk(format.statement.expr)) if node.op is Op.LUT]
    for memory in sorted({memory for memory in lookups if lookups.count(memory) > 1}):
        yield (
            f"{lookups.count(memory)} lookups in {memory}, which gives each lane one element a cycle; put each table "
            "into a memory of its own"
        )


def table_violations(formats: Sequence[InstructionFormat], memories: Mapping[str, Memory]) -> Iterator[tuple[str, str]]:
    """(mnemonic, what is wrong) of instructions that cannot share a memory with the lookups in it."""
    first: dict[str, tuple[InstructionFormat, int]] = {}
    for format in formats:
        for node, stage in operator_starts(in_pipeline(format.statement.expr)).items() if format.tables else ():
            if node.op is not Op.LUT:
                continue
            name = format.operand(node.name).memory
            other, other_stage = first.setdefault(name, (format, stage))
            if memories[name].banks != 1:
                yield format.mnemonic, f"{name} has {memories[name].banks} banks; a memory of tables has 1"
            if stage != other_stage:
                yield (
                    format.mnemonic,
                    f"looks up in {name} at stage {stage}, {other.mnemonic} at stage {other_stage}; {name} gives each "
                    "lane one element a cycle: put one of the tables into a memory of its own",
                )
    for format in formats:
        reads = [*format.streams, *([format.destination] if format.engine.template is Template.SYSTOLIC else [])]
        for operand in reads:
            if operand.memory in first:
                yield (
                    format.mnemonic,
                    f"reads {operand.memory} as {operand.name}, but it is a memory of tables: "
                    f"{first[operand.memory][0].mnemonic} looks up in it, and nothing else can read it",
                )


def _names(operands: Sequence[Operand]) -> str:
    return " and ".join(operand.name for operand in operands)
