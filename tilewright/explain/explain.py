"""The whole explanation as plain values, ready for JSON: `explain_network`, and `explain_layer` for one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tilewright.compiler.select.compared import compared_covers, compared_sums
from tilewright.errors import InputError
from tilewright.explain.layers import STAYS, LayerFacts, facts_of, layer_facts, layers_of, planner_of
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
            about: text for program in network.programs for about, text in program.metadata.items() if about != MODEL
        },
        "host_nodes": [asdict(node) for node in profile.host_nodes],
        "what_if": [asdict(change) for change in changes],
    }


def explain_layer(network: Program, programs: Sequence[Compiled], name: str) -> dict[str, Any]:
    """One layer, or one of the pieces that it is in: also the covers that were compared.

    Of what is not in pieces, other tiles with what they cost. `cycles` are those of the layer, `pieces` the names of
    its own. Raises InputError where nothing has the name.
    """
    compiled, layer, positions = _find(programs, name)
    planner = planner_of(compiled)
    plan = planner.plan()
    fact = facts_of(compiled, plan, name, positions)
    nests = [compiled.selection.covers[position].nest for position in positions]
    profiles = network.run_profile().layers
    before = sum(len(layers_of(each)) for each in programs[: programs.index(compiled)])
    names = list(layers_of(compiled))
    own = profiles[before : before + len(names)]
    covers = [
        {**asdict(each), "cost": each.cost}
        for each in (
            *compared_covers(compiled.plain_nests, compiled.program.machine),
            *compared_sums(compiled.whole_nests, compiled.program.machine),
        )
        if each.nest == layer or each.nest in {nest.name for nest in nests}
    ]
    others = other_tiles(compiled, planner, plan, positions[0]) if len(positions) == 1 else []
    return {
        "isa": network.machine.name,
        **asdict(fact),
        "layer": layer,
        "pieces": [nest.name for nest in nests] if len(nests) > 1 else [],
        "nodes": list(dict.fromkeys(str(node) for nest in nests for node in nest.nodes)),
        "tiles": _tiles(fact),
        "cycles": own[names.index(layer)].cycles,
        "program_cycles": sum(each.cycles for each in own),
        "covers": covers,
        "other_tiles": [
            {"tiles": {**asdict(other.tiles), "text": other.tiles.text}, "cycles": other.cycles} for other in others
        ],
    }


def through_dram(facts: Sequence[LayerFacts]) -> dict[str, str]:
    """The tensors that do not stay on chip between layers, and why."""
    placed = {name: place for fact in facts for name, place in fact.tensors.items()}
    return {name: place for name, place in placed.items() if not place.startswith(STAYS)}


def _tiles(fact: LayerFacts) -> dict[str, Any]:
    return {**asdict(fact.tiles), "text": fact.tiles.text}


def _find(programs: Sequence[Compiled], name: str) -> tuple[Compiled, str, list[int]]:
    """The program with a layer or a piece of this name, the layer, and the positions of its nests, or of the piece."""
    layers = [(compiled, layer, at) for compiled in programs for layer, at in layers_of(compiled).items()]
    for compiled, layer, positions in layers:
        if layer == name:
            return compiled, layer, positions
        for position in positions:
            if compiled.selection.covers[position].nest.name == name:
                return compiled, layer, [position]
    raise InputError(f"no layer {name!r}; there are: {', '.join(layer for _, layer, _ in layers)}")
