"""A vector engine's datapath: every statement of its instructions in every lane, as one pipeline."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from amaranth.hdl import Cat, Const, Elaboratable, Module, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.facts import Circuit, Kind
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element
from tilewright.isa.templates.datapath_schedule import PipelineEnd, StagePlace, Unit, bind, schedule
from tilewright.isa.templates.vector import multiplied_by_element
from tilewright.isa.timing import format_stages, in_pipeline, is_wires, vec_stages
from tilewright.rtl.datapath_widths import (
    immediates_bits,
    looked_up,
    result_bits,
    result_element_bits,
    source_bits,
    table_address_bits,
)
from tilewright.rtl.delay import DelayLines, delayed
from tilewright.rtl.lane_tree import LaneTree
from tilewright.rtl.layout import PLAIN, element_layout, immediate_places, immediates_layout, integer_shape, stored
from tilewright.rtl.operators import build_operator, build_reduction
from tilewright.rtl.outline import outlined
from tilewright.rtl.parts import build_part


class VectorDatapath(wiring.Component):
    """Computes the statement of one format for one iteration a cycle; `result` comes `statement_stages` cycles later.

    `format` is the position among the engine's formats, `source_<i>` the word of the format's source i (of the
    memory that this format reads it from, in the low bits; of a block, its words one after the other). `immediates`
    has the format's immediates at their `layout.immediate_places`. An iteration counts only while `valid`;
    `is_first` says that it begins a reduce group. `result` belongs to the valid iteration that came in as many cycles
    ago as its statement has stages and, if the statement reduces, to those before it in its group; the user sees to it
    that no two meet there. It holds the destination word in the low bits of each lane's share, anything above them.

    Of a vector that is multiplied element by element, the lowest element of its word is that of the row, for all lanes.

    `first_<i>` is the word of source i, a table, that its least index is for. `lookup_<memory>_data` holds, for each
    lane the element at its `lookup_<memory>_address` of the cycle before.

    With fewer lanes than a word has elements, an iteration is of a part of its words: the sources hold that part,
    behind which `part` others come; lookups give an element of each part, and `is_last` says that it ends a reduce
    group. What a statement computes across lanes is of all parts that came, so that of the word with the last.
    """

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self.machine = machine
        self.engine = engine = machine.engines[engine.name]  # which may have other lanes (`with_lanes`)
        self.formats = machine.formats_of(engine)
        tables = looked_up(machine, engine)
        self.units = bind(schedule(self.formats))
        vector = engine.vector
        elements = {name: vector.word * machine.memories[name].element.bits for name in tables}
        super().__init__(
            {
                "valid": In(1),
                "format": In(range(max(1, len(self.formats)))),
                "is_first": In(1),
                **({"is_last": In(1), "part": In(range(vector.parts))} if vector.parts > 1 else {}),
                "immediates": In(unsigned(immediates_bits(self.formats))),
                **{f"source_{i}": In(unsigned(bits)) for i, bits in enumerate(source_bits(machine, engine))},
                **{f"first_{i}": In(unsigned(bits)) for i, bits in table_address_bits(machine, engine).items()},
                **{
                    f"lookup_{name}_address": Out(unsigned(vector.lanes * machine.memories[name].address_bits))
                    for name in tables
                },
                **{f"lookup_{name}_data": In(unsigned(bits)) for name, bits in elements.items()},
                **{f"lookup_{name}_enable": Out(1) for name in tables if machine.has_gated_clocks},
                "result": Out(unsigned(result_bits(machine, engine))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        common = _Common(self, m)
        lanes = [_Lane(common, lane) for lane in range(self.engine.vector.lanes)]
        for position, unit in enumerate(self.units):
            if unit.op in ACROSS_LANES:
                declare_across(lanes, position, unit)
                continue
            for lane in lanes:
                lane.declare_unit(position, unit)
        for position, unit in enumerate(self.units):
            if unit.op in ACROSS_LANES:
                build_across(m, lanes, position, unit)
                continue
            for lane in lanes:
                lane.build_unit(position, unit)
        m.d.comb += self.result.eq(Cat(lane.build_result() for lane in lanes))
        if self.machine.has_gated_clocks:
            self.build_enables(m, common)
        return m

    def build_enables(self, m: Module, common: _Common) -> None:
        """In which cycles some iteration looks up, of each memory of tables: those in which its addresses are there."""
        for unit in self.units:
            if unit.op.facts.circuit is Circuit.TABLE:
                looks_up = [
                    common.control("valid", each.stage + 1) & (common.control("format", each.stage + 1) == each.format)
                    for each in unit.operations
                ]
                m.d.comb += getattr(self, f"lookup_{unit.memory}_enable").eq(Cat(looks_up).any())


def formats_by_stages(formats: Sequence[InstructionFormat]) -> dict[int, list[int]]:
    """Positions of the formats whose statement has that many stages, fewest stages first."""
    stages = [format_stages(format) for format in formats]
    return {count: [i for i, own in enumerate(stages) if own == count] for count in sorted(set(stages))}


Choice = tuple[int, Value]
"""A format, by position, and what is to be taken for it."""


class _Common:
    """What all lanes share: the delay lines, and which format is at a place."""

    def __init__(self, datapath: VectorDatapath, m: Module) -> None:
        self.datapath = datapath
        self.m = m
        self.delays = DelayLines(m)
        self.ending: dict[int, Signal] = {}
        self.arguments: dict[tuple[Unit, int], Value] = {}  # what is selected of values that no lane has of its own
        self.zero = Const(0)
        self.places = immediate_places(datapath.formats)

    def control(self, name: str, stage: int) -> Value:
        """An input that all lanes share, at a stage."""
        return self.delays.at(name, name, getattr(self.datapath, name), stage)

    def format_at(self, place: StagePlace) -> Value:
        """The format of the valid iteration at a place; any if there is none."""
        return (
            self.control("format", place.distance) if place.end is PipelineEnd.START else self.ends_in(place.distance)
        )

    def ends_in(self, cycles: int) -> Signal:
        """The format of the iteration whose result comes in so many cycles: it joins the line when it comes in."""
        if cycles not in self.ending:
            stages = vec_stages(self.datapath.machine, self.datapath.engine)
            self.ending[cycles] = ending = Signal.like(self.datapath.format, name=f"ends_in_{cycles}")
            if cycles < stages:
                before = Signal.like(ending, name=f"{ending.name}_before", reset_less=True)
                self.m.d.sync += before.eq(self.ends_in(cycles + 1))
                self.m.d.comb += ending.eq(before)
            joining = formats_by_stages(self.datapath.formats).get(cycles, [])
            with self.m.If(self.datapath.valid & self.datapath.format.matches(*joining)):
                self.m.d.comb += ending.eq(self.datapath.format)
        return self.ending[cycles]

    def selected(self, place: StagePlace, choices: Sequence[Choice], shape: Shape, name: str) -> Value:
        """Of values for formats, that of the format at the place; any of them if none of these formats is there."""
        users: dict[int, list[int]] = {}
        for format, value in choices:
            users.setdefault(id(value), []).append(format)
        values = {id(value): value for _, value in choices}
        if len(users) == 1:
            return _in_shape(choices[0][1], shape)
        selected = Signal(shape, name=name)
        *others, most = sorted(users, key=lambda key: len(users[key]))
        with self.m.Switch(self.format_at(place)):
            for key in others:
                with self.m.Case(*users[key]):
                    self.m.d.comb += selected.eq(values[key])
            with self.m.Default():
                self.m.d.comb += selected.eq(values[most])
        return selected


class _Lane:
    """Builds one lane. A value "at stage s" belongs to the iteration that was at the inputs s cycles ago."""

    def __init__(self, common: _Common, lane: int) -> None:
        self.common = common
        self.datapath = common.datapath
        self.m = common.m
        self.lane = lane
        self.units: dict[tuple[int, Expr], tuple[int, Signal]] = {}  # stage at which the value is there, and where
        self.passed: dict[tuple[int, Expr], tuple[int, Signal]] = {}  # where it is later, having passed an adder
        self.values: dict[Hashable, Value] = {}

    def unit_name(self, position: int, unit: Unit) -> str:
        return f"lane{self.lane}_{unit.op.name.lower()}_{position}"

    def declare_unit(self, position: int, unit: Unit) -> None:
        """The output of a unit, for those that take it as an argument."""
        is_table = unit.op.facts.circuit is Circuit.TABLE
        output = Signal(integer_shape(unit.range), name=self.unit_name(position, unit), reset_less=not is_table)
        self.declare(unit, output)

    def declare(self, unit: Unit, output: Signal) -> None:
        for operation in unit.operations:
            self.units[operation.format, operation.expr] = operation.done_stage, output
        for each in unit.passes:
            self.passed[each.format, each.expr] = each.stage + unit.stages, output

    def output(self, unit: Unit) -> Signal:
        first = unit.operations[0]
        return self.units[first.format, first.expr][1]

    def build_unit(self, position: int, unit: Unit) -> None:
        name, output = self.unit_name(position, unit), self.output(unit)
        if unit.op.facts.circuit is Circuit.TABLE:
            self.build_lookup(unit, name, output)
            return
        count = len(unit.operations[0].expr.args)
        args = [self.build_argument(unit, i, f"{name}_argument{i}") for i in range(count)]
        if unit.op.facts.kind is Kind.LOOPS:
            stage = unit.operations[0].stage
            is_first, valid = self.common.control("is_first", stage), self.common.control("valid", stage)
            build_reduction(self.m, unit.op, args[0], output, is_first, valid)
        else:
            build_operator(self.m, unit.operations[0].expr, args, output, unit.stages)

    def build_argument(self, unit: Unit, position: int, name: str) -> Value:
        """An argument of a unit; where several formats share it, that of the format at the unit's place.

        What no lane has of its own is selected once for all of them; then a lane selects among that and its own values.
        """
        shape = integer_shape(unit.argument_range(position))
        choices: list[Choice] = []
        shared: list[Choice] = []
        for each in unit.operations:
            expr = each.expr.args[position]
            is_shared = expr.op in (Op.CONST, Op.IMMEDIATE)
            (shared if is_shared else choices).append((each.format, self.value(each.format, expr, each.stage)))
        for passing in unit.passes:
            if passing.argument == position:
                choices.append((passing.format, self.value(passing.format, passing.expr, passing.stage)))
            else:
                shared.append((passing.format, self.common.zero))
        if shared:
            known, common = self.common.arguments, name.replace(f"lane{self.lane}", "lanes")
            if (unit, position) not in known:
                known[unit, position] = self.common.selected(unit.place, shared, shape, common)
            choices += [(format, known[unit, position]) for format, _ in shared]
        return self.common.selected(unit.place, choices, shape, name)

    def build_lookup(self, unit: Unit, name: str, output: Signal) -> None:
        """A register holds the table's first word + index - least index; a cycle later the memory gives the element."""
        memory = self.datapath.machine.memories[unit.memory]
        addresses = []
        for each in unit.operations:
            format, index = self.datapath.formats[each.format], each.expr.args[0]
            slot = next(i for i, operand in enumerate(format.sources) if operand.name == each.expr.name)
            first = self.common.control(f"first_{slot}", each.stage)
            offset = self.value(each.format, index, each.stage) - index.range.low
            addresses.append((each.format, (first + offset)[: memory.address_bits]))
        address = Signal(memory.address_bits, name=f"{name}_address", reset_less=True)
        chosen = self.common.selected(unit.place, addresses, unsigned(memory.address_bits), f"{name}_selected")
        self.m.d.sync += address.eq(chosen)
        low, shape = _place(memory.element, "")
        elements = [element[low : low + shape.width] for element in self.looked_up(unit, memory.element.bits)]
        registers = self.datapath.engine.pipeline.table_output
        elements = [delayed(self.m, element, registers, f"{name}_came_{i}") for i, element in enumerate(elements)]
        place = getattr(self.datapath, f"lookup_{unit.memory}_address").word_select(self.lane, len(address))
        self.m.d.comb += place.eq(address)
        if len(elements) == 1:
            self.m.d.comb += output.eq(elements[0])
            return
        build_part(self.m, elements, self.common.control("part", unit.operations[0].done_stage), output)

    def looked_up(self, unit: Unit, bits: int) -> list[Value]:
        """What a memory of tables gives the lane: an element of each part of a word."""
        data, vector = getattr(self.datapath, f"lookup_{unit.memory}_data"), self.datapath.engine.vector
        return [data.word_select(element, bits) for element in range(self.lane, vector.word, vector.lanes)]

    def value(self, position: int, expr: Expr, stage: int) -> Value:
        """The value of a node of a format's statement, at a stage at which it is known.

        The same bits are the same object, also where one format knows a narrower range of a unit's value than another.
        """
        return self.values.setdefault(*self.found(position, expr, stage))

    def found(self, position: int, expr: Expr, stage: int) -> tuple[Hashable, Value]:
        """A value, and what identifies it."""
        format = self.datapath.formats[position]
        match expr.op:
            case Op.CONST:
                return expr, Const(expr.value, integer_shape(expr.range))
            case Op.IMMEDIATE:
                layout = immediates_layout(format, self.common.places)
                immediate = data.View(layout, self.common.control("immediates", stage)[: layout.size])[expr.name]
                return ("immediate", layout[expr.name], stage), immediate
            case Op.SOURCE:
                passed = self.passed.get((position, expr))
                if passed is not None and passed[0] <= stage:
                    return self.passed_source(expr, passed[1], stage - passed[0])
                return self.source(format, expr, stage)
        if is_wires(expr):
            key, value = self.found(position, expr.args[0], stage)
            return (expr.op, expr.args[1:], expr.range, key), _in_shape(_wires(expr, value), integer_shape(expr.range))
        done, output = self.units[position, expr]
        later, passed_to = self.passed.get((position, expr), (stage + 1, output))
        if later <= stage:
            done, output = later, passed_to
        return (output.name, stage - done), self.common.delays.at(output.name, output.name, output, stage - done)

    def source(self, format: InstructionFormat, expr: Expr, stage: int) -> tuple[Hashable, Value]:
        slot = next(i for i, operand in enumerate(format.sources) if operand.name == expr.name)
        element = format.sources[slot].element
        low, shape = _place(element, expr.field)
        is_shared = format.sources[slot] is multiplied_by_element(format)
        low += 0 if is_shared else (expr.value * self.datapath.engine.vector.lanes + self.lane) * element.bits
        bits = getattr(self.datapath, f"source_{slot}")[low : low + shape.width]
        name = f"source{slot}_bit{low}_{shape.width}"
        delayed = self.common.delays.at((slot, low, shape.width), name, bits, stage)
        return (slot, low, shape, stage), delayed.as_signed() if shape.signed else delayed

    def passed_source(self, expr: Expr, output: Signal, cycles: int) -> tuple[Hashable, Value]:
        """A source that has passed an adder, so many cycles after; of the adder's output only its own bits go on."""
        key = (output.name, expr.range.bits)
        bits = _in_shape(output, integer_shape(expr.range))
        return (*key, cycles), self.common.delays.at(key, f"{output.name}_passed", bits, cycles)

    def build_result(self) -> Value:
        """The lane's result: that of the format whose iteration ends in this cycle. Narrow ones end in any bits."""
        widths = sorted({format.destination.element.bits for format in self.datapath.formats})
        parts = []
        for low, high in zip([0, *widths], widths, strict=False):
            choices = self.stored_bits(low, high)
            name = f"lane{self.lane}_result_{low}"
            parts.append(self.common.selected(StagePlace(PipelineEnd.RESULT, 0), choices, unsigned(high - low), name))
        return Cat(parts) if parts else Const(0, result_element_bits(self.datapath.machine, self.datapath.engine))

    def stored_bits(self, low: int, high: int) -> list[Choice]:
        """Bits of what each format stores, if its elements have them; the same bits are the same object."""
        choices = []
        for position, format in enumerate(self.datapath.formats):
            element, expr = format.destination.element, format.statement.expr
            if element.bits < high:
                continue
            value = self.value(position, in_pipeline(expr), format_stages(format))
            shape = _place(element, "")[1]
            key = ("stored", id(value), shape, element.bits, low, high)
            choices.append((position, self.values.setdefault(key, stored(_in_shape(value, shape), element)[low:high])))
        return choices


