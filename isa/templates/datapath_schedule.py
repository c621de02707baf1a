"""When each operator of the vector statements takes its arguments, and which operators are one unit of the datapath."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, lru_cache
from itertools import combinations
from typing import assert_never

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.facts import Circuit, Sharing
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.timing import format_stages, in_pipeline, is_wires, operator_stages, operator_starts


class PipelineEnd(Enum):
    """The end of the pipeline from which stages are counted."""

    START = auto()
    RESULT = auto()


@dataclass(frozen=True, slots=True)
class StagePlace:
    """Some stages behind the start of the pipeline, or before the result.

    One iteration enters the pipeline in a cycle, and one result leaves it: no two iterations are ever at one place.
    """

    end: PipelineEnd
    distance: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator of a format's statement, which takes its arguments at stage `stage` of the pipeline."""

    format: int  # position of the format
    expr: Expr  # in the statement as `timing.in_pipeline` has it
    stage: int
    before_result: int  # stages from there to the result
    stages: int  # from its arguments to its value
    memory: str = ""  # of an operator that reads one

    @property
    def done_stage(self) -> int:
        """The stage at which the value is in its unit's output register."""
        return self.stage + self.stages

    @property
    def places(self) -> tuple[StagePlace, StagePlace]:
        return StagePlace(PipelineEnd.START, self.stage), StagePlace(PipelineEnd.RESULT, self.before_result)


@dataclass(frozen=True, slots=True)
class UnusedAdder:
    """A value on its way through an adder that its format does not use: argument number `argument`, the other is 0.

    It comes out as it would come out of a register.
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
    place: StagePlace
    operations: tuple[Operation, ...]
    passes: tuple[UnusedAdder, ...] = ()

    @property
    def memory(self) -> str:
        """The memory that the unit is the reader of, else ""."""
        return self.operations[0].memory

    @property
    def stages(self) -> int:
        """From its arguments to its value."""
        return self.operations[0].stages

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
        Operation(position, expr, start, format_stages(format) - start, stages, _memory(format, expr))
        for position, format in enumerate(formats)
        for expr, start in operator_starts(in_pipeline(format.statement.expr), format.engine.pipeline).items()
        if (stages := operator_stages(expr, format.engine.pipeline))
    )


def _memory(format: InstructionFormat, expr: Expr) -> str:
    return format.operand(expr.name).memory if expr.op.facts.sharing is Sharing.MEMORY else ""


@lru_cache(maxsize=64)
def bind(operations: tuple[Operation, ...]) -> tuple[Unit, ...]:
    """The units: operators of the same kind share one if each format's is at the same place.

    Where there is a choice of place, the one at which a unit serves most formats, unless products take less elsewhere;
    then, of an adder, at which most values pass.
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
        if group[0].memory:
            units.append(_unit(group))
        elif group[0].expr.op.facts.circuit is Circuit.PRODUCT:
            ways = tuple(_by_place(group)), _multipliers(group)
            units += min(ways, key=lambda way: sum(map(_size, way)))
        else:
            units += _by_place(group)
    units.sort(key=lambda unit: (unit.operations[0].stage, unit.operations[0].format))
    return tuple(_with_passes(unit, units) if unit.op is Op.ADD else unit for unit in units)


def _with_passes(unit: Unit, units: Sequence[Unit]) -> Unit:
    """An adder with the values that may pass through it, at the place at which these are most."""
    others = [each for each in unit.operations[0].places if each != unit.place]
    places = [unit.place, *(place for place in others if all(place in each.places for each in unit.operations))]
    possible = (replace(unit, place=place, passes=tuple(_passes(unit, place, units))) for place in places)
    best = max(possible, key=lambda each: len(each.passes))
    return replace(best, passes=(*best.passes, *_waiting(best, units)))


def _passes(unit: Unit, place: StagePlace, units: Sequence[Unit]) -> Iterator[UnusedAdder]:
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
            stage = (
                place.distance if place.end is PipelineEnd.START else each.stage + each.before_result - place.distance
            )
            source = origin(each, position, stage)
            comes_out = (unit, each.stage - stage - 1)
            if each.format not in served and source in arguments and source is not None and comes_out in taken:
                served.add(each.format)
                yield UnusedAdder(each.format, each.expr.args[position], stage, arguments[source])


