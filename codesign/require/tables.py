"""A requirement as people read it: what any machine needs, which machines do it, and with which settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.codesign.require.requirement import JudgedMachine, Requirement

Table = tuple[str, Sequence[str], Sequence[Sequence[Any]]]
"""A title, columns and rows."""


def requirement_tables(found: Requirement) -> list[Table]:
    return [*_least(found), _machines(found)]


def requirement_lines(found: Requirement) -> list[str]:
    """What stands below the tables."""
    nearest, lines = found.nearest, []
    if nearest.settings:
        lines.append(f"{nearest.name}: --isa {nearest.base} " + " ".join(f"--set {each}" for each in nearest.settings))
    if nearest.misses:
        lines.append(f"No machine was found that does it. What the nearest misses: {' and '.join(nearest.misses)}.")
    elif found.asked.cycles is None:
        lines.append(f"No single step of {nearest.name} is faster within that: of array, lanes, bus and memories.")
    else:
        lines.append(f"No single step down of {nearest.name} does it: of array, lanes, bus and memories.")
    lines.append("MACs: products a cycle of array and lanes together. bus: bytes that are read in a cycle.")
    if any(_does(each, found) == "perhaps" for each in found.shipped):
        lines.append("perhaps: its logic and its clock are not priced; `tilewright price` and `compare` do.")
    lines.append(_how(found))
    if nearest.host_nodes:
        count = f"{nearest.host_nodes} node{'s run' if nearest.host_nodes > 1 else ' runs'}"
        lines.append(f"{count} on the host, whose time is in no cycles.")
    return lines


def _how(found: Requirement) -> str:
    text = f"{found.tried} machines were compiled for, checked and simulated, with {' and '.join(found.networks)}."
    figures = found.nearest.figures
    if figures is None:
        return f"{text} None was priced."
    clock = "" if figures.clock_mhz is None else f"; its own clock is {figures.clock_mhz:.0f} MHz"
    price = f"{figures.logic_mm2:.3g} mm² of logic and {figures.memories_mm2:.3g} of memories"
    how = f"{figures.process}, synthesised, not placed"
    return f"{text} {found.nearest.name} was priced by itself: {price}, {how}{clock}."


def _least(found: Requirement) -> list[Table]:
    least, cycles = found.least, found.asked.cycles
    if cycles is None:
        return []
    rows = [
        ("MACs", f"{least.macs:,}", f"bound: {least.products:,} products of a run, which no program leaves out"),
        ("bus", f"{least.bus_bytes:,}", f"bound: {least.weight_bytes:,} bytes of weights, which each run reads"),
        ("KiB", *_memories(found)),
    ]
    return [(f"At least, for {found.asked}: {cycles:,} cycles a run", ("", "at least", "because of"), rows)]


def _memories(found: Requirement) -> tuple[str, str]:
    """No bound says how much: a program with less memory moves more bytes. So the answer is one by trial."""
    nearest = found.nearest
    if nearest.misses:
        return "", "no bound says, and no machine was found"
    return f"{nearest.sizes.kib:,.0f}", f"trials, no bound: with less of any one memory, {nearest.name} is too slow"


def _machines(found: Requirement) -> Table:
    own = [found.nearest] if found.nearest.settings else []
    rest = [found.nearest if each.base == found.nearest.base and not own else each for each in found.shipped]
    rows = [_row(each, found) for each in (*own, *rest)]
    columns = ("machine", "cycles", "a second", "MACs", "bus", "KiB", "mm²", "does it")
    kept = [at for at, name in enumerate(columns) if _is_shown(name, found)]
    shown = [tuple(row[at] for at in kept) for row in rows]
    return f"Machines for {' and '.join(found.networks)}, {found.asked}", [columns[at] for at in kept], shown


def _is_shown(column: str, found: Requirement) -> bool:
    if column == "a second":
        return found.asked.cycles is not None
    return column != "mm²" or found.nearest.figures is not None


def _row(of: JudgedMachine, found: Requirement) -> tuple[Any, ...]:
    cycles = "" if of.cycles is None else of.cycles
    rate = "" if of.rate is None else f"{of.rate:,.1f}" if of.rate < 100 else f"{of.rate:,.0f}"
    kib = f"{of.sizes.kib:,.0f}"
    return (of.name, cycles, rate, of.sizes.macs, of.sizes.bus_bytes, kib, _area(of), _does(of, found))


def _area(of: JudgedMachine) -> str:
    if of.figures is not None:
        return f"{of.figures.area_mm2:.3g}"
    return "" if of.memories_mm2 is None else f"> {of.memories_mm2:.3g}"


def _does(of: JudgedMachine, found: Requirement) -> str:
    """A machine whose logic is not priced may be too large even so."""
    if of.misses:
        return f"no: {' and '.join(of.misses)}"
    is_open = found.asked.needs_price or (found.nearest.figures is not None and found.asked.clock_mhz is not None)
    return "perhaps" if of.figures is None and is_open else "yes"
