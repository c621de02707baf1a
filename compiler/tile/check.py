"""What a tile program must keep to, whoever wrote it: buffers in their regions, operations in their buffers."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.compiler.errors import CompileError
from tilewright.compiler.tile.footprint import operand_bounds
from tilewright.compiler.tile.program import WORKSPACE, TileBuffer, TileOperation, TileProgram
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import make_instruction


def require_sound(program: TileProgram) -> None:
    """Raise CompileError for the first buffer or operation that the passes after tiling could not go on with."""
    fixed = {"weights": len(program.weights), "inputs": program.input_bytes, "outputs": program.output_bytes}
    for buffer in program.buffers.values():
        _require_place(buffer, program, fixed)
    for index, operation in enumerate(program.operations):
        _require_operation(operation, program, f"operation {index} ({operation.mnemonic})")


def _require_place(buffer: TileBuffer, program: TileProgram, fixed: Mapping[str, int]) -> None:
    """`fixed` has the sizes of the regions in which a buffer has its offset from the start."""
    places = (*program.machine.memories, WORKSPACE, *fixed)
    if buffer.place not in places:
        raise CompileError(f"buffer {buffer.name}: no place {buffer.place!r}; there are {', '.join(places)}")
    if buffer.size < 1 or buffer.alignment < 1:
        raise CompileError(
            f"buffer {buffer.name}: size {buffer.size}, alignment {buffer.alignment}; expected at least 1 of each"
        )
    if buffer.place not in fixed:
        limit = 1 << program.machine.dram.offset_bits
        if buffer.offset is not None or max(buffer.size, buffer.alignment) > limit:
            raise CompileError(f"buffer {buffer.name}: expected no offset in {buffer.place}, and at most {limit} words")
        return
    if buffer.offset is None or not 0 <= buffer.offset <= fixed[buffer.place] - buffer.size:
        raise CompileError(
            f"buffer {buffer.name}: {buffer.size} bytes at offset {buffer.offset} of {buffer.place}, "
            f"which has {fixed[buffer.place]}"
        )


def _require_operation(operation: TileOperation, program: TileProgram, where: str) -> None:
    format = program.machine.format(operation.mnemonic)
    try:
        make_instruction(format, operation.fields)
    except IsaError as error:
        raise CompileError(f"{where}: {error}") from error
    if not 0 <= operation.layer < len(program.layers):
        raise CompileError(f"{where}: layer {operation.layer}; there are {len(program.layers)}")
    for operand in format.operands:
        base = operation.bases[operand.name]
        if base.buffer not in program.buffers:
            raise CompileError(f"{where}: {operand.name} names no buffer: {base.buffer!r}")
        first, stop = operand_bounds(program.machine, format, operand, operation)
        size = program.buffers[base.buffer].size
        if base.offset + first < 0 or base.offset + stop > size:
            raise CompileError(
                f"{where}: {operand.name} touches words {base.offset + first} to {base.offset + stop - 1} of "
                f"{base.buffer}, which has {size}"
            )
