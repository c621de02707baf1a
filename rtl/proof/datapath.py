"""The vector datapath equals the statements: for every input, whatever other instructions run before and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import z3

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element
from tilewright.isa.templates.datapath_schedule import Unit
from tilewright.isa.templates.vector import multiplied_by_element, vector_walk
from tilewright.isa.timing import format_stages, in_pipeline, is_wires, vec_stages
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.datapath_widths import result_element_bits
from tilewright.rtl.layout import immediate_places
from tilewright.rtl.proof.lane_tree import COMBINE, prove_lane_trees
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.meaning import REDUCE, Meaning, as_integer
from tilewright.rtl.proof.narrowing import narrowing_goals, products, within
from tilewright.rtl.proof.netlist import NetlistRun, SymbolicNetlist, netlist
from tilewright.rtl.proof.product import PRODUCT, abstracted
from tilewright.rtl.proof.result import Goal, Proof, prove

LANES = 1
"""Lanes that are proved. Each lane is the same hardware on its own bits of the words; they share control, and the trees
across lanes, which are proved by themselves: here a tree has one lane and as many stages as with all.
"""


def one_lane(machine: Machine) -> Machine:
    return machine.with_lanes(LANES)


def datapath_key(machine: Machine, engine: Engine) -> tuple[object, ...]:
    """Engines with equal keys have the same lane: statements, types, places of operands, rounding."""
    return tuple(
        (
            format.statement.expr,
            tuple((operand.name, operand.element, operand.block) for operand in format.sources),
            format.destination.element,
            format.engine.vector.parts,
            tuple(format.immediates.items()),
            tuple((table.memory, machine.memories[table.memory].address_bits) for table in format.tables),
        )
        for format in machine.formats_of(engine)
    )


def prove_datapath(machine: Machine, engine: Engine) -> Iterator[Proof]:
    """A proof for each instruction of a vector engine, and for each tree across lanes, as they are done."""
    lane = VectorDatapath(one_lane(machine), engine)
    hardware = without_products(netlist(lane))
    yield from (prove_format(machine, lane, hardware, position) for position in range(len(lane.formats)))
    yield from prove_shared_elements(machine, engine)
    yield from prove_lane_trees(machine, engine)


def prove_shared_elements(machine: Machine, engine: Engine) -> list[Proof]:
    """Of instructions that multiply by an element which all lanes share: a lane beside the one that it is read in."""
    positions = [at for at, format in enumerate(machine.formats_of(engine)) if multiplied_by_element(format)]
    if not positions or engine.vector.lanes == 1:
        return []
    lanes = VectorDatapath(machine.with_lanes(LANES + 1), engine)
    hardware = without_products(netlist(lanes))
    return [prove_format(machine, lanes, hardware, position, LANES) for position in positions]


def prove_format(
    machine: Machine, lane: VectorDatapath, hardware: SymbolicNetlist, position: int, number: int = 0
) -> Proof:
    format_ = lane.formats[position]
    multiplies = any(node.op in (Op.MUL, Op.DOT) for node in walk(format_.statement.expr))
    reduces = format_.statement.reduction is not None
    method = "all inputs" + (", products by their laws" if multiplies else "") + (", inductive" if reduces else "")

    def goals() -> list[Goal]:
        return [*narrowing_goals(format_.statement.expr), *_Question(lane, hardware, position, number).goals()]

    return prove(f"datapath: {format_.mnemonic}{' in another lane' if number else ''}", method, goals)


class _Question:
    """One iteration of one format, and its statement as the pipeline has it.

    The iteration enters at cycle `enters`, so that its result comes in cycle `leaves`.

    All registers are free in cycle 0, all inputs in every cycle, but for this iteration's format and `valid`. What is
    assumed of the others is what `VectorDatapath` asks of its user: none of them gives a result in the same cycle.
    """

    def __init__(self, lane: VectorDatapath, hardware: SymbolicNetlist, position: int, number: int = 0) -> None:
        self.lane = lane
        self.number = number  # of the lane, where the datapath has more than one
        self.position = position
        self.format = lane.formats[position]
        self.expr = in_pipeline(self.format.statement.expr)
        self.leaves = vec_stages(lane.machine, lane.engine)
        self.enters = self.leaves - format_stages(self.format)
        self.fixed: dict[tuple[str, int], int | z3.BitVecRef] = {
            ("format", self.enters): position,
            ("valid", self.enters): 1,
        }
        self.run = NetlistRun(hardware, self.fixed)
        self.given = self.alone()
        if self.parts > 1:  # no more parts come behind one than a word has
            self.given.append(z3.ULE(self.run.at("part", self.enters), self.parts - 1))

    def goals(self) -> list[Goal]:
        """Operator by operator: each register holds its operator's value of the registers before it.

        A register that is proved counts from then on as any number in its expression's range.
        """
        meaning = Meaning(self.inputs(), PRODUCT, look_up=self.look_up)
        goals = [goal for node in self.operators() for goal in self.operator_goals(meaning, node)]
        value, result = meaning.of(self.expr), self.with_any_registers().at("result", self.leaves)
        element = self.format.destination.element
        low = self.number * result_element_bits(self.lane.machine, self.lane.engine)
        equal = z3.Extract(element.bits - 1, 0, value) == z3.Extract(low + element.bits - 1, low, result)
        return [*goals, Goal("the result", list(self.given), equal)]

    def with_any_registers(self) -> NetlistRun:
        """What leads to the result alone: operators' output registers hold anything, but for those that are proved.

        An adder that this instruction's values pass is as a register is, and stays; so is one behind a table, which
        is proved by the table's word.
        """
        hardware = self.run.hardware
        names = {
            f"lane{self.number}_{unit.op.name.lower()}_{at}"
            for at, unit in enumerate(self.lane.units)
            if unit.op is not Op.LUT and all(each.format != self.position for each in unit.passes)
        }
        outputs = {hardware.nets[name] for name in names & hardware.nets.keys()}
        after = {register: value for register, value in hardware.after.items() if register not in outputs}
        return NetlistRun(dataclasses.replace(hardware, after=after), self.fixed)

    def operators(self) -> list[Expr]:
        return [node for node in dict.fromkeys(walk(self.expr)) if not is_wires(node)]

    def operator_goals(self, meaning: Meaning, node: Expr) -> list[Goal]:
        if node.op in ACROSS_LANES:
            return self.across_goals(meaning, node)
        if node.op is Op.LUT and self.parts > 1:
            return self.lookup_goals(meaning, node)
        unit, name = self.unit_of(node), self.register(node)
        cycle = self.done_cycle(node)
        if node.op is Op.LUT:
            self.answer(node, name, cycle)
        given, goals = list(self.given), []
        register = as_integer(self.run.at(name, cycle), unit.range.is_signed)
        if node.op in REDUCE:
            value = self.step(meaning, node, name, cycle)
            # Over a group of any length that the trip counts allow, the value is in the reduction's range.
            given.append(within(value, node.range))
            idle = NetlistRun(self.run.hardware, {("valid", self.enters): 0})
            kept = idle.at(name, cycle - 1) == idle.at(name, cycle)
            goals.append(Goal(f"{node} keeps its value without an iteration", [], kept))
        else:
            value = meaning.of(node)
        if node.op is Op.MUL:
            in_range, laws = self.product_laws(meaning, node)
            goals.append(Goal(f"the factors of {node}", given, in_range))
            given += laws
        goals.append(Goal(f"the value of {node}", given, all_of(register == value, within(value, node.range))))
        self.cut(meaning, node, name, cycle)
        return goals

    def across_goals(self, meaning: Meaning, node: Expr) -> list[Goal]:
        unit, cycle = self.unit_of(node), self.done_cycle(node)
        name = f"lanes_{self.lane.units.index(unit)}"
        output = as_integer(self.run.at(name, cycle), unit.range.is_signed)
        value = meaning.of(node)
        if self.parts == 1:
            return [Goal(f"the value of {node}", list(self.given), all_of(output == value, within(value, node.range)))]
        goals = self.part_goals(node, name, cycle, value)
        self.cut(meaning, node, name, cycle)
        return goals

    def part_goals(self, node: Expr, name: str, cycle: int, value: z3.BitVecRef) -> list[Goal]:
        """A sum over the parts of a word: what came of those before, and this one's, where it ends a reduce group.

        Whatever is computed of it counts for the last part alone, with which it is that of the word, so in its range.
        """
        is_signed = self.unit_of(node).range.is_signed
        before, after = (as_integer(self.run.at(name, at), is_signed) for at in (cycle - 1, cycle))
        is_first = self.run.at("part", self.enters) == self.parts - 1
        total = z3.If(is_first, value, COMBINE[node.op](before, value))
        partial = Interval(min(node.range.low, 0), max(node.range.high, 0))
        given = [*self.given, within(total, partial), self.run.holds("is_last", self.enters)]
        goals = [Goal(f"the value of {node}", given, after == total)]
        for control in ("valid", "is_last"):
            idle = self.run.with_fixed(control, self.enters, 0)
            kept = idle.at(name, cycle - 1) == idle.at(name, cycle)
            goals.append(Goal(f"{node} keeps its value where {control} is 0", [], kept))
        return goals

    def lookup_goals(self, meaning: Meaning, node: Expr) -> list[Goal]:
        """The memory gives an element of each part of a word, and the lane takes that of the iteration's part."""
        unit, cycle = self.unit_of(node), self.done_cycle(node)
        came = cycle - self.table_registers
        address = self.run.at(f"lookup_{unit.memory}_address", came - 1)
        found = [elements_of(self.lane.machine, unit.memory, part)(address) for part in range(self.parts)]
        self.given.append(self.run.at(f"lookup_{unit.memory}_data", came) == z3.Concat(*reversed(found)))
        register = as_integer(self.run.at(self.register(node), cycle), unit.range.is_signed)
        value = meaning.of(node)
        claim = all_of(register == value, within(value, node.range))
        goal = Goal(f"the value of {node}", list(self.given), claim)
        self.given.append(claim)
        return [goal]

    @property
    def table_registers(self) -> int:
        """Between a memory of tables and what computes with its elements."""
        return self.lane.engine.pipeline.table_output

    @property
    def parts(self) -> int:
        """Of a word, as the datapath takes it."""
        return self.lane.engine.vector.parts

    def answer(self, node: Expr, name: str, cycle: int) -> None:
        """The memory gives what it holds, which may be anything, for the address of the cycle before."""
        memory = self.unit_of(node).memory
        address = self.run.at(f"lookup_{memory}_address", cycle - self.table_registers - 1)
        self.fix(node, name, cycle, elements_of(self.lane.machine, memory)(address))

    def fix(self, node: Expr, name: str, cycle: int, value: z3.BitVecRef) -> None:
        """Give a node's register a value; of a lookup, the lowest bits of the element that its lane gets."""
        if node.op is Op.LUT:
            memory, cycle = self.unit_of(node).memory, cycle - self.table_registers
            name, low = f"lookup_{memory}_data", self.number * self.lane.machine.memories[memory].element.bits
            size, high = self.run.hardware.nets[name].size(), low + value.size()
            others = z3.BitVec(f"{name} beside it, {cycle}", size)
            above = [z3.Extract(size - 1, high, others)] if high < size else []
            below = [z3.Extract(low - 1, 0, others)] if low else []
            value = z3.Concat(*above, value, *below) if above or below else value
        self.fixed[name, cycle] = value
        self.run = self.run.with_fixed(name, cycle, value)

    def look_up(self, node: Expr, index: z3.BitVecRef) -> z3.BitVecRef:
        """A node's element as the machine file means it: of the word `index` beyond the table's first."""
        table = self.format.operand(node.name)
        memory = self.lane.machine.memories[table.memory]
        first = self.run.at(f"first_{self.format.sources.index(table)}", self.enters)
        word = z3.Extract(memory.address_bits - 1, 0, as_integer(first, False) + index)
        assert table.element.type is not None
        found = elements_of(self.lane.machine, table.memory)(word)
        for part in range(1, self.parts):
            is_part = self.run.at("part", self.enters) == self.parts - 1 - part
            found = z3.If(is_part, elements_of(self.lane.machine, table.memory, part)(word), found)
        return _typed(found, 0, table.element.type)

    def step(self, meaning: Meaning, node: Expr, name: str, cycle: int) -> z3.BitVecRef:
        """A reduction's value after this iteration, from any value of its register before."""
        old = as_integer(self.run.at(name, cycle - 1), node.range.is_signed)
        value = meaning.of(node.args[0])
        return z3.If(self.run.holds("is_first", self.enters), value, REDUCE[node.op](old, value))

    def cut(self, meaning: Meaning, node: Expr, name: str, cycle: int) -> None:
        """From here on a node's register, and the node in the statement, is any one number in the node's range."""
        unit = self.unit_of(node)
        number = z3.BitVec(f"{name}.value", unit.range.bits)
        self.fix(node, name, cycle, number)
        meaning.known[node] = as_integer(number, unit.range.is_signed)
        self.given.append(within(meaning.known[node], node.range))

    def inputs(self) -> dict[tuple[str, str, int], z3.BitVecRef]:
        """The integers that sources and immediates hold in this iteration, in the lane."""
        found = {}
        for slot, operand in enumerate(vector_walk(self.format).streams):
            words = self.run.at(f"source_{slot}", self.enters)
            number = 0 if operand == multiplied_by_element(self.format) else self.number
            for word in range(operand.block):
                first = (word * self.lane.engine.vector.lanes + number) * operand.element.bits
                for name, low, type_ in _fields(operand.element):
                    found[operand.name, name, word] = _typed(words, first + low, type_)
        immediates, places = self.run.at("immediates", self.enters), immediate_places(self.lane.formats)
        for name, type_ in self.format.immediates.items():
            found[name, "", 0] = _typed(immediates, places[name], type_)
        return found

    def register(self, node: Expr) -> str:
        """The output register of the unit that computes a node."""
        return f"lane{self.number}_{node.op.name.lower()}_{self.lane.units.index(self.unit_of(node))}"

    def unit_of(self, node: Expr) -> Unit:
        wanted = (self.position, node)
        return next(u for u in self.lane.units if any((each.format, each.expr) == wanted for each in u.operations))

    def done_cycle(self, node: Expr) -> int:
        """In which a node's value is in its register."""
        wanted, operations = (self.position, node), self.unit_of(node).operations
        return self.enters + next(each.done_stage for each in operations if (each.format, each.expr) == wanted)

    def alone(self) -> list[z3.BoolRef]:
        """No other iteration gives a result together with this one."""
        apart = []
        for position, other in enumerate(self.lane.formats):
            cycle = self.leaves - format_stages(other)
            if cycle != self.enters:
                meets = all_of(self.run.holds("valid", cycle), self.run.at("format", cycle) == position)
                apart.append(z3.Not(meets))
        return apart

    def product_laws(self, meaning: Meaning, node: Expr) -> tuple[z3.BoolRef, list[z3.BoolRef]]:
        """That the factors are in their ranges, and the laws that follow: the order does not matter, and the bounds."""
        x, y = (meaning.of(arg) for arg in node.args)
        a, b = (arg.range for arg in node.args)
        laws = [PRODUCT(y, x) == PRODUCT(x, y), within(PRODUCT(x, y), products(a, b))]
        return all_of(within(x, a), within(y, b)), laws


def elements_of(machine: Machine, memory: str, part: int = 0) -> z3.FuncDeclRef:
    """What a lane's part of a memory of tables holds: some element for each word, or for each part of it."""
    looked_up = machine.memories[memory]
    name = f"{memory} holds" + (f" in part {part}" if part else "")
    return z3.Function(name, z3.BitVecSort(looked_up.address_bits), z3.BitVecSort(looked_up.element.bits))


def without_products(hardware: SymbolicNetlist) -> SymbolicNetlist:
    return dataclasses.replace(
        hardware,
        after={register: abstracted(value) for register, value in hardware.after.items()},
        nets={name: abstracted(value) for name, value in hardware.nets.items()},
    )


def _fields(element: Element) -> list[tuple[str, int, IntegerType]]:
    if element.type is not None:
        return [("", 0, element.type)]
    return [(field.name, field.low_bit, field.type) for field in element.fields]


def _typed(bits: z3.BitVecRef, low: int, type_: IntegerType) -> z3.BitVecRef:
    return as_integer(z3.Extract(low + type_.bits - 1, low, bits), type_.is_signed)
