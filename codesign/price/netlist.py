"""Netlists cut into their modules, so that each is synthesised once, whatever it is called and wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from amaranth.back import rtlil
from amaranth.hdl import ResetInserter, Signal, Value
from amaranth.lib import wiring

from tilewright.isa.rare_collection import rare_collection
from tilewright.rtl.outline import Outline, OutlinedPart

UNIT = "unit"
"""What every module is called in its own text; the modules in it are `unit.<name>`."""

INSTANCE = re.compile(r"^  cell \\(\S+) \\(\S+)$", re.MULTILINE)

PORT = re.compile(r"^  wire .*\b(?:input|output) .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    """One module of a netlist: its path, such as `top.load.packer`, and RTLIL in which all it holds is a black box."""

    path: str
    text: str


class AtPath(Protocol):
    """What stands for one module: its text, or a count of what is in it."""

    @property
    def path(self) -> str: ...


M = TypeVar("M", bound=AtPath)

Bill = list[tuple[float, M]]
"""Modules and how often each is there; a cost may be on the line through two others, so not always a whole number."""


@dataclass(frozen=True, slots=True)
class Netlist(Generic[M]):
    """All modules of a netlist, and the parts that were left out of it, by path."""

    modules: tuple[M, ...]
    places: Mapping[str, OutlinedPart]


PricedPart: TypeAlias = wiring.Component | partial[wiring.Component]
"""A component, or how to make it: its class with all that its hardware follows from."""


class NetlistReader(Protocol[M]):
    """Gives the modules of a part; parts of given classes in it may be left out."""

    def __call__(self, part: PricedPart, *left_out: type) -> Netlist[M]: ...


def made(part: PricedPart) -> wiring.Component:
    """The component itself."""
    return part() if isinstance(part, partial) else part


def netlist(part: PricedPart, *left_out: type) -> Netlist[Module]:
    """The modules of a part as it stands in a machine, where a run's start resets it; parts in it may be left out."""
    texts, places = converted(made(part), *left_out)
    stubs = {name: "\n".join(PORT.findall(own)) for name, own in texts.items()}
    stubs |= {cell: _place_ports(place) for cell, place in places.items()}
    return Netlist(
        tuple(Module(name, _self_contained(name, own, stubs)) for name, own in texts.items()),
        {path: places[cell] for cell, path in _instances(texts) if cell in places},
    )


def converted(component: wiring.Component, *left_out: type) -> tuple[dict[str, str], dict[str, OutlinedPart]]:
    """RTLIL of each module by name, and what was left out by the type of the cell that stands there."""
    outline = Outline(*left_out)
    restart = Signal(name="restart")
    values = [Value.cast(value) for _, _, value in component.signature.flatten(component)]
    with rare_collection():
        text = rtlil.convert(
            ResetInserter(restart)(component), name="top", platform=outline, ports=[*values, restart], emit_src=False
        )
    return _modules(text), {place.cell: place for place in outline.places}


def with_all_inside(name: str, texts: Mapping[str, str], places: Mapping[str, OutlinedPart]) -> str:
    """RTLIL of a module and of all in it, with a black box for each part that was left out."""
    wanted, found = [name], {}
    while wanted:
        kind = wanted.pop()
        if kind in found:
            continue
        found[kind] = texts[kind] if kind in texts else black_box(kind, _place_ports(places[kind]))
        wanted += [inner for inner, _ in INSTANCE.findall(found[kind])]
    return "".join(found.values())


def with_boxes_inside(name: str, texts: Mapping[str, str]) -> str:
    """RTLIL of a module, with a black box for each in it."""
    kinds = dict.fromkeys(kind for kind, _ in INSTANCE.findall(texts[name]))
    return texts[name] + "".join(black_box(kind, "\n".join(PORT.findall(texts[kind]))) for kind in kinds)


def black_box(name: str, ports: str) -> str:
    return f"attribute \\blackbox 1\nmodule \\{name}\n{ports}\nend\n"


def _modules(text: str) -> dict[str, str]:
    """Module texts by name."""
    parts = re.split(r"^(?=module )", text, flags=re.MULTILINE)[1:]
    return {part.split(maxsplit=2)[1].removeprefix("\\"): part[: part.rindex("\nend") + 5] for part in parts}


def _instances(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Type and path of every cell that is no operator."""
    for name, text in texts.items():
        for kind, own in INSTANCE.findall(text):
            yield kind, f"{name}.{own}"


def _place_ports(place: OutlinedPart) -> str:
    lines = [
        f"  wire width {port.bits} {'output' if port.is_output else 'input'} {number} \\{port.name}"
        for number, port in enumerate(place.ports, 1)
    ]
    return "\n".join(lines)


def _self_contained(name: str, text: str, stubs: Mapping[str, str]) -> str:
    """A module's text under the name UNIT, followed by a black box for each kind of cell in it that is no operator."""
    # Names of children do not matter and differ between equal modules: they are numbered.
    kinds = list(dict.fromkeys(kind for kind, _ in INSTANCE.findall(text)))
    text = re.sub(rf"^module \\{re.escape(name)}$", rf"module \\{UNIT}", text, flags=re.MULTILINE)
    for number, kind in enumerate(kinds):
        text = re.sub(rf"^  cell \\{re.escape(kind)} ", rf"  cell \\{UNIT}.{number} ", text, flags=re.MULTILINE)
    return text + "".join(black_box(f"{UNIT}.{n}", stubs[kind]) for n, kind in enumerate(kinds))
