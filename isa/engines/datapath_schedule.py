"""When each operator of the vector statements takes its arguments, and which operators are one unit of the datapath."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.timing import operator_stages, operator_starts

SHARED = frozenset({Op.MUL, Op.ROUND_SHIFT})
"""Operators that cost more than the multiplexers in front of a shared one."""

OF_MEMORY = frozenset({Op.LUT})
"""Operators that are the one reader of a memory: its lookups are all one unit (the loader sees that they can be)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator of a format's statement, which takes its arguments at stage `stage` of the pipeline."""

    format: int  # position of the format
    expr: Expr
    stage: int
    memory: str = ""  # of an operator OF_MEMORY


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
        """The memory that a unit of an operator OF_MEMORY reads, else ""."""
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
        Operation(position, expr, start, of.operand(expr.name).memory if expr.op in OF_MEMORY else "")
        for position, of in enumerate(formats)
        for expr, start in operator_starts(of.statement.expr).items()
        if operator_stages(expr)
    )


def bind(operations: Sequence[Operation]) -> tuple[Unit, ...]:
    """The units, by stage: of each SHARED operator at a stage, the n-th operations of all formats become one unit."""
    groups: dict[tuple[object, ...], list[Operation]] = defaultdict(list)
    uses: dict[tuple[int, Op, int], int] = defaultdict(int)
    for operation in operations:
        op = operation.expr.op
        if op in SHARED:
            kind = (operation.format, op, operation.stage)
            groups[(op, operation.stage, operation.expr.rounding, uses[kind])].append(operation)
            uses[kind] += 1
        elif op in OF_MEMORY:
            groups[(op, operation.memory)].append(operation)
        else:
            groups[(operation.format, operation.expr)].append(operation)
    units = [Unit(group[0].expr.op, group[0].stage, tuple(group)) for group in groups.values()]
    return tuple(sorted(units, key=lambda unit: unit.stage))


def _hull(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(interval.low for interval in intervals), max(interval.high for interval in intervals))
