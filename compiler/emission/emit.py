"""From a tile program with addresses and waits to a Program: the last step before the checker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.compiler.emission.allocate import Placement
from tilewright.compiler.emission.load_plan import LOAD
from tilewright.compiler.emission.waits import Waits
from tilewright.compiler.errors import CompileError
from tilewright.compiler.tile.length import require_countable
from tilewright.compiler.tile.program import TileOperation, TileProgram
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.program import Layer, Program


def emit(tiles: TileProgram, placement: Placement, waits: Waits, metadata: Mapping[str, str] | None = None) -> Program:
    """The program; deterministic. Raises CompileError for a value that its field cannot hold."""
    require_countable(tiles)
    instructions = tuple(
        _instruction(tiles, placement, operation, wait, index)
        for index, (operation, wait) in enumerate(zip(tiles.operations, waits, strict=True))
    )
    return Program(
        machine=tiles.machine,
        instructions=instructions,
        weights=tiles.weights,
        workspace_bytes=placement.workspace_bytes,
        inputs=tiles.inputs,
        outputs=tiles.outputs,
        layers=_layers(tiles),
        provenance=tuple(operation.layer for operation in tiles.operations),
        input_bytes=tiles.input_bytes,
        output_bytes=tiles.output_bytes,
        metadata=dict(metadata or {}),
    )


def _instruction(
    tiles: TileProgram, placement: Placement, operation: TileOperation, waits: Mapping[str, int], index: int
) -> Instruction:
    format = tiles.machine.format(operation.mnemonic)
    values = dict(operation.fields)
    for operand in format.operands:
        base = operation.bases[operand.name]
        values[f"{operand.name}.base"] = placement.addresses[base.buffer] + base.offset
        if operand.memory == DRAM:
            values[f"{operand.name}.region"] = REGIONS.index(tiles.buffers[base.buffer].place)
    values.update({f"wait.{engine}": count for engine, count in waits.items()})
    try:
        return make_instruction(format, values)
    except IsaError as error:
        raise CompileError(tiles.layers[operation.layer].name, f"operation {index}: {error}") from error


def _layers(tiles: TileProgram) -> tuple[Layer, ...]:
    """Each layer starts after the last computing or storing instruction of the layers before it.

    Loads may run ahead of their layer, so they do not mark where it begins.
    """
    ends = [0] * len(tiles.layers)
    for index, operation in enumerate(tiles.operations):
        if tiles.machine.format(operation.mnemonic).engine != LOAD:
            ends[operation.layer] = index + 1
    layers, start = [], 0
    for layer, end in zip(tiles.layers, ends, strict=True):
        nodes = tuple(str(node) for node in layer.nodes)  # without the operator types that the compiler remembers
        layers.append(replace(layer, first_instruction=start, nodes=nodes))
        start = max(start, end)
    return tuple(layers)