def _waiting(unit: Unit, units: Sequence[Unit]) -> Iterator[UnusedAdder]:
    """Sources that wait, in formats that leave the adder idle, and that it takes as they come from other formats.

    They save the registers of a stage, if no format waits for the same source that cannot let it pass. The adder's
    other argument is 0 then, which is a gate for each bit: so only what is at least half as wide as the adder passes.
    """
    if unit.place.end is not PipelineEnd.START:
        return
    later = [each for other in units for each in other.operations if each.stage > unit.place.distance]
    busy = {each.format for each in unit.operations} | {each.format for each in unit.passes}
    for position, source in dict.fromkeys((i, each.expr.args[i]) for each in unit.operations for i in (0, 1)):
        waiting = {each.format for each in later if source in map(_without_wires, each.expr.args)}
        if source.op is Op.SOURCE and 2 * source.range.bits >= unit.range.bits and not waiting & busy:
            busy |= waiting
            yield from (UnusedAdder(format, source, unit.place.distance, position) for format in sorted(waiting))


def _without_wires(expr: Expr) -> Expr:
    """The node whose bits a value consists of."""
    return _without_wires(expr.args[0]) if expr.args and is_wires(expr) else expr


def _unit(operations: Sequence[Operation], place: StagePlace | None = None) -> Unit:
    """A unit at the first operation's stage, or at a place."""
    return Unit(operations[0].expr.op, place or operations[0].places[0], tuple(operations))


def _by_place(operations: Sequence[Operation]) -> Iterator[Unit]:
    """Units for operations of one kind, those that serve most formats first."""
    left = list(operations)
    while left:
        places = dict.fromkeys(place for operation in left for place in operation.places)
        served = {place: _alike([each for each in left if place in each.places]) for place in places}
        best = max(places, key=lambda place: (len(served[place]), place.end is PipelineEnd.START, -place.distance))
        yield _unit(served[best], best)
        left = [operation for operation in left if operation not in served[best]]


def _multipliers(products: Sequence[Operation]) -> tuple[Unit, ...]:
    """Units for products that take least together: of all ways to say at which of its places each is computed.

    The largest that is left comes next, with the largest that each other format has at its place. In the end, the
    products of a format move to other units, or change places, while that saves anything.
    """

    @cache
    def best(left: tuple[Operation, ...]) -> tuple[int, tuple[Unit, ...]]:
        if not left:
            return 0, ()
        found = []
        for place in left[0].places:
            here = {each.format: each for each in reversed(left) if place in each.places}
            unit = _unit([here[format] for format in sorted(here)], place)
            size, others = best(tuple(each for each in left if each not in unit.operations))
            found.append((size + _size(unit), (unit, *others)))
        return min(found, key=lambda each: each[0])

    units = best(tuple(sorted(products, key=lambda each: -_size(_unit([each])))))[1]
    while (change := next(_savings(units), None)) is not None:
        units = tuple(change.get(unit, unit) for unit in units)
    return units


def _savings(units: Sequence[Unit]) -> Iterator[Mapping[Unit, Unit]]:
    """What two units become that take less when the operations of a format change from each into the other."""
    for pair in combinations(units, 2):
        for format in sorted({each.format for unit in pair for each in unit.operations}):
            own = [tuple(each for each in unit.operations if each.format == format) for unit in pair]
            kept = [tuple(each for each in unit.operations if each.format != format) for unit in pair]
            found = [
                _unit(sorted((*others, *coming), key=lambda each: each.format), unit.place)
                for unit, others, coming in zip(pair, kept, reversed(own), strict=True)
                if (others or coming) and all(unit.place in each.places for each in coming)
            ]
            if len(found) == len(pair) and sum(map(_size, found)) < sum(map(_size, pair)):
                yield dict(zip(pair, found, strict=True))


def _size(multiplier: Unit) -> int:
    """About what it takes with what chooses its arguments, in multiplexers of one bit.

    Three are one cell of the multiplier, which has one for each bit of one factor by each bit of the other. An unsigned
    factor has a sign, too, where the other is signed.
    """
    ranges = [multiplier.argument_range(i) for i in (0, 1)]
    is_signed = any(each.is_signed for each in ranges)
    bits = [each.bits + (is_signed and not each.is_signed) for each in ranges]
    taken = [{_taken(each, i) for each in multiplier.operations} for i in (0, 1)]
    return 3 * bits[0] * bits[1] + sum(own * (len(among) - 1) for own, among in zip(bits, taken, strict=True))


def _taken(operation: Operation, position: int) -> object:
    """What identifies an argument; what no lane has of its own is chosen once for all lanes."""
    arg = operation.expr.args[position]
    return None if arg.op in (Op.CONST, Op.IMMEDIATE) else (arg, operation.stage)


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
