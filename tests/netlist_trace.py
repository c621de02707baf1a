"""What Amaranth's netlist of a component does in every cycle: the circuit that Verilog is printed from, evaluated.

All cycles of a signal are one array, so that a run costs a few array operations for each cell and not for each cell and
cycle: a circuit of thousands of cells runs a thousand cycles in a tenth of a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Fragment
from amaranth.hdl._ir import build_netlist
from amaranth.hdl._nir import AssignmentList, Cell, FlipFlop, Matches, Net, Operator, PriorityMatch, Top, Value
from amaranth.lib import wiring
from numpy.typing import NDArray

Trace = NDArray[Any]
"""The unsigned value of some bits in every cycle: uint64 up to 64 bits, Python integers beyond."""

WORD = 64


def trace_outputs(component: wiring.Component, inputs: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The component's outputs, each in every cycle, for its inputs, each in every cycle; all are unsigned.

    Registers begin at their initial values and the reset stays 0. Inputs that are not named stay 0. The component has
    one clock domain, and neither memories nor instances.
    """
    ports = [(name, getattr(component, name), None) for name in component.signature.members]
    netlist = build_netlist(Fragment.get(component, None), ports=ports)
    return _Run(netlist.cells, inputs).outputs()


@dataclass(frozen=True, slots=True)
class Piece:
    """`width` bits of a cell's output from bit `low` on, or that one bit repeated; they go to bit `at` of a value."""

    cell: int
    low: int
    width: int
    at: int
    is_repeated: bool


class _Run:
    """One run: `traces` holds the output of each cell, that of the inputs by name."""

    def __init__(self, cells: Sequence[Cell], inputs: Mapping[str, Sequence[int]]) -> None:
        self.cells = cells
        self.cycles = len(next(iter(inputs.values())))
        self.traces: dict[int, Trace] = {0: array_of([0] * self.cycles, 1)}
        top = cells[0]
        assert isinstance(top, Top) and inputs.keys() <= top.ports_i.keys()
        self.top = top
        self.inputs = {
            start: array_of(inputs.get(name, [0] * self.cycles), width) for name, (start, width) in top.ports_i.items()
        }
        self.input_at = {
            bit: (start, bit - start) for start, width in top.ports_i.values() for bit in range(start, start + width)
        }
        self.split: dict[Value, tuple[int, list[Piece]]] = {}

    def outputs(self) -> dict[str, list[int]]:
        """Evaluate until nothing changes any more.

        The traces then satisfy every cell in every cycle, and only one set of traces does: a cycle's registers follow
        from the cycle before. The order has each cell behind what it reads, registers too, so that one pass is enough
        but for registers that depend on themselves: these are taken as constant at first.
        """
        inner = self.cells[1:]  # the first cell is the ports
        sources = [set(), *({net.cell for net in cell.input_nets() if not net.is_const} for cell in inner)]
        readers: dict[int, list[int]] = defaultdict(list)
        for index, read in enumerate(sources):
            for source in read:
                readers[source].append(index)
        order = _order(sources)
        due = set(order)
        while due:
            for index in order:
                if index not in due:
                    continue
                if sources[index] <= self.traces.keys():
                    due.remove(index)
                    new = self.evaluate(self.cells[index])
                elif isinstance(register := self.cells[index], FlipFlop):
                    new = array_of([register.init] * self.cycles, len(register.data))
                else:
                    continue
                if index not in self.traces or not np.array_equal(self.traces[index], new):
                    self.traces[index] = new
                    due.update(readers[index])
        return {name: [int(v) for v in self.read(value)] for name, value in self.top.ports_o.items()}

    # -- values --------------------------------------------------------------------------------------------------------

    def read(self, value: Value) -> Trace:
        """The trace of a value, whose bits may come from several cells."""
        if value not in self.split:
            self.split[value] = pieces(value)
        constant, parts = self.split[value]
        is_wide = len(value) > WORD
        total: Trace | None = None
        for piece in parts:
            part = self.part(piece)
            if is_wide != (part.dtype == object):
                part = part.astype(object if is_wide else np.uint64)
            part = part << _number(piece.at, is_wide) if piece.at else part
            total = part if total is None else total | part
        if total is None:
            return array_of([constant] * self.cycles, len(value))
        return total | _number(constant, is_wide) if constant else total

    def part(self, piece: Piece) -> Trace:
        """The bits of a piece, from bit 0 on."""
        if piece.cell == 0:
            start, low = self.input_at[piece.low]
            trace = self.inputs[start]
        else:
            low, trace = piece.low, self.traces[piece.cell]
        is_wide = trace.dtype == object
        width = 1 if piece.is_repeated else piece.width
        found = trace >> _number(low, is_wide) if low else trace
        found = found & _number((1 << width) - 1, is_wide)
        if not piece.is_repeated:
            return found
        wide = found.astype(object) if piece.width > WORD else found
        return wide * _number((1 << piece.width) - 1, piece.width > WORD or is_wide)

    def bit(self, net: Net) -> NDArray[np.bool_]:
        return np.asarray(self.read(Value(net)) != 0)

    # -- cells ---------------------------------------------------------------------------------------------------------

    def evaluate(self, cell: Cell) -> Trace:
        match cell:
            case FlipFlop():
                assert cell.clk_edge == "pos" and cell.arst == Net.from_const(0)
                return np.concatenate([array_of([cell.init], len(cell.data)), self.read(cell.data)[:-1]])
            case Matches():
                value = self.read(cell.value)
                is_wide = value.dtype == object
                found = np.zeros(self.cycles, bool)
                for pattern in cell.patterns:
                    care = int("".join("0" if c == "-" else "1" for c in pattern) or "0", 2)
                    wanted = int(pattern.replace("-", "0") or "0", 2)
                    found |= np.asarray((value & _number(care, is_wide)) == _number(wanted, is_wide), bool)
                return found.astype(np.uint64)
            case PriorityMatch():
                inputs = self.read(cell.inputs)
                lowest = inputs & masked(-inputs, len(cell.inputs))
                return np.where(self.bit(cell.en), lowest, _number(0, inputs.dtype == object))
            case AssignmentList():
                width = len(cell.default)
                value = self.read(cell.default)
                for assignment in cell.assignments:
                    ones = (1 << len(assignment.value)) - 1
                    kept = value & _number(((1 << width) - 1) & ~(ones << assignment.start), width > WORD)
                    new = self.read(assignment.value)
                    new = new.astype(object) if width > WORD else new
                    new = kept | new << _number(assignment.start, width > WORD)
                    value = np.where(self.bit(assignment.cond), new, value)
                return value
            case Operator():
                return self.operate(cell)
        raise AssertionError(f"no value for {type(cell).__name__}")

    def operate(self, cell: Operator) -> Trace:
        """The operators as Amaranth's netlist defines them: of equal widths, unsigned but where they begin with `s`."""
        width = cell.width
        if cell.operator == "m":
            return np.where(self.bit(Net(cell.inputs[0][0])), self.read(cell.inputs[1]), self.read(cell.inputs[2]))
        args = [self.read(value) for value in cell.inputs]
        a, b = args[0], args[-1]
        if cell.operator in ("s<", "s<=", "s>", "s>="):
            sign = _number(1 << len(cell.inputs[0]) - 1, a.dtype == object)
            a, b = a ^ sign, b ^ sign
        match cell.operator.removeprefix("u").removeprefix("s"):
            case "~":
                return masked(~a, width)
            case "-":
                return masked(-a if len(args) == 1 else a - b, width)
            case "+":
                return masked(a + b, width)
            case "*":
                return masked(a * b, width)
            case "&":
                return a & b
            case "|":
                return a | b
            case "^":
                return a ^ b
            case "<<":
                return shifted_left(a, b, width)
            case ">>":
                return shifted_right(a, b, width, is_signed=cell.operator == "s>>")
            case "b" | "r|":
                return truth(a != 0)
            case "r&":
                return truth(a == _number((1 << len(cell.inputs[0])) - 1, a.dtype == object))
            case "==":
                return truth(a == b)
            case "!=":
                return truth(a != b)
            case "<":
                return truth(a < b)
            case "<=":
                return truth(a <= b)
            case ">":
                return truth(a > b)
            case ">=":
                return truth(a >= b)
        raise AssertionError(f"no value for {cell.operator}")


