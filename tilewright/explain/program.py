"""What a compiled program itself says of why it is as it is, without the model: `explain NET.npu`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.isa.check.footprint import expand, footprint, merge_ranges
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.demands import moved_bytes
from tilewright.isa.program.program import MODEL
from tilewright.isa.program.program import Program as Binary
from tilewright.isa.templates.table import facet_of
from tilewright.profiles.flows import INPUT, flows
from tilewright.profiles.report import for_images
from tilewright.program import Program
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.terminal.tables import print_table, print_text

NEEDS_MODEL = (
    "Other tiles and instructions, the reasons, and what a changed machine would do take the model that it was "
    "compiled from: --model NET.onnx."
)


def explain_program(network: Program) -> dict[str, Any]:
    """Every layer with its cycles, instructions, sources and loads, as the instructions show them; and the remarks."""
    profile = network.run_profile()
    layers = [layer for program in network.programs for layer in _layers(program)]
    return {
        "isa": network.machine.name,
        "cycles": profile.cycles,
        "images": profile.images,
        "model": ", ".join(dict.fromkeys(of.metadata[MODEL] for of in network.programs if MODEL in of.metadata)),
        "layers": [
            {**layer, "cycles": of.cycles} for layer, of in zip(layers, profile.layers, strict=True)
        ],
        "remarks": {
            about: text for of in network.programs for about, text in of.metadata.items() if about != MODEL
        },
        "host_nodes": [asdict(node) for node in profile.host_nodes],
    }  # fmt: skip


def one_layer(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A layer of `explain_program`. Raises InputError if there is none of the name."""
    for layer in found["layers"]:
        if layer["name"] == name:
            return {"isa": found["isa"], "program_cycles": found["cycles"], **layer}
    names = ", ".join(layer["name"] for layer in found["layers"])
    raise InputError(f"no layer {name!r}; there are: {names}")


# -- from instructions -------------------------------------------------------------------------------------------------


def _layers(program: Binary) -> list[dict[str, Any]]:
    layers = layers_of(program)
    found: list[dict[str, Any]] = []
    for layer, indices in zip(layers, instructions_of_layers(program, layers), strict=True):
        own = [program.instructions[index] for index in indices]
        found.append(
            {
                "name": layer.name,
                "nodes": list(layer.nodes),
                "instructions": [_kind(mnemonic, own) for mnemonic in dict.fromkeys(one.mnemonic for one in own)],
                "reads": [],
                "loaded": _loaded(program, own),
            }
        )
    for flow in flows(program):
        writer = "an input" if flow.writer == INPUT else layers[flow.writer].name
        found[flow.reader]["reads"].append({"from": writer, "where": flow.text, "is_on_chip": not flow.is_dram})
    return found


def _kind(mnemonic: str, instructions: Sequence[Instruction]) -> dict[str, Any]:
    """The instructions of a mnemonic: how many, on which engine, and the sizes of their loops, the most frequent first.

    A size is what one instruction does; with one of them for each tile, it is the size of a tile.
    """
    own = [one for one in instructions if one.mnemonic == mnemonic]
    sizes = Counter(" ".join(f"{loop}={trips}" for loop, trips in one.trips.items() if trips > 1) for one in own)
    found = [{"loops": loops, "count": count} for loops, count in sizes.most_common()]
    engine = own[0].engine
    return {
        "mnemonic": mnemonic,
        "engine": engine.name,
        "template": engine.template.value,
        "count": len(own),
        "sizes": found,
    }


def _loaded(program: Binary, instructions: Sequence[Instruction]) -> list[dict[str, Any]]:
    """What is loaded from each region of DRAM: the bytes, and how often each of them comes on average."""
    moved: dict[str, int] = {}
    touched: dict[str, list[np.ndarray]] = {}
    for one in instructions:
        if one.format.sources and one.format.sources[0].memory == DRAM:
            access = footprint(one, program.machine)[0]
            moved[access.place] = moved.get(access.place, 0) + moved_bytes(one, program.machine)
            touched.setdefault(access.place, []).append(access.ranges)
    return [
        {"region": region, "bytes": size, "times": round(size / _distinct(touched[region]), 2)}
        for region, size in moved.items()
    ]


def _distinct(ranges: Sequence[np.ndarray]) -> int:
    return int(expand(merge_ranges(np.concatenate(ranges))).size)


# -- on a terminal -----------------------------------------------------------------------------------------------------


def print_program(found: Mapping[str, Any], name: str) -> None:
    """A row a layer, the remarks and the nodes on the host, and what takes the model."""
    model = f", compiled from {found['model']}" if found["model"] else ""
    took = f"{found['cycles']:,} cycles{for_images(found['cycles'], found['images'])}"
    print_text(f"{name}: a program for {found['isa']}{model}: {took}.")
    print()
    rows = [
        (layer["name"], layer["cycles"], _instructions(layer), _reads(layer), _loads(layer))
        for layer in found["layers"]
    ]
    print_table("Layers", ("layer", "cycles", "instructions", "reads", "loads from DRAM"), rows)
    print()
    if found["remarks"]:
        print_table("Remarks of the compiler", ("about", ""), found["remarks"].items())
    else:
        print("The program carries no remarks of the compiler.")
    if found["host_nodes"]:
        print()
        nodes = [(f"{node['name']} ({node['op_type']})", node["reason"]) for node in found["host_nodes"]]
        print_table("On the host", ("node", "why"), nodes)
    print()
    print_text(NEEDS_MODEL)


def print_program_layer(found: Mapping[str, Any]) -> None:
    """One layer in full."""
    print_text(f"{found['name']} on {found['isa']}: {found['cycles']:,} of {found['program_cycles']:,} cycles.")
    print_text(f"It computes {', '.join(found['nodes']) or 'what the program does not name'}.")
    print()
    rows = [
        (kind["mnemonic"], kind["engine"], size["count"], size["loops"] or "one word")
        for kind in found["instructions"]
        for size in kind["sizes"]
    ]
    print_table("Its instructions, by the loops of each", ("instruction", "engine", "count", "loops"), rows)
    print()
    reads = [(one["from"], one["where"]) for one in found["reads"]]
    print_table("What it reads of others, and where that lies", ("from", "where"), reads)
    print()
    loads = [(one["region"], one["bytes"], f"{one['times']:g}") for one in found["loaded"]]
    print_table("What it loads from DRAM", ("region", "bytes", "times"), loads)
    print()
    print_text(NEEDS_MODEL)


def _instructions(layer: Mapping[str, Any]) -> str:
    """Those that compute, with how many of each: `4 mma + 4 requantize`."""
    every = layer["instructions"]
    kinds = [kind for kind in every if not facet_of(Template(kind["template"])).only_moves] or every
    return " + ".join(f"{kind['count']} {kind['mnemonic']}" for kind in kinds)


def _reads(layer: Mapping[str, Any]) -> str:
    return "; ".join(f"{one['from']} ({one['where']})" for one in layer["reads"])


def _loads(layer: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{one['region']} {one['bytes']:,}" + (f" ×{one['times']:g}" if one["times"] >= 1.005 else "")
        for one in layer["loaded"]
    )
