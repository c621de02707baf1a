"""From a tile program with addresses and waits to a Program: the last step before the checker."""

from __future__ import annotations

from tilewright.compiler.emission.dependences import fills
from tilewright.compiler.emission.placed import OrderedTiles
from tilewright.compiler.errors import CompileError
from tilewright.compiler.tile.program import TileProgram, engines, forms, require_countable
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, InstructionFormat, make_instruction
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.program import MODEL, Layer, Program


def emit(ordered: OrderedTiles) -> Program:
    """The program; deterministic. Raises CompileError for a value that its field cannot hold."""
    tiles = ordered.tiles
    require_countable(tiles)
    layers, of_operations = _layers(tiles)
    return Program(
        machine=tiles.machine,
        instructions=_instructions(ordered),
        weights=tiles.weights,
        workspace_bytes=ordered.placement.workspace_bytes,
        inputs=tiles.inputs,
        outputs=tiles.outputs,
        layers=layers,
        provenance=of_operations,
        input_bytes=tiles.input_bytes,
        output_bytes=tiles.output_bytes,
        metadata={**tiles.remarks, MODEL: tiles.name},
    )


def _instructions(ordered: OrderedTiles) -> tuple[Instruction, ...]:
    """One for each operation. Of those that differ only in bases, regions and waits all else is checked once."""
    tiles, addresses = ordered.tiles, ordered.placement.addresses
    places = {mnemonic: _places(format) for mnemonic, format in tiles.machine.formats.items()}
    known: dict[int, Instruction] = {}  # by form
    found = []
    steps = zip(tiles.operations, tiles.of_each(forms), ordered.waits, strict=True)
    for index, (operation, form, wait) in enumerate(steps):
        values = {f"wait.{engine}": count for engine, count in wait.items()} if wait else {}
        for operand, base, region in places[operation.mnemonic]:
            buffer, offset = operation.bases[operand]
            values[base] = addresses[buffer] + offset
            if region:
                values[region] = REGIONS.index(tiles.buffers[buffer].place)
        try:
            alike = known.get(form)
            if alike is None:
                alike = known[form] = make_instruction(tiles.machine.format(operation.mnemonic), operation.fields)
            found.append(alike.replace(values))
        except IsaError as error:
            raise CompileError(tiles.layers[operation.layer].name, f"operation {index}: {error}") from error
    return tuple(found)


def _places(format: InstructionFormat) -> list[tuple[str, str, str]]:
    """The name of each operand and of the fields that say where it begins: the base, and the region of one in DRAM."""
    return [
        (operand.name, f"{operand.name}.base", f"{operand.name}.region" if operand.memory == DRAM else "")
        for operand in format.operands
    ]


def _layers(tiles: TileProgram) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """The layers, those of one name as one, and which of them each operation belongs to.

    Each layer starts after the last computing or storing instruction of the layers before it. Loads may run ahead of
    their layer, so they do not mark where it begins.
    """
    numbers: dict[str, int] = {}
    of_parts = [numbers.setdefault(layer.name, len(numbers)) for layer in tiles.layers]
    of_operations = tuple([of_parts[operation.layer] for operation in tiles.operations])
    macs, ends = [0] * len(numbers), [0] * len(numbers)
    for layer, number in zip(tiles.layers, of_parts, strict=True):
        macs[number] += layer.macs
    for index, (number, engine) in enumerate(zip(of_operations, tiles.of_each(engines), strict=True)):
        if not fills(engine):
            ends[number] = index + 1
    layers, start = [], 0
    for number in range(len(numbers)):
        first = tiles.layers[of_parts.index(number)]
        layers.append(Layer(first.name, start, first.nodes, macs[number]))
        start = max(start, ends[number])
    return tuple(layers), of_operations