def _order(sources: Sequence[set[int]]) -> list[int]:
    """Every cell but the first behind those that it reads, as far as there are no cycles."""
    order: list[int] = []
    seen = {0}
    for root in range(1, len(sources)):
        stack = [(root, False)]
        while stack:
            index, is_done = stack.pop()
            if is_done:
                order.append(index)
            elif index not in seen:
                seen.add(index)
                stack.append((index, True))
                stack += [(source, False) for source in sources[index] - seen]
    return order


def pieces(value: Value) -> tuple[int, list[Piece]]:
    """A value's constant bits, and its other bits in pieces as long as they can be."""
    constant, found = 0, []
    at = 0
    while at < len(value):
        first, end = value[at], at + 1
        if first.is_const:
            constant |= first.const << at
            at = end
            continue
        step = 1 if end < len(value) and value[end] == first + 1 else 0
        while end < len(value) and value[end] == value[end - 1] + step:
            end += 1
        found.append(Piece(first.cell, first.bit, end - at, at, is_repeated=step == 0))
        at = end
    return constant, found


def array_of(values: Sequence[int], width: int) -> Trace:
    return np.array(values, object if width > WORD else np.uint64)


def _number(value: int, is_wide: bool) -> Any:
    return value if is_wide else np.uint64(value)


def truth(of: Any) -> Trace:
    return np.asarray(of, bool).astype(np.uint64)


def masked(trace: Trace, width: int) -> Trace:
    return trace & _number((1 << width) - 1, trace.dtype == object)


def shifted_left(a: Trace, count: Trace, width: int) -> Trace:
    if a.dtype == object or count.dtype == object:
        shifted = [(int(v) << min(int(n), width)) % (1 << width) for v, n in zip(a, count, strict=True)]
        return array_of(shifted, width)
    small = np.minimum(count, np.uint64(WORD - 1))
    return np.where(count < np.uint64(width), masked(a << small, width), np.uint64(0))


def shifted_right(a: Trace, count: Trace, width: int, is_signed: bool) -> Trace:
    """`a >> count`; if signed, the bits that come in are copies of the uppermost one."""
    if a.dtype == object or count.dtype == object:
        sign = 1 << width - 1 if is_signed else 0
        shifted = [((int(v) ^ sign) - sign >> int(n)) % (1 << width) for v, n in zip(a, count, strict=True)]
        return array_of(shifted, width)
    small = np.minimum(count, np.uint64(WORD - 1))
    if not is_signed:
        return np.where(count < np.uint64(WORD), a >> small, np.uint64(0))
    sign = np.uint64(1 << width - 1)
    extended = ((a ^ sign) - sign).astype(np.int64)
    return masked((extended >> small.astype(np.int64)).astype(np.uint64), width)
