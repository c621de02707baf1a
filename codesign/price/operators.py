"""How much logic hardware holds, counted from its operators before any synthesis: a scale, not a price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

from amaranth.hdl import (
    Const,
    Elaboratable,
    Fragment,
    Instance,
    MemoryInstance,
    Module,
    ResetInserter,
    Shape,
    Signal,
    Value,
)
from amaranth.hdl._ast import Assign, Concat, Operator, Part, SignalSet, Slice, Statement, Switch, SwitchValue
from amaranth.hdl._xfrm import TransformedElaboratable
from amaranth.lib import wiring

from tilewright.codesign.price.netlist import Netlist, PricedPart, made
from tilewright.isa.rare_collection import rare_collection
from tilewright.rtl.outline import Outline, OutlinedPart

FLIP_FLOP, ENTRY, MUX = 6.5, 8.5, 2.3
"""Gate equivalents of a bit that is kept, of a bit of a storage that is kept until it is written, and of a choice."""

GATES: Mapping[str, float] = {
    **dict.fromkeys(("+", "-"), 6.0),
    **dict.fromkeys(("<", "<=", ">", ">="), 3.0),
    **dict.fromkeys(("==", "!=", "^", "r^"), 2.3),
    **dict.fromkeys(("&", "|", "r&", "r|", "b"), 1.3),
    "~": 0.6,
}
"""Gate equivalents of an operator, for each bit of its widest operand. What is not here takes only wires."""

PRODUCT = 6.0
"""Gate equivalents of a multiplier for each pair of bits."""


@dataclass(frozen=True, slots=True)
class Count:
    """About what some logic takes, in gate equivalents; equal digests are of logic that is equal."""

    gates: float
    flip_flops: float
    digest: int

    @staticmethod
    def of(parts: Iterable[tuple[float, Count]]) -> Count:
        """The sum of counts, each of which is there so many times."""
        each = list(parts)
        gates, flip_flops = (sum(n * getattr(c, key) for n, c in each) for key in ("gates", "flip_flops"))
        return Count(gates, flip_flops, crc32(repr([(n, c.digest) for n, c in each]).encode()))


@dataclass(frozen=True, slots=True)
class Sketch:
    """One module of hardware: its path, and the count of what is in it."""

    path: str
    count: Count


def sketch(part: PricedPart, *left_out: type) -> Netlist[Sketch]:
    """What `netlist` gives of a part, counted instead of converted: ten times as fast."""
    return sketch_apart(made(part), False, left_out, (), lambda inner, is_restarted: Netlist((), {}))


Inner = Callable[[wiring.Component, bool], Netlist[Sketch]]
"""Gives the sketch of a part that is sketched apart; the flag says whether a run's start resets it."""


def sketch_apart(
    component: wiring.Component,
    is_restarted: bool,
    left_out: tuple[type, ...],
    apart: tuple[type, ...],
    inner: Inner,
) -> Netlist[Sketch]:
    """The sketch of a component, in which parts of some classes are sketched by `inner` instead, each by itself."""
    outline = _Inside(component, *left_out, *apart)
    whole = ResetInserter(Signal(name="start"))(component) if is_restarted else component
    with rare_collection():
        fragments = list(_fragments("top", Fragment.get(whole, outline), False))
    places = {place.cell: place for place in outline.places}
    modules: list[Sketch] = []
    found: dict[str, OutlinedPart] = {}
    for path, fragment, is_inner_restarted in fragments:
        if not isinstance(fragment, Instance):
            modules.append(Sketch(path, _count(fragment)))
        elif isinstance(places[fragment.type].part, left_out):
            found[path] = places[fragment.type]
        else:
            part = inner(places[fragment.type].part, is_inner_restarted)
            modules += [Sketch(_moved(each.path, path), each.count) for each in part.modules]
            found |= {_moved(own, path): place for own, place in part.places.items()}
    for _, fragment, _ in fragments:
        _let_go(fragment)
    return Netlist(tuple(modules), found)


def _let_go(fragment: Fragment) -> None:
    """Free what a fragment was made from at once: it points at itself, and would wait for a search for such garbage."""
    for origin in fragment.origins or ():
        vars(origin)["_MustUse__context"] = None
        if isinstance(origin, Module):
            vars(origin).clear()


class _Inside(Outline):
    """Leaves out parts of the given classes, but not the component that it looks into."""

    def __init__(self, component: wiring.Component, *left_out: type) -> None:
        super().__init__(*left_out)
        self._component = component

    def leaves_out(self, part: wiring.Component) -> bool:
        return part is not self._component and super().leaves_out(part)

    def _place(self, part: wiring.Component, interfaces: Mapping[str, wiring.PureInterface]) -> Elaboratable:
        return super()._place(part, {})  # nobody connects its ports


