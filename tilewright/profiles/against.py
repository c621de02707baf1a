"""Two profiles side by side: what changed, by layer and by cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.profiles.causes import CAUSES, losses, parts
from tilewright.profiles.layers import distinct_names
from tilewright.tables import percent, print_table

Row = tuple[Any, ...]


def print_against(profile: Mapping[str, Any], other: Mapping[str, Any], name: str, other_name: str) -> None:
    """Cycles of this profile against the other's: in all, by cause, and by layer, the largest change first."""
    cycles, before = profile["cycles"], other["cycles"]
    print(f"{name} on {profile['isa']}: {cycles:,} cycles; {other_name} on {other['isa']}: {before:,}.")
    if before:
        print(f"{_faster(cycles, before)}.")
    print()
    columns = (name, other_name, "difference")
    print_table("By cause, in cycles", ("cause", *columns), by_cause(profile, other))
    print()
    print_table("By layer, in cycles", ("layer", *columns, "mostly"), by_layer(profile, other))


def _faster(cycles: int, before: int) -> str:
    if cycles == before:
        return "Both take the same number of cycles"
    return f"{percent(abs(cycles - before) / before)} {'fewer' if cycles < before else 'more'} cycles than the other"


def by_cause(profile: Mapping[str, Any], other: Mapping[str, Any]) -> list[Row]:
    """A row for each cause with cycles in either profile, and the total."""
    own, others = parts(profile["cycles"], losses(profile)), parts(other["cycles"], losses(other))
    rows = [
        (cause, round(own[cause]), round(others[cause]), signed(round(own[cause]) - round(others[cause])))
        for cause in own
        if round(own[cause]) or round(others[cause])
    ]
    difference = profile["cycles"] - other["cycles"]
    return [*rows, ("total", profile["cycles"], other["cycles"], signed(difference))]


def by_layer(profile: Mapping[str, Any], other: Mapping[str, Any]) -> list[Row]:
    """Layers of the same name together, then those of one profile alone; `mostly` is the cause that changed most."""
    own, others = (dict(zip(distinct_names(of["layers"]), of["layers"], strict=True)) for of in (profile, other))
    rows: list[tuple[int, Row]] = []
    for name in dict.fromkeys((*own, *others)):
        one, two = own.get(name), others.get(name)
        if one is None or two is None:
            alone = one or two
            assert alone is not None
            difference = alone["cycles"] if two is None else -alone["cycles"]
            cells = (alone["cycles"], "") if two is None else ("", alone["cycles"])
            rows.append((difference, (name, *cells, signed(difference), "only there")))
            continue
        difference = one["cycles"] - two["cycles"]
        rows.append((difference, (name, one["cycles"], two["cycles"], signed(difference), _mostly(one, two))))
    return [row for _, row in sorted(rows, key=lambda entry: -abs(entry[0]))]


def _mostly(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    changes = {cause: one["loss"][cause] - two["loss"][cause] for cause in CAUSES}
    cause = max(changes, key=lambda name: abs(changes[name]))
    return f"{cause} {signed(round(changes[cause]))}" if round(changes[cause]) else ""


def signed(difference: int) -> str:
    """`+1,204`, `-3` or `0`."""
    return f"{difference:+,}" if difference else "0"
