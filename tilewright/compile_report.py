"""What `compile` says of a program: its layers and sizes, and the folder that `--report` fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isa.machine import ENGINES
from tilewright.api import Program
from tilewright.files import write_file, write_json
from tilewright.tables import print_tables


def region_sizes(program: Program) -> dict[str, int]:
    """Bytes of each DRAM region."""
    return dict(program.binary.limits)


def compile_summary(program: Program, seconds: float) -> dict[str, Any]:
    """The program in figures: instructions by layer and engine, bytes by region."""
    binary = program.binary
    layers = [
        {"name": layer.name, "nodes": list(layer.nodes), "macs": layer.macs, "instructions": dict.fromkeys(ENGINES, 0)}
        for layer in binary.layers
    ]
    for instruction, layer in zip(binary.instructions, binary.provenance, strict=True):
        counts: dict[str, int] = layers[layer]["instructions"]  # type: ignore[assignment]
        counts[instruction.engine] += 1
    return {
        "isa": program.machine.name,
        "isa_hash": program.machine.hash,
        "seconds": round(seconds, 3),
        "instructions": len(binary.instructions),
        "macs": sum(layer.macs for layer in binary.layers),
        "bytes": region_sizes(program),
        "layers": layers,
    }


def print_compile_summary(summary: Mapping[str, Any]) -> None:
    rows = [(layer["name"], layer["macs"], *layer["instructions"].values()) for layer in summary["layers"]]
    total = ("total", summary["macs"], *(sum(row[2 + i] for row in rows) for i in range(len(ENGINES))))
    title = f"{summary['instructions']} instructions for {summary['isa']}, compiled in {summary['seconds']:.2f} s"
    layers = (title, ("layer", "MACs", *ENGINES), [*rows, total])
    print_tables([layers, ("DRAM", ("region", "bytes"), summary["bytes"].items())])


def write_report(folder: Path, program: Program, stages: Sequence[tuple[str, str]]) -> None:
    """Every pass's text, numbered in order, and the simulated profile as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, text) in enumerate(stages):
        write_file(folder / f"{number:02}-{name}.txt", text)
    write_json(folder / "profile.json", program.profile())