def _moved(path: str, to: str) -> str:
    return to + path.removeprefix("top")


def _fragments(path: str, fragment: Fragment, is_restarted: bool) -> Iterator[tuple[str, Fragment, bool]]:
    """A fragment and all in it, by path, and whether a run's start resets it; a storage counts to what it stands in."""
    is_restarted |= any(isinstance(each, TransformedElaboratable) for each in fragment.origins or ())
    yield path, fragment, is_restarted
    for number, (inner, name, _) in enumerate(fragment.subfragments):
        if not isinstance(inner, MemoryInstance):
            yield from _fragments(f"{path}.{name or number}", inner, is_restarted)


def _count(fragment: Fragment) -> Count:
    kept, walk = SignalSet(), _GateWalk()
    for domain, statements in fragment.statements.items():
        for statement in statements:
            walk.add_statement(statement)
            if domain != "comb":
                kept.update(statement._lhs_signals())
    flip_flops = sum(len(signal) for signal in kept)
    logic = Count(walk.gates + FLIP_FLOP * flip_flops, flip_flops, crc32(repr(walk.facts).encode()))
    storages = [_storage(each) for each, _, _ in fragment.subfragments if isinstance(each, MemoryInstance)]
    return Count.of((1, each) for each in (logic, *storages))


def _storage(memory: MemoryInstance) -> Count:
    """Entries that are kept until they are written, and for each way to read them a tree of choices."""
    bits, depth = Shape.cast(memory._data.shape).width, memory._data.depth
    ports = [(port._domain, port._transparent_for) for port in memory._read_ports]
    registers = sum(bits for domain, _ in ports if domain != "comb")
    choices = sum(bits * (depth - 1 + len(seen)) for _, seen in ports)
    further = bits * depth * (len(memory._write_ports) - 1)
    gates = ENTRY * bits * depth + FLIP_FLOP * registers + MUX * (choices + further)
    return Count(gates, bits * depth + registers, crc32(repr((bits, depth, ports, further)).encode()))


class _GateWalk:
    """The gates of all operators of a module; an operator with several readers is there once.

    `facts` are what was met on the way: equal ones are of equal logic.
    """

    def __init__(self) -> None:
        self.gates = 0.0
        self.facts: list[object] = []
        self._seen: dict[int, Value] = {}

    def add_statement(self, statement: Statement, is_chosen: bool = False) -> None:
        match statement:
            case Assign():
                self.add(statement.lhs)
                self.add(statement.rhs)
                self.gates += MUX * len(statement.lhs) * is_chosen
            case Switch():
                self.add(statement.test)
                for patterns, inner, _ in statement.cases:
                    self.facts.append(patterns)
                    for each in inner:
                        self.add_statement(each, is_chosen=True)

    def add(self, value: Value) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self.facts.append(len(value))
        if (add := self._ADDERS.get(type(value))) is not None:
            add(self, value)

    def _add_const(self, value: Const) -> None:
        self.facts.append(value.value)

    def _add_signal(self, value: Signal) -> None:
        self.facts.append(value.name)

    def _add_operator(self, value: Operator) -> None:
        self.facts.append(value.operator)
        self.gates += _gates(value)
        self._add_all(value.operands)

    def _add_slice(self, value: Slice) -> None:
        self.facts.append(value.start)
        self.add(value.value)

    def _add_part(self, value: Part) -> None:
        self.gates += MUX * len(value.value)  # any of its places
        self._add_all([value.value, value.offset])

    def _add_concat(self, value: Concat) -> None:
        self._add_all(value.parts)

    def _add_switch(self, value: SwitchValue) -> None:
        self.facts += [patterns for patterns, _ in value.cases]
        inner = [each for _, each in value.cases]
        self.gates += MUX * len(value) * (len(inner) - 1)
        self._add_all([value.test, *inner])

    _ADDERS: ClassVar[Mapping[type[Value], Callable[..., None]]] = {
        Const: _add_const,
        Signal: _add_signal,
        Operator: _add_operator,
        Slice: _add_slice,
        Part: _add_part,
        Concat: _add_concat,
        SwitchValue: _add_switch,
    }
    """By class: to ask each value which of these it is an instance of takes as long as all of the rest."""

    def _add_all(self, values: Iterable[Value]) -> None:
        for value in values:
            self.add(value)


def _gates(value: Operator) -> float:
    bits = [len(operand) for operand in value.operands]
    match value.operator:
        case "*":
            return PRODUCT * bits[0] * bits[1]
        case "<<" | ">>":
            return 0.0 if isinstance(value.operands[1], Const) else MUX * bits[0] * bits[1]
        case operator:
            return GATES.get(operator, 0.0) * max(bits)
