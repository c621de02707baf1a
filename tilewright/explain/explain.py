"""The whole explanation as plain values, ready for JSON: `explain_network`, and `explain_layer` for one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tilewright.compiler.select.compared import compared_covers, compared_sums
from tilewright.errors import InputError
from tilewright.explain.layers import LayerFacts, layer_facts, planner_of
from tilewright.explain.reruns import other_tiles
from tilewright.isa.program.program import MODEL
from tilewright.profiles.what_if import Changed
from tilewright.program import Program
from tilewright.values.compiled import Compiled


def explain_network(network: Program, programs: Sequence[Compiled], changes: Sequence[Changed]) -> dict[str, Any]:
    """Every layer with its cycles and what was decided; the remarks of all programs; what changes would do."""
    profile = network.run_profile()
    facts = [fact for compiled in programs for fact in layer_facts(compiled, planner_of(compiled).plan())]
    layers = [
        {**asdict(fact), "tiles": _tiles(fact), "cycles": layer.cycles}
        for fact, layer in zip(facts, profile.layers, strict=True)
    ]
    return {
        "isa": network.machine.name,
        "cycles": profile.cycles,
        "images": profile.images,
        "layers": layers,
        "through_dram": through_dram(facts),
        "remarks": {
            about: text for each in programs for about, text in each.program.metadata.items() if about != MODEL
        },
        "host_nodes": [asdict(node) for node in profile.host_nodes],
        "what_if": [asdict(change) for change in changes],
    }


def explain_layer(network: Program, programs: Sequence[Compiled], name: str) -> dict[str, Any]:
    """One layer: also the covers that were compared, and other tiles with what they cost. Raises InputError."""
    compiled, position = _find(programs, name)
    planner = planner_of(compiled)
    plan = planner.plan()
    fact = layer_facts(compiled, plan)[position]
    profiles = network.run_profile().layers
    before = sum(len(each.selection.covers) for each in programs[: programs.index(compiled)])
    covers = [
        {**asdict(each), "cost": each.cost}
        for each in (
            *compared_covers(compiled.plain_nests, compiled.program.machine),
            *compared_sums(compiled.whole_nests, compiled.program.machine),
        )
        if each.nest == name
    ]
    cycles = sum(layer.cycles for layer in profiles[before : before + len(compiled.selection.covers)])
    others = other_tiles(compiled, planner, plan, position)
    return {
        "isa": network.machine.name,
        **asdict(fact),
        "nodes": [str(node) for node in compiled.selection.covers[position].nest.nodes],
        "tiles": _tiles(fact),
        "cycles": profiles[before + position].cycles,
        "program_cycles": cycles,
        "covers": covers,
        "other_tiles": [
            {"tiles": {**asdict(other.tiles), "text": other.tiles.text}, "cycles": other.cycles} for other in others
        ],
    }


def through_dram(facts: Sequence[LayerFacts]) -> dict[str, str]:
    """The tensors that do not stay on chip between layers, and why."""
    placed = {name: place for fact in facts for name, place in fact.tensors.items()}
    return {name: place for name, place in placed.items() if not place.startswith("stays in ")}


def _tiles(fact: LayerFacts) -> dict[str, Any]:
    return {**asdict(fact.tiles), "text": fact.tiles.text}


def _find(programs: Sequence[Compiled], name: str) -> tuple[Compiled, int]:
    names = [cover.nest.name for compiled in programs for cover in compiled.selection.covers]
    for compiled in programs:
        for position, cover in enumerate(compiled.selection.covers):
            if cover.nest.name == name:
                return compiled, position
    raise InputError(f"no layer {name!r}; there are: {', '.join(names)}")
