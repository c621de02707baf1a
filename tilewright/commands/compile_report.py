"""What `compile` says of a program: its layers and sizes, and the folder that `--report` fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.compiler.search.finisher import exact_cycles
from tilewright.dumps.files import write_folder
from tilewright.files.whole import json_text
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.partitioned import HostNode
from tilewright.isa.program.program import MODEL
from tilewright.isa.program.program import Program as Binary
from tilewright.program import Program
from tilewright.terminal.tables import print_table, print_tables


def region_sizes(program: Program) -> dict[str, int]:
    """Bytes of each DRAM region, of all programs together."""
    return {region: sum(binary.limits[region] for binary in program.programs) for region in REGIONS}


def compile_summary(program: Program, seconds: float) -> dict[str, Any]:
    """The network in figures: instructions by layer and engine, bytes by region, and what the host does."""
    return {
        "isa": program.machine.name,
        "isa_hash": program.machine.hash,
        "engines": list(program.machine.engines),
        "seconds": round(seconds, 3),
        "instructions": sum(len(binary.instructions) for binary in program.programs),
        "macs": sum(layer.macs for layer in program.layers),
        "bytes": region_sizes(program),
        **_batch(program),
        "layers": [layer for binary in program.programs for layer in _layers(binary)],
        "host_nodes": [asdict(node) for node in program.host_nodes],
        "remarks": _remarks(program),
    }


def _batch(program: Program) -> dict[str, Any]:
    """Latency and throughput of a program for a batch; nothing for another."""
    if program.images is None:
        return {}
    cycles = sum(map(exact_cycles, program.programs))
    return {"batch": {"images": program.images, "cycles": cycles, "cycles_per_image": cycles / program.images}}


def _remarks(program: Program) -> dict[str, str]:
    """What the compiler has to say of layers, by what it is about."""
    return {about: text for binary in program.programs for about, text in binary.metadata.items() if about != MODEL}


def _layers(binary: Binary) -> list[dict[str, Any]]:
    counts = [dict.fromkeys(binary.machine.engines, 0) for _ in binary.layers]
    for instruction, layer in zip(binary.instructions, binary.provenance, strict=True):
        counts[layer][instruction.engine.name] += 1
    return [
        {"name": layer.name, "nodes": list(layer.nodes), "macs": layer.macs, "instructions": count}
        for layer, count in zip(binary.layers, counts, strict=True)
    ]


def print_compile_summary(summary: Mapping[str, Any]) -> None:
    rows = [(layer["name"], layer["macs"], *layer["instructions"].values()) for layer in summary["layers"]]
    total = ("total", summary["macs"], *(sum(row[2 + i] for row in rows) for i in range(len(summary["engines"]))))
    title = f"{summary['instructions']} instructions for {summary['isa']}, compiled in {summary['seconds']:.2f} s"
    layers = (title, ("layer", "MACs", *summary["engines"]), [*rows, total])
    print_tables([layers, ("DRAM", ("region", "bytes"), summary["bytes"].items())])
    print_host_nodes([HostNode(**node) for node in summary["host_nodes"]])
    if summary["remarks"]:
        print()
        print_table("remarks", ("about", ""), summary["remarks"].items())


def print_host_nodes(nodes: Sequence[HostNode]) -> None:
    """A line for each node that the host computes: what it costs in transfers, and why it is there."""
    if nodes:
        rows = [(f"{node.name} ({node.op_type})", node.transfer_bytes, node.reason) for node in nodes]
        count = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
        print()
        print_table(f"{count} on the host", ("node", "bytes", "reason"), rows)


def write_report(folder: Path, program: Program, texts: Mapping[str, str]) -> None:
    """The texts of passes, by file name, and the simulated profile as JSON."""
    write_folder(folder, {**texts, "profile.json": json_text(program.profile())})
