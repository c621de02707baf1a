"""The vector engine's datapath: every vector statement of the machine in every lane, as one pipeline."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from amaranth.hdl import Cat, Const, Elaboratable, Module, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.engines.datapath_schedule import Unit, bind, schedule
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.facts import Circuit, Kind
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element
from tilewright.isa.timing import statement_stages
from tilewright.rtl.lane_tree import LaneTree
from tilewright.rtl.layout import PLAIN, element_layout, immediates_layout, integer_shape, stored
from tilewright.rtl.operators import build_operator, build_reduction
from tilewright.rtl.outline import outlined


class VectorDatapath(wiring.Component):
    """Computes the statement of one format for one iteration a cycle; `result` comes `statement_stages` cycles later.

    `format` is the position in `machine.formats_of("vec")`, `source_<i>` the word of the format's source i (of the
    memory that this format reads it from, in the low bits; of a block, its words one after the other). `immediates`
    has the format's immediates as `layout.immediates_layout` packs them. An iteration counts only while `valid`;
    `is_first` says that it begins a reduce group. `result` belongs to the valid iteration that came in as many cycles
    ago as its statement has stages and, if the statement reduces, to those before it in its group; the user sees to it
    that no two meet there. It holds the destination word in the low bits of each lane's share.

    `first_<i>` is the word of source i, a table, that its least index is for. `lookup_<memory>_data` holds, for each
    lane the element at its `lookup_<memory>_address` of the cycle before.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.formats = machine.formats_of("vec")
        self.units = bind(schedule(self.formats))
        super().__init__(
            {
                "valid": In(1),
                "format": In(range(max(1, len(self.formats)))),
                "is_first": In(1),
                "immediates": In(unsigned(immediates_bits(self.formats))),
                **{f"source_{i}": In(unsigned(bits)) for i, bits in enumerate(source_bits(machine))},
                **{f"first_{i}": In(unsigned(bits)) for i, bits in table_address_bits(machine).items()},
                **{
                    f"lookup_{name}_address": Out(unsigned(machine.lanes * machine.memories[name].address_bits))
                    for name in machine.table_memories
                },
                **{
                    f"lookup_{name}_data": In(unsigned(machine.lanes * machine.memories[name].element.bits))
                    for name in machine.table_memories
                },
                "result": Out(unsigned(result_bits(machine))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        delays = _Delays(m)
        lanes = [_Lane(self, m, delays, lane) for lane in range(self.machine.lanes)]
        for position, unit in enumerate(self.units):
            if unit.op in ACROSS_LANES:
                build_across(m, lanes, position, unit)
                continue
            for lane in lanes:
                lane.build_unit(position, unit)
        m.d.comb += self.result.eq(Cat(lane.build_result() for lane in lanes))
        return m


def formats_by_stages(formats: Sequence[InstructionFormat]) -> dict[int, list[int]]:
    """Positions of the formats whose statement has that many stages, fewest stages first."""
    stages = [statement_stages(format.statement.expr) for format in formats]
    return {count: [i for i, own in enumerate(stages) if own == count] for count in sorted(set(stages))}


def source_bits(machine: Machine) -> list[int]:
    """Width of each source slot: that of the widest word, or block of words, that a format reads there."""
    streams = [format.streams for format in machine.formats_of("vec")]
    return [
        max(8 * machine.memories[s[i].memory].word_bytes * s[i].block for s in streams if i < len(s))
        for i in range(machine.vector_sources)
    ]


def table_address_bits(machine: Machine) -> dict[int, int]:
    """Width of a word address of each source slot in which some format has a table."""
    bits: dict[int, int] = {}
    for format in machine.formats_of("vec"):
        for table in format.tables:
            slot = format.sources.index(table)
            bits[slot] = max(bits.get(slot, 0), machine.memories[table.memory].address_bits)
    return bits


def result_element_bits(machine: Machine) -> int:
    """Width of a lane of the result: that of the widest element that a format writes."""
    return max((format.destination.element.bits for format in machine.formats_of("vec")), default=1)


def result_bits(machine: Machine) -> int:
    return machine.lanes * result_element_bits(machine)


def immediates_bits(formats: Sequence[InstructionFormat]) -> int:
    return max([1, *(immediates_layout(format).size for format in formats)])


class _Delays:
    """Delay lines, each made once and only as long as it is used."""

    def __init__(self, m: Module) -> None:
        self.m = m
        self.lines: dict[Hashable, list[Value]] = {}

    def at(self, key: Hashable, name: str, value: Value, cycles: int) -> Value:
        """`value` of `cycles` cycles ago; `key` identifies the value."""
        line = self.lines.setdefault(key, [value])
        while len(line) <= cycles:
            register = Signal(value.shape(), name=f"{name}_{len(line)}", reset_less=True)
            self.m.d.sync += register.eq(line[-1])
            line.append(register)
        return line[cycles]


class _Lane:
    """Builds one lane. A value "at stage s" belongs to the iteration that was at the inputs s cycles ago."""

    def __init__(self, datapath: VectorDatapath, m: Module, delays: _Delays, lane: int) -> None:
        self.datapath = datapath
        self.m = m
        self.delays = delays
        self.lane = lane
        self.units: dict[tuple[int, Expr], tuple[Unit, Signal]] = {}

    def control(self, name: str, stage: int) -> Value:
        """An input that all lanes share, at a stage."""
        return self.delays.at(name, name, getattr(self.datapath, name), stage)

    def build_unit(self, position: int, unit: Unit) -> None:
        name = f"lane{self.lane}_{unit.op.name.lower()}_{position}"
        if unit.op.facts.circuit is Circuit.TABLE:
            self.build_lookup(unit, name)
            return
        output = Signal(integer_shape(unit.range), name=name, reset_less=True)
        args = [self.build_argument(unit, i, f"{name}_argument{i}") for i in range(len(unit.operations[0].expr.args))]
        if unit.op.facts.kind is Kind.LOOPS:
            is_first, valid = self.control("is_first", unit.stage), self.control("valid", unit.stage)
            build_reduction(self.m, unit.op, args[0], output, is_first, valid)
        else:
            build_operator(self.m, unit.operations[0].expr, args, output)
        for operation in unit.operations:
            self.units[operation.format, operation.expr] = unit, output

    def build_argument(self, unit: Unit, position: int, name: str) -> Value:
        """An argument of a unit; where several formats share it, that of the format at the unit's stage."""

        arguments = [self.value(each.format, each.expr.args[position], unit.stage) for each in unit.operations]
        return self.selected(unit, arguments, integer_shape(unit.argument_range(position)), name)

    def selected(self, unit: Unit, arguments: Sequence[Value], shape: Shape, name: str) -> Value:
        """Of values for each of a unit's operations, that of the format at the unit's stage."""
        if len(arguments) == 1:
            return arguments[0]
        selected = Signal(shape, name=name)
        with self.m.Switch(self.control("format", unit.stage)):
            for operation, argument in list(zip(unit.operations, arguments, strict=True))[1:]:
                with self.m.Case(operation.format):
                    self.m.d.comb += selected.eq(argument)
            with self.m.Default():
                self.m.d.comb += selected.eq(arguments[0])
        return selected

    def build_lookup(self, unit: Unit, name: str) -> None:
        """A register holds the table's first word + index - least index; a cycle later the memory gives the element."""
        memory = self.datapath.machine.memories[unit.memory]
        addresses = []
        for each in unit.operations:
            format, index = self.datapath.formats[each.format], each.expr.args[0]
            slot = next(i for i, operand in enumerate(format.sources) if operand.name == each.expr.name)
            first = self.control(f"first_{slot}", unit.stage)
            offset = self.value(each.format, index, unit.stage) - index.range.low
            addresses.append((first + offset)[: memory.address_bits])
        address = Signal(memory.address_bits, name=f"{name}_address", reset_less=True)
        self.m.d.sync += address.eq(self.selected(unit, addresses, unsigned(memory.address_bits), f"{name}_selected"))
        low, shape = _place(memory.element, "")
        element = getattr(self.datapath, f"lookup_{unit.memory}_data").word_select(self.lane, memory.element.bits)
        output = Signal(shape, name=name)
        self.m.d.comb += [
            getattr(self.datapath, f"lookup_{unit.memory}_address").word_select(self.lane, len(address)).eq(address),
            output.eq(element[low : low + shape.width]),
        ]
        for operation in unit.operations:
            self.units[operation.format, operation.expr] = unit, output

    def value(self, position: int, expr: Expr, stage: int) -> Value:
        """The value of a node of a format's statement, at a stage at which it is known, in the shape of its range."""
        format = self.datapath.formats[position]
        match expr.op:
            case Op.CONST:
                return Const(expr.value, integer_shape(expr.range))
            case Op.IMMEDIATE:
                layout = immediates_layout(format)
                return data.View(layout, self.control("immediates", stage)[: layout.size])[expr.name]
            case Op.SOURCE:
                return self.source(format, expr, stage)
            case Op.WRAP:
                return _reshaped(self.value(position, expr.args[0], stage), expr)
        unit, output = self.units[position, expr]
        return _reshaped(self.delays.at(output.name, output.name, output, stage - unit.done_stage), expr)

    def source(self, format: InstructionFormat, expr: Expr, stage: int) -> Value:
        slot = next(i for i, operand in enumerate(format.sources) if operand.name == expr.name)
        element = format.sources[slot].element
        low, shape = _place(element, expr.field)
        low += (expr.value * self.datapath.machine.lanes + self.lane) * element.bits
        bits = getattr(self.datapath, f"source_{slot}")[low : low + shape.width]
        delayed = self.delays.at((slot, low, shape.width), f"source{slot}_bit{low}_{shape.width}", bits, stage)
        return delayed.as_signed() if shape.signed else delayed

    def build_result(self) -> Value:
        """The lane's result: each format's value, in the cycle in which it is known."""
        result = Signal(result_element_bits(self.datapath.machine), name=f"lane{self.lane}_result")
        for stage, positions in formats_by_stages(self.datapath.formats).items():
            words = {position: self.build_stored(position, stage) for position in positions}
            valid, chosen = self.control("valid", stage), self.control("format", stage)
            with self.m.If(valid), self.m.Switch(chosen):
                for position, word in words.items():
                    with self.m.Case(position):
                        self.m.d.comb += result.eq(word)
        return result

    def build_stored(self, position: int, stage: int) -> Value:
        """The value of a format's statement as its destination's element holds it."""
        format = self.datapath.formats[position]
        element = format.destination.element
        value = Signal(_place(element, "")[1], name=f"lane{self.lane}_{format.mnemonic}")
        self.m.d.comb += value.eq(self.value(position, format.statement.expr, stage))
        return stored(value, element)


def build_across(m: Module, lanes: Sequence[_Lane], position: int, unit: Unit) -> None:
    """One unit for all lanes, which takes an argument from each and gives its value to each."""
    name = f"{unit.op.value}_{position}"
    arguments = [lane.build_argument(unit, 0, f"lane{lane.lane}_{name}_argument") for lane in lanes]
    shape, stages = integer_shape(unit.argument_range(0)), unit.done_stage - unit.stage
    m.submodules[name] = tree = LaneTree(unit.op, len(lanes), stages, shape, integer_shape(unit.range))
    output = Signal(integer_shape(unit.range), name=f"lanes_{position}")
    m.d.comb += [value.eq(argument) for value, argument in zip(tree.values, arguments, strict=True)]
    m.d.comb += output.eq(tree.result)
    for lane in lanes:
        for operation in unit.operations:
            lane.units[operation.format, operation.expr] = unit, output


def _place(element: Element, field: str) -> tuple[int, Shape]:
    """First bit and shape of a field of an element; the field of a plain element is ""."""
    placed = element_layout(element)[field or PLAIN]
    return placed.offset, placed.shape


def _reshaped(value: Value, expr: Expr) -> Value:
    """A value that is known to be in the node's range (or wraps into it), in the shape of that range."""
    shape = integer_shape(expr.range)
    missing = shape.width - len(value)
    if missing > 0:
        value = Cat(value, value[-1].replicate(missing) if value.shape().signed else Const(0, missing))
    value = value[: shape.width]
    return value.as_signed() if shape.signed else value
