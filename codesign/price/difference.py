"""What changes in the price from one machine to another, in lines like those of `isa diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.codesign.price.price import Price


def price_difference(a: Price, b: Price) -> tuple[str, ...]:
    """A line for logic, for memories, and for each unit and memory whose area changes; none if nothing does."""
    return (
        *_change("price.logic", _kilogates(a, a.logic_um2), _kilogates(b, b.logic_um2), "kGE"),
        *_change("price.memories", a.memories_um2 / 1e6, b.memories_um2 / 1e6, "mm²"),
        *_changes("price.units", _units(a), _units(b), "kGE"),
        *_changes("price.memories", _memories(a), _memories(b), "mm²"),
    )


def _kilogates(price: Price, area_um2: float) -> float:
    return price.gates(area_um2) / 1000


def _units(price: Price) -> dict[str, float]:
    return {unit.name: _kilogates(price, unit.area_um2) for unit in price.units}


def _memories(price: Price) -> dict[str, float]:
    return {memory.name: memory.area_um2 / 1e6 for memory in (*price.memories, *price.queues)}


def _changes(key: str, a: Mapping[str, float], b: Mapping[str, float], unit: str) -> Iterator[str]:
    for name in dict.fromkeys([*a, *b]):
        yield from _change(f"{key}.{name}", a.get(name, 0.0), b.get(name, 0.0), unit)


def _change(key: str, a: float, b: float, unit: str) -> Iterator[str]:
    digits = 1 if unit == "kGE" else 3
    old, new = f"{a:,.{digits}f}", f"{b:,.{digits}f}"
    if old != new:
        yield f"{key}: {old} → {new} {unit}"
