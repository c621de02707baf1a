"""When each operator of the vector statements takes its arguments, and which operators are one unit of the datapath."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.facts import Circuit, Sharing
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.timing import in_pipeline, operator_stages, operator_starts, statement_stages


class End(Enum):
    """The end of the pipeline from which stages are counted."""

    START = auto()
    RESULT = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """Some stages behind the start of the pipeline, or before the result.

    One iteration enters the pipeline in a cycle, and one result leaves it: no two iterations are ever at one place.
    """

    end: End
    distance: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator of a format's statement, which takes its arguments at stage `stage` of the pipeline."""

    format: int  # position of the format
    expr: Expr  # in the statement as `timing.in_pipeline` has it
    stage: int
    before_result: int  # stages from there to the result
    memory: str = ""  # of an operator that reads one

    @property
    def done_stage(self) -> int:
        """The stage at which the value is in its unit's output register."""
        return self.stage + operator_stages(self.expr)

    @property
    def places(self) -> tuple[Place, Place]:
        return Place(End.START, self.stage), Place(End.RESULT, self.before_result)


@dataclass(frozen=True, slots=True)
class Pass:
    """A value on its way through an adder that its format does not use: argument number `argument`, the other is 0.

    It comes out as it would come out of a register, and is where other formats' sums are.
    """

    format: int
    expr: Expr
    stage: int  # at which the adder takes it
    argument: int


@dataclass(frozen=True, slots=True)
class Unit:
    """The hardware of one operator, in each lane or across all.

    It serves at most one operation of each format, all at one place, and lets values of other formats pass there.
    """

    op: Op
    place: Place
    operations: tuple[Operation, ...]
    passes: tuple[Pass, ...] = ()

    @property
    def memory(self) -> str:
        """The memory that the unit is the reader of, else ""."""
        return self.operations[0].memory

    @property
    def stages(self) -> int:
        """From its arguments to its value."""
        return operator_stages(self.operations[0].expr)

    @property
    def range(self) -> Interval:
        passing = [each.expr.range for each in self.passes]
        return _hull([*(operation.expr.range for operation in self.operations), *passing])

    def argument_range(self, position: int) -> Interval:
        passing = [each.expr.range if each.argument == position else Interval(0, 0) for each in self.passes]
        return _hull([*(operation.expr.args[position].range for operation in self.operations), *passing])


def schedule(formats: Sequence[InstructionFormat]) -> tuple[Operation, ...]:
    """Every operator of every statement, once."""
    return tuple(
        Operation(position, expr, start, stages - start, _memory(format, expr))
        for position, format in enumerate(formats)
        for stages in (statement_stages(format.statement.expr),)
        for expr, start in operator_starts(in_pipeline(format.statement.expr)).items()
        if operator_stages(expr)
    )


def _memory(format: InstructionFormat, expr: Expr) -> str:
    return format.operand(expr.name).memory if expr.op.facts.sharing is Sharing.MEMORY else ""


def bind(operations: Sequence[Operation]) -> tuple[Unit, ...]:
    """The units: operators of the same kind share one if each format's is at the same place.

    Where there is a choice of place, the one at which a unit serves most formats; then, of an adder, at which most
    values pass.
    """
    groups: dict[tuple[object, ...], list[Operation]] = defaultdict(list)
    units = []
    for operation in operations:
        expr = operation.expr
        match expr.op.facts.sharing:
            case Sharing.PLACE:
                groups[(expr.op, expr.setting, expr.type)].append(operation)
            case Sharing.MEMORY:
                groups[(expr.op, operation.memory)].append(operation)
            case Sharing.NONE:
                units.append(_unit([operation]))
            case _ as never:
                assert_never(never)
    for group in groups.values():
        shares_memory = bool(group[0].memory)
        units += [_unit(group)] if shares_memory else list(_by_place(group))
    units.sort(key=lambda unit: (unit.operations[0].stage, unit.operations[0].format))
    return tuple(_with_passes(unit, units) if unit.op is Op.ADD else unit for unit in units)


def _with_passes(unit: Unit, units: Sequence[Unit]) -> Unit:
    """An adder with the values that may pass through it, at the place at which these are most."""
    others = [each for each in unit.operations[0].places if each != unit.place]
    places = [unit.place, *(place for place in others if all(place in each.places for each in unit.operations))]
    possible = (replace(unit, place=place, passes=tuple(_passes(unit, place, units))) for place in places)
    return max(possible, key=lambda each: len(each.passes))


def _passes(unit: Unit, place: Place, units: Sequence[Unit]) -> Iterator[Pass]:
    """Values that wait for a unit which takes this one's sums from other formats, and come from where its arguments do.

    They save the registers in which they would wait, and what would choose between them and a sum.
    """
    made = {(each.format, each.expr): (source, each) for source in units for each in source.operations}

    def origin(user: Operation, position: int, stage: int) -> tuple[Unit, int] | None:
        """The unit that an argument comes from, and how many stages before."""
        source = made.get((user.format, user.expr.args[position]))
        return source and (source[0], stage - source[1].done_stage)

    served = {each.format for each in unit.operations}
    arguments = {origin(each, i, each.stage): i for each in unit.operations for i in (1, 0)}
    for user, position in ((each, i) for each in units for i in range(len(each.operations[0].expr.args))):
        taken = {origin(each, position, each.stage) for each in user.operations}
        for each in user.operations:
            stage = place.distance if place.end is End.START else each.stage + each.before_result - place.distance
            source = origin(each, position, stage)
            comes_out = (unit, each.stage - stage - 1)
            if each.format not in served and source in arguments and source is not None and comes_out in taken:
                served.add(each.format)
                yield Pass(each.format, each.expr.args[position], stage, arguments[source])


def _unit(operations: Sequence[Operation], place: Place | None = None) -> Unit:
    """A unit at the first operation's stage, or at a place."""
    return Unit(operations[0].expr.op, place or operations[0].places[0], tuple(operations))


def _by_place(operations: Sequence[Operation]) -> Iterator[Unit]:
    """Units for operations of one kind, those that serve most formats first."""
    left = list(operations)
    while left:
        places = dict.fromkeys(place for operation in left for place in operation.places)
        served = {place: _alike([each for each in left if place in each.places]) for place in places}
        best = max(places, key=lambda place: (len(served[place]), place.end is End.START, -place.distance))
        yield _unit(served[best], best)
        left = [operation for operation in left if operation not in served[best]]


def _alike(operations: Sequence[Operation]) -> list[Operation]:
    """An operation of each format, the first; of those, the ones that are at least half as wide as the widest.

    A narrow adder costs less than the multiplexers that give it a share of a wide one; a multiplier does not.
    """
    first = list({operation.format: operation for operation in reversed(operations)}.values())[::-1]
    if first[0].expr.op.facts.circuit is not Circuit.STEP:
        return first
    widest = max(_bits(operation) for operation in first)
    return [operation for operation in first if 2 * _bits(operation) >= widest]


def _bits(operation: Operation) -> int:
    return max(expr.range.bits for expr in (operation.expr, *operation.expr.args))


def _hull(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(interval.low for interval in intervals), max(interval.high for interval in intervals))
