"""Vector engines: they compute what their instructions' statements say, lane by lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.isa.errors import listed
from tilewright.isa.key_kinds import Key, Whole
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import REDUCTION_WORDS, REDUCTIONS, Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Direction, Systolic, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.mathematics import statement_mathematics
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.templates.datapath_schedule import bind, schedule
from tilewright.isa.templates.facet import Facet
from tilewright.isa.templates.work import Access, Task, Work
from tilewright.isa.timing import pipeline_nodes, statement_stages, vec_write

_RESULTS = Key(
    Whole(1, 64),
    "Results that may wait where the array writes too; enough for one each cycle if left out.",
    is_needed=False,
)


class VectorFacet(Facet):
    """Instructions that compute; their statements make the datapath."""

    def keys(self, direction: Direction | None) -> Mapping[str, Key]:
        return {"results": _RESULTS}

    def settings(
        self, direction: Direction | None, said: Mapping[str, int], array: Systolic | None, lanes: int
    ) -> Vector:
        return Vector(lanes, said.get("results"))

    def violations(self, format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
        assert isinstance(format.engine.settings, Vector)
        yield from _violations(format, memories, format.engine.settings.lanes)

    def elements_computed(self, machine: Machine) -> int:
        return machine.lanes

    def stages(self, format: InstructionFormat) -> int:
        return statement_stages(format.statement.expr)

    def work(self, machine: Machine, task: Task) -> Work:
        """A result is there when the last word that it depends on was read."""
        format, iterations, write = task.format, task.iterations, vec_write(task.format)
        complete, reduced = iterations + write, task.reduced
        reads = [Access(source, iterations, 0, iterations) for source in format.streams]
        results = Access(format.destination, iterations // reduced, write + reduced - 1, complete, is_write=True)
        return Work(iterations, complete, (*reads, results), iterations=iterations)

    def meaning(self, format: InstructionFormat, machine: Machine) -> Iterator[str]:
        yield f"  in each of {machine.lanes} lanes:"
        yield f"    {statement_mathematics(format)}"

    def timing(self, format: InstructionFormat, machine: Machine) -> str:
        return (
            "let N be the number of iterations (the product of the trip counts). They occupy the engine for N "
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
                    rows.append((operation.stage, (stages, f"`{computes}`", ", ".join(others) or "none")))
        return [row for _, row in sorted(rows, key=lambda row: row[0])]


def _violations(format: InstructionFormat, memories: Mapping[str, Memory], lanes: int) -> Iterator[str]:
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


def _names(operands: Sequence[Operand]) -> str:
    return " and ".join(operand.name for operand in operands)
