"""Tile programs as text and back: level 3 in MLIR's generic syntax.

%act3 = "tile.buffer"() {place = "act", size = 64, alignment = 1} : () -> memref<64x16xi8>
"tile.load_act"(%input, %act3) {operands = ["d", "y"], offsets = [0, 0], fields = {trip.k = 64, …}, layer = 0}
    : (memref<1024xi8>, memref<64x16xi8>) -> ()
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.text.attributes import (
    at_line,
    attribute,
    entry,
    parse_remarks,
    parse_tensor,
    remarks_attribute,
    require_attributes,
    strings,
    tensor_attribute,
)
from tilewright.compiler.text.mlir import Attribute, MlirBlock, MlirOperation, shaped_type
from tilewright.compiler.text.parser import parse_program
from tilewright.compiler.text.printer import print_operation
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation, TileProgram
from tilewright.compiler.tile.rules import DIALECT
from tilewright.isa.errors import short
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Layer

PROGRAM = DIALECT + "program"
ADDED = ("workspace_bytes", "address", "wait")
"""Attributes that placed and ordered tiles have in addition."""

WHOLE = (
    *("name", "machine", "machine_hash", "inputs", "outputs", "input_bytes", "output_bytes", "layers", "weights"),
    *("remarks", *ADDED),
)
BUFFER = DIALECT + "buffer"


def print_tiles(program: TileProgram) -> str:
    """The program as text; `parse_tiles` gives an equal program back."""
    return print_operation(tiles_operation(program)) + "\n"


def parse_tiles(text: str, machine: Machine) -> TileProgram:
    """The tile program of a text, for the machine that it was printed for.

    Raises CompileError for a fault of the text, IsaError for an instruction that the machine does not have.
    """
    return read_tiles(parse_program(text), machine)


def tiles_operation(program: TileProgram, name: str = PROGRAM) -> MlirOperation:
    """The program as one operation, with its buffers and operations inside, in order."""
    types = {name: _buffer_type(program.machine, buffer) for name, buffer in program.buffers.items()}
    buffers = [_print_buffer(buffer, types[name]) for name, buffer in program.buffers.items()]
    operations = [_print_operation(operation, types) for operation in program.operations]
    attributes = {
        "name": program.name,
        "machine": program.machine.name,
        "machine_hash": program.machine.hash,
        "inputs": tuple(tensor_attribute(tensor) for tensor in program.inputs),
        "outputs": tuple(tensor_attribute(tensor) for tensor in program.outputs),
        "input_bytes": program.input_bytes,
        "output_bytes": program.output_bytes,
        "layers": tuple({"name": layer.name, "nodes": layer.nodes, "macs": layer.macs} for layer in program.layers),
        "weights": np.frombuffer(program.weights, np.uint8),
        **remarks_attribute(program.remarks),
    }
    return MlirOperation(name, attributes=attributes, region=MlirBlock((), (*buffers, *operations)))


def read_tiles(whole: MlirOperation, machine: Machine, name: str = PROGRAM) -> TileProgram:
    """The program that `tiles_operation` made an operation of; ADDED attributes are left aside."""
    if whole.name != name or whole.region is None:
        raise CompileError(fact=f"expected a {name!r} with a region, got {whole.name!r}")
    with at_line(whole):
        require_attributes(whole, *WHOLE)
    if attribute(whole, "machine_hash", str) != machine.hash:
        printed_for = attribute(whole, "machine", str)
        raise CompileError(
            fact=f"the text is for machine {printed_for}, whose description differs from {machine.name}'s"
        )
    buffers: dict[str, TileBuffer] = {}
    operations: list[TileOperation] = []
    for operation in whole.region.operations:
        with at_line(operation):
            if operation.name == BUFFER:
                name, buffers[name] = _parse_buffer(operation, machine)
            else:
                operations.append(_parse_operation(operation, machine))
    with at_line(whole):
        return TileProgram(
            name=attribute(whole, "name", str),
            machine=machine,
            buffers=buffers,
            operations=tuple(operations),
            weights=attribute(whole, "weights", np.ndarray).tobytes(),
            inputs=tuple(parse_tensor(value) for value in attribute(whole, "inputs", tuple)),
            outputs=tuple(parse_tensor(value) for value in attribute(whole, "outputs", tuple)),
            input_bytes=attribute(whole, "input_bytes", int),
            output_bytes=attribute(whole, "output_bytes", int),
            layers=tuple(_parse_layer(value) for value in attribute(whole, "layers", tuple)),
            remarks=parse_remarks(whole),
        )


# -- printing ----------------------------------------------------------------------------------------------------------


def _buffer_type(machine: Machine, buffer: TileBuffer) -> str:
    if buffer.place in machine.memories:
        return shaped_type("memref", (buffer.size, machine.memories[buffer.place].word_bytes), "i8")
    return shaped_type("memref", (buffer.size,), "i8")


def _print_buffer(buffer: TileBuffer, type: str) -> MlirOperation:
    attributes: dict[str, Attribute] = {"place": buffer.place, "size": buffer.size, "alignment": buffer.alignment}
    if buffer.offset is not None:
        attributes["offset"] = buffer.offset
    if buffer.is_in_bank:
        attributes["in_bank"] = True
    return MlirOperation(BUFFER, results=(buffer.name,), attributes=attributes, result_types=(type,))


def _print_operation(operation: TileOperation, types: Mapping[str, str]) -> MlirOperation:
    buffers = tuple(base.buffer for base in operation.bases.values())
    attributes = {
        "operands": tuple(operation.bases),
        "offsets": tuple(base.offset for base in operation.bases.values()),
        "fields": operation.fields,
        "layer": operation.layer,
    }
    buffer_types = tuple(types[buffer] for buffer in buffers)
    return MlirOperation(DIALECT + operation.mnemonic, buffers, attributes=attributes, operand_types=buffer_types)


# -- parsing -----------------------------------------------------------------------------------------------------------


def _parse_buffer(operation: MlirOperation, machine: Machine) -> tuple[str, TileBuffer]:
    require_attributes(operation, "place", "size", "alignment", "offset", "in_bank", *ADDED)
    if len(operation.results) != 1:
        raise CompileError(fact=f"{BUFFER} gives {len(operation.results)} values", expected="one")
    name = operation.results[0]
    offset = attribute(operation, "offset", int) if "offset" in operation.attributes else None
    size, alignment = attribute(operation, "size", int), attribute(operation, "alignment", int)
    is_in_bank = "in_bank" in operation.attributes and attribute(operation, "in_bank", bool)
    buffer = TileBuffer(name, attribute(operation, "place", str), size, alignment, offset, is_in_bank)
    if operation.result_types != (_buffer_type(machine, buffer),):
        raise CompileError(f"buffer {name}", f"is {operation.result_types[0]}", expected=_buffer_type(machine, buffer))
    return name, buffer


def _parse_operation(operation: MlirOperation, machine: Machine) -> TileOperation:
    require_attributes(operation, "operands", "offsets", "fields", "layer", *ADDED)
    mnemonic = operation.name.removeprefix(DIALECT)
    expected = tuple(operand.name for operand in machine.format(mnemonic).operands)
    names, offsets = strings(operation, "operands"), attribute(operation, "offsets", tuple)
    if any(type(offset) is not int for offset in offsets):
        raise CompileError(operation.name, f"attribute offsets holds {offsets!r}", expected="integers")
    if sorted(names) != sorted(expected) or not len(names) == len(offsets) == len(operation.operands):
        raise CompileError(operation.name, f"operands are {', '.join(names)}", expected=", ".join(expected))
    bases = {
        name: BufferAddress(buffer, offset)
        for name, buffer, offset in zip(names, operation.operands, offsets, strict=True)
    }
    fields = attribute(operation, "fields", dict)
    values = {name: entry(fields, name, int, operation.name) for name in fields}
    return TileOperation(mnemonic, values, bases, attribute(operation, "layer", int))


def _parse_layer(value: Attribute) -> Layer:
    if not isinstance(value, Mapping) or set(value) != {"name", "nodes", "macs"}:
        raise CompileError("layer", f"got {short(value)}", expected="name, nodes and macs")
    nodes = entry(value, "nodes", tuple, "layer")
    if not all(isinstance(node, str) for node in nodes):
        raise CompileError("layer", f"nodes holds {short(nodes)}", expected="strings")
    return Layer(entry(value, "name", str, "layer"), 0, nodes, entry(value, "macs", int, "layer"))
