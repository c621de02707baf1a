"""Two profiles side by side: what changed, by layer and by cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.losses.causes import CAUSES, losses, parts
from tilewright.profiles.layers import distinct_names
from tilewright.terminal.tables import percent, print_table

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import LayerProfile, RunProfile

Row = tuple[str | int, ...]

LayerRow = tuple[str, int | str, int | str, str, str]
"""A layer, its cycles here and there, the difference, and the cause that changed most; no cycles where it is not."""


def print_against(profile: RunProfile, other: RunProfile, name: str, other_name: str) -> None:
    """Cycles of this profile against the other's: in all, by cause, and by layer, the largest change first."""
    for line in sentences(profile, other, name, other_name):
        print(line)
    print()
    columns = (name, other_name, "difference")
    rows = [(*row, signed(row[1] - row[2])) for row in by_cause(profile, other)]
    print_table("By cause, in cycles", ("cause", *columns), rows)
    print()
    print_table("By layer, in cycles", ("layer", *columns, "mostly"), by_layer(profile.layers, other.layers))


def sentences(profile: RunProfile, other: RunProfile, name: str, other_name: str) -> list[str]:
    """What two profiles come to, in words."""
    cycles, before = profile.cycles, other.cycles
    said = [f"{name} on {profile.isa}: {cycles:,} cycles; {other_name} on {other.isa}: {before:,}."]
    if before:
        said.append(f"{_faster(cycles, before)}.")
    if profile.images != other.images:
        each, others = (f"{of.cycles_per_image:,.0f} ({of.images or 1} in a run)" for of in (profile, other))
        said.append(f"Cycles for each image: {each}; {others}.")
    return said


def _faster(cycles: int, before: int) -> str:
    if cycles == before:
        return "Both take the same number of cycles"
    return f"{percent(abs(cycles - before) / before)} {'fewer' if cycles < before else 'more'} cycles than the other"


def by_cause(profile: RunProfile, other: RunProfile) -> list[tuple[str, int, int]]:
    """(cause, cycles here, there) for each cause with cycles in either profile, and the total."""
    own, others = parts(profile.cycles, losses(profile)), parts(other.cycles, losses(other))
    rows = [(str(cause), round(own[cause]), round(others[cause])) for cause in own]
    return [*(row for row in rows if row[1] or row[2]), ("total", profile.cycles, other.cycles)]


def by_layer(layers: Sequence[LayerProfile], before: Sequence[LayerProfile]) -> list[LayerRow]:
    """Layers of the same name together, then those of one profile alone; `mostly` is the cause that changed most."""
    own, others = (dict(zip(distinct_names(of), of, strict=True)) for of in (layers, before))
    rows: list[tuple[int, LayerRow]] = []
    for name in dict.fromkeys((*own, *others)):
        one, two = own.get(name), others.get(name)
        if one is None or two is None:
            alone = one or two
            assert alone is not None
            difference = alone.cycles if two is None else -alone.cycles
            cells = (alone.cycles, "") if two is None else ("", alone.cycles)
            rows.append((difference, (name, *cells, signed(difference), "only there")))
            continue
        difference = one.cycles - two.cycles
        rows.append((difference, (name, one.cycles, two.cycles, signed(difference), _mostly(one, two))))
    return [row for _, row in sorted(rows, key=lambda entry: -abs(entry[0]))]


def _mostly(one: LayerProfile, two: LayerProfile) -> str:
    changes = {cause: one.loss[cause] - two.loss[cause] for cause in CAUSES}
    cause = max(changes, key=lambda name: abs(changes[name]))
    return f"{cause} {signed(round(changes[cause]))}" if round(changes[cause]) else ""


def signed(difference: int) -> str:
    """`+1,204`, `-3` or `0`."""
    return f"{difference:+,}" if difference else "0"
