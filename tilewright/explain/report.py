"""Explanations on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.profiles.report import for_images
from tilewright.terminal.tables import percent, print_table, print_text


def print_network(found: Mapping[str, Any], model: str) -> None:
    """A row a layer, then tensors in DRAM, remarks, host nodes, and what changes of the machine would do."""
    rows = [
        (layer["name"], layer["cycles"], " + ".join(layer["instructions"]), layer["tiles"]["text"], _again(layer))
        for layer in found["layers"]
    ]
    title = f"{model} on {found['isa']}: {found['cycles']:,} cycles{for_images(found['cycles'], found['images'])}"
    print_table(title, ("layer", "cycles", "instructions", "tiles", "loaded again"), rows)
    print()
    if found["through_dram"]:
        print_table("Tensors that do not stay on chip", ("tensor", ""), found["through_dram"].items())
    else:
        print("Every tensor stays on chip between its layers.")
    _print_remarks(found["remarks"])
    if found["host_nodes"]:
        print()
        nodes = [(f"{node['name']} ({node['op_type']})", node["reason"]) for node in found["host_nodes"]]
        print_table("On the host", ("node", "why"), nodes)
    if found["what_if"]:
        print()
        print_changes(found["what_if"], found["cycles"], found["images"])


def print_changes(changes: Sequence[Mapping[str, Any]], before: int, images: int | None = None) -> None:
    """What a network takes when it is compiled again for changed machines; `before` is what it takes now.

    Of a batch, what each image takes: a changed machine may take more of them, or fewer, in a run.
    """
    now = round(before / (images or 1))
    rows = [(one["change"], *_change(_for_each(one), now, one["why_not"])) for one in changes]
    cycles = "cycles" if images is None else "cycles for each image"
    print_table("Compiled again, with", ("setting", cycles, "change", ""), rows)


def _for_each(changed: Mapping[str, Any]) -> int | None:
    """The cycles of a run for each of its images."""
    return None if changed["cycles"] is None else round(changed["cycles"] / (changed["images"] or 1))


def print_layer(found: Mapping[str, Any]) -> None:
    """One layer in full."""
    print_text(_whose_cycles(found))
    print_text(f"It computes {', '.join(found['nodes']) or 'what the compiler added'}.")
    if found["pieces"]:
        first, *_, last = found["pieces"]
        print_text(f"It is in {found['tiles']['text']}: from {first} to {last}. Name a piece for its other tiles.")
    else:
        _print_tiles(found)
    print()
    covers = [
        (
            one["form"],
            " + ".join(one["instructions"]),
            ", ".join(f"{engine} {count:,}" for engine, count in one["words"].items()),
            *(one["cost"], "chosen" if one["is_chosen"] else one["obstacle"]),
        )
        for one in found["covers"]
    ]
    if covers:
        columns = ("form", "instructions", "words of each engine", "cost", "")
        print_table("Instructions compared; the cost is the words of the busiest engine", columns, covers)
    else:
        print("Instructions: no others were compared, since a later pass made this layer.")
    print()
    print_table("Its tensors", ("tensor", "where"), found["tensors"].items())
    print()
    loaded = [(one["buffer"], one["bytes"], f"{one['times']:g}", one["why"]) for one in found["loaded"]]
    print_table("What it loads from DRAM", ("from", "bytes", "times", "why more than once"), loaded)


def _whose_cycles(found: Mapping[str, Any]) -> str:
    cycles, name = f"{found['cycles']:,} of {found['program_cycles']:,} cycles", found["name"]
    if found["layer"] == name:
        return f"{name} on {found['isa']}: {cycles}."
    return f"{name} on {found['isa']}, a piece of {found['layer']}, which takes {cycles}."


def _print_tiles(found: Mapping[str, Any]) -> None:
    """The tiles of what is not in pieces, and others."""
    tiles = found["tiles"]
    overlap = "" if tiles["count"] == 1 else _overlap(tiles["overlaps"])
    order = f"; {tiles['order']}" if tiles["order"] else ""
    print_text(f"Tiles: {tiles['text']}{order}{overlap}.")
    print()
    rows = [("chosen", tiles["text"], tiles["order"], *_change(found["program_cycles"], 0, ""))]
    for other in found["other_tiles"]:
        change = _change(other["cycles"], found["program_cycles"], "does not fit")
        rows.append(("other", other["tiles"]["text"], other["tiles"]["order"], *change))
    print_table("Other tiles, each in the whole program", ("", "tiles", "order", "cycles", "change", ""), rows)


def _overlap(overlaps: bool) -> str:
    return "; the next is loaded while one is computed" if overlaps else "; one after the other: two do not fit"


def _again(layer: Mapping[str, Any]) -> str:
    """What comes more than once, and how often."""
    more = [f"{one['buffer']} ×{one['times']:g}" for one in layer["loaded"] if one["why"]]
    return ", ".join(more)


def _change(cycles: int | None, before: int, why_not: str) -> tuple[int | str, str, str]:
    """Cycles, how many percent more or less, and why there are none."""
    if cycles is None:
        return "", "", why_not
    return cycles, f"{'+' if cycles > before else ''}{percent(cycles / before - 1)}" if before else "", ""


def _print_remarks(remarks: Mapping[str, str]) -> None:
    print()
    if remarks:
        print_table("Remarks of the compiler", ("about", ""), remarks.items())
    else:
        print("The compiler has no remarks: nothing had to be packed for size or kept in order.")
