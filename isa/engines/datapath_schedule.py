"""When each operator of the vector statements takes its arguments, and which operators are one unit of the datapath."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.facts import Sharing
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.timing import operator_stages, operator_starts


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator of a format's statement, which takes its arguments at stage `stage` of the pipeline."""

    format: int  # position of the format
    expr: Expr
    stage: int
    memory: str = ""  # of an operator that reads one


@dataclass(frozen=True, slots=True)
class Unit:
    """The hardware of one operator, in each lane or across all.

    It serves at most one operation of each format, all at one stage.
    """

    op: Op
    stage: int
    operations: tuple[Operation, ...]

    @property
    def memory(self) -> str:
        """The memory that the unit is the reader of, else ""."""
        return self.operations[0].memory

    @property
    def done_stage(self) -> int:
        """The stage at which the value is in the unit's output register."""
        return self.stage + operator_stages(self.operations[0].expr)

    @property
    def range(self) -> Interval:
        return _hull([operation.expr.range for operation in self.operations])

    def argument_range(self, position: int) -> Interval:
        return _hull([operation.expr.args[position].range for operation in self.operations])


def schedule(formats: Sequence[InstructionFormat]) -> tuple[Operation, ...]:
    """Every operator of every statement, once."""
    return tuple(
        Operation(position, expr, start, _memory(format, expr))
        for position, format in enumerate(formats)
        for expr, start in operator_starts(format.statement.expr).items()
        if operator_stages(expr)
    )


def _memory(format: InstructionFormat, expr: Expr) -> str:
    return format.operand(expr.name).memory if expr.op.facts.sharing is Sharing.MEMORY else ""


def bind(operations: Sequence[Operation]) -> tuple[Unit, ...]:
    """The units, by stage. Of an operation that is shared by stage, the n-th of all formats there become one unit."""
    groups: dict[tuple[object, ...], list[Operation]] = defaultdict(list)
    uses: dict[tuple[int, Op, int], int] = defaultdict(int)
    for operation in operations:
        op = operation.expr.op
        match op.facts.sharing:
            case Sharing.STAGE:
                kind = (operation.format, op, operation.stage)
                groups[(op, operation.stage, operation.expr.setting, uses[kind])].append(operation)
                uses[kind] += 1
            case Sharing.MEMORY:
                groups[(op, operation.memory)].append(operation)
            case Sharing.NONE:
                groups[(operation.format, operation.expr)].append(operation)
            case _ as never:
                assert_never(never)
    units = [Unit(group[0].expr.op, group[0].stage, tuple(group)) for group in groups.values()]
    return tuple(sorted(units, key=lambda unit: unit.stage))


def _hull(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(interval.low for interval in intervals), max(interval.high for interval in intervals))
