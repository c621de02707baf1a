"""`tilewright profile --what-if`: the most that any work on a part of the machine could bring, for this program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.errors import InputError
from tilewright.isa.errors import did_you_mean
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.ideal import Ideal
from tilewright.templates.table import facet_of

EVERY = "all"
"""Stands for each part by itself."""

NO_MORE = (
    "This program cannot gain more, whatever is done to the part. Compiled anew for a better part, it may be "
    "another program: `tilewright advise` tries that."
)
NEVER_WAIT = (
    "In all of these, engines and fetch never wait for a port or the bus because another uses it; that alone takes "
    "{apart:,} cycles."
)


@dataclass(frozen=True, slots=True)
class IdealPart:
    """A part of a machine as the option names it, with the value that makes it ideal: `bus=inf`."""

    name: str
    value: str
    ideal: Ideal

    @property
    def text(self) -> str:
        return f"{self.name}={self.value}"


Choice = tuple[IdealPart, ...]
"""Parts that are ideal together."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a run takes at the least with ideal parts; `fewer` is the share of the cycles that this is less."""

    parts: str
    cycles: int
    fewer: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The cycles of the run, those of one in which nothing gets in another's way, and the bounds, lowest first."""

    cycles: int
    apart: int
    bounds: tuple[Bound, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def parts_of(machine: Machine) -> Mapping[str, IdealPart]:
    """The parts of a machine by name: its bus, the latency of DRAM, and its engines."""
    parts = [IdealPart("bus", "inf", Ideal(bus=True)), IdealPart("latency", "0", Ideal(latency=True))]
    for name, engine in machine.engines.items():
        if machine.formats_of(engine):
            label = facet_of(engine.template).part(engine)
            parts.append(IdealPart(label, "inf", Ideal(engines=frozenset({name}))))
    return {part.name: part for part in parts}


@dataclass(frozen=True, slots=True)
class Changed:
    """A network compiled for a changed machine: `cycles` of a run, or why there are none.

    `images`: as many as a run takes, which another machine may change; None unless it is compiled for a batch.
    """

    change: str
    cycles: int | None
    why_not: str = ""
    images: int | None = None


def what_if(programs: Sequence[Program], cycles: int, choices: Sequence[Choice]) -> WhatIf:
    """The bounds of programs whose run takes `cycles`, one for each choice of ideal parts."""
    bounds = [_bound(programs, cycles, chosen) for chosen in choices]
    return WhatIf(cycles, _cycles(programs, Ideal()), tuple(sorted(bounds, key=lambda bound: bound.cycles)))


def choices_of(machine: Machine, questions: Sequence[str]) -> list[Choice]:
    """The parts that questions such as `bus=inf` or `bus=inf,latency=0` ask for.

    Raises InputError for a part that the machine does not have, or a value that is not ideal.
    """
    parts = parts_of(machine)
    choices: list[Choice] = []
    for question in questions:
        if question == EVERY:
            choices += [(part,) for part in parts.values()]
        else:
            choices.append(tuple(_part(machine, parts, text) for text in question.split(",")))
    return choices


def _part(machine: Machine, parts: Mapping[str, IdealPart], text: str) -> IdealPart:
    name, _, value = text.strip().partition("=")
    if name not in parts:
        known = ", ".join(part.text for part in parts.values())
        meant = did_you_mean(name, list(parts))
        raise InputError(f"--what-if {text}: {machine.name} has no such part{meant}; it has: {known}")
    if value != parts[name].value:
        raise InputError(
            f"--what-if {text}: expected {parts[name].text}, a part that takes no time; "
            "compile for a machine with --set to try one that does"
        )
    return parts[name]


def _bound(programs: Sequence[Program], cycles: int, parts: Choice) -> Bound:
    ideal = Ideal(
        bus=any(part.ideal.bus for part in parts),
        latency=any(part.ideal.latency for part in parts),
        engines=frozenset().union(*(part.ideal.engines for part in parts)),
    )
    least = _cycles(programs, ideal)
    return Bound(",".join(part.text for part in parts), least, 1 - least / cycles if cycles else 0.0)


def _cycles(programs: Sequence[Program], ideal: Ideal) -> int:
    return sum(simulate_cycles(program, place_regions(program.limits), ideal).cycles for program in programs)


def print_what_if(found: WhatIf, name: str, isa: str, images: int | None = None) -> None:
    """The bounds as a table, and what they leave out; `images` of a batch that a run takes."""
    from tilewright.profiles.report import for_images
    from tilewright.terminal.tables import percent, print_table, print_text

    print(f"{name} on {isa}: {found.cycles:,} cycles{for_images(found.cycles, images)}.")
    print()
    rows = [(bound.parts, bound.cycles, percent(bound.fewer)) for bound in found.bounds]
    print_table("What if a part took no time?", ("part", "cycles", "fewer, at most"), rows)
    print()
    print_text(NO_MORE)
    print_text(NEVER_WAIT.format(apart=found.apart))