def declare_across(lanes: Sequence[_Lane], position: int, unit: Unit) -> None:
    """The output of a unit for all lanes, which gives its value to each."""
    output = Signal(integer_shape(unit.range), name=f"lanes_{position}")
    for lane in lanes:
        lane.declare(unit, output)


def build_across(m: Module, lanes: Sequence[_Lane], position: int, unit: Unit) -> None:
    """One unit for all lanes, which takes an argument from each."""
    name = f"{unit.op.value}_{position}"
    arguments = [lane.build_argument(unit, 0, f"lane{lane.lane}_{name}_argument") for lane in lanes]
    shape = integer_shape(unit.argument_range(0))
    common, output = lanes[0].common, lanes[0].output(unit)
    parts = common.datapath.engine.vector.parts
    stages = unit.stages - (parts > 1)  # the last is that of the parts
    m.submodules[name] = tree = LaneTree(unit.op, len(lanes), stages, shape, integer_shape(unit.range))
    m.d.comb += [value.eq(argument) for value, argument in zip(tree.values, arguments, strict=True)]
    if parts == 1:
        m.d.comb += output.eq(tree.result)
        return
    comes, is_first = Signal(name=f"{name}_comes"), Signal(name=f"{name}_is_first")
    for each in unit.operations:
        stage = each.stage + stages
        valid, format, is_last, part = (common.control(of, stage) for of in ("valid", "format", "is_last", "part"))
        with m.If(valid & is_last & (format == each.format)):
            m.d.comb += [comes.eq(1), is_first.eq(part == parts - 1)]
    build_reduction(m, unit.op, tree.result, output, is_first, comes)


def _wires(expr: Expr, value: Value) -> Value:
    """The value of a node that takes no hardware: bits of its argument."""
    match expr.op:
        case Op.SHIFT_LEFT:
            return value.shift_left(expr.args[1].value)
        case Op.SHIFT_RIGHT:
            return value.shift_right(expr.args[1].value)
        case _:
            return value  # of `wrap`, the low bits


def _place(element: Element, field: str) -> tuple[int, Shape]:
    """First bit and shape of a field of an element; the field of a plain element is ""."""
    placed = element_layout(element)[field or PLAIN]
    return placed.offset, placed.shape


def _in_shape(value: Value, shape: Shape) -> Value:
    """A value that the shape is known to hold, or of which it is to hold the low bits."""
    missing = shape.width - len(value)
    if missing > 0:
        value = Cat(value, value[-1].replicate(missing) if value.shape().signed else Const(0, missing))
    value = value[: shape.width]
    return value.as_signed() if shape.signed else value
