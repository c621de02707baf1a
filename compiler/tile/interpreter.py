"""Runs a tile program: one operation after the other, every buffer an array of its own, so that none can harm another.

This is the meaning of level 3. It knows the instructions' nests and statements, and nothing of addresses and time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.evaluate import Values, evaluate
from tilewright.compiler.tile.accesses import block_words, reads_destination
from tilewright.compiler.tile.program import TileBuffer, TileOperation, TileProgram
from tilewright.isa.language.numeric import wrap
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import BYTE_BITS, Element
from tilewright.isa.templates.systolic import systolic_weights

Bytes = NDArray[np.uint8]


def interpret_tiles(program: TileProgram, inputs: bytes) -> bytes:
    """The bytes of the outputs region after a run with `inputs` as the inputs region.

    Buffers start as zero, except those in the weights and inputs regions. Raises CompileError for an access outside
    its buffer.
    """
    return interpret_buffers(program, inputs)[1]


def interpret_buffers(program: TileProgram, inputs: bytes) -> tuple[dict[str, Bytes], bytes]:
    """Also the final bytes of every buffer: uint8 [words, word_bytes] on chip, [bytes, 1] in DRAM."""
    regions = {
        "weights": _region(program.weights, len(program.weights)),
        "inputs": _region(inputs, program.input_bytes),
        "outputs": _region(b"", program.output_bytes),
    }
    buffers = {buffer.name: _storage(program, buffer, regions) for buffer in program.buffers.values()}
    for index, operation in enumerate(program.operations):
        _OperationRun(program, buffers, operation, index).execute()
    return buffers, regions["outputs"].tobytes()


def _region(content: bytes, size: int) -> Bytes:
    region = np.zeros((size, 1), np.uint8)
    region[: len(content), 0] = np.frombuffer(content, np.uint8)
    return region


def _storage(program: TileProgram, buffer: TileBuffer, regions: Mapping[str, Bytes]) -> Bytes:
    if buffer.place in program.machine.memories:
        return np.zeros((buffer.size, program.machine.memories[buffer.place].word_bytes), np.uint8)
    if buffer.offset is None:
        return np.zeros((buffer.size, 1), np.uint8)
    region = regions[buffer.place][buffer.offset : buffer.offset + buffer.size]
    if len(region) != buffer.size:
        raise CompileError(
            f"buffer {buffer.name}",
            f"bytes {buffer.offset} to {buffer.offset + buffer.size} of {buffer.place}, which has "
            f"{len(regions[buffer.place])}",
        )
    return region


class _OperationRun:
    """One operation on the buffers."""

    def __init__(
        self, program: TileProgram, buffers: Mapping[str, Bytes], operation: TileOperation, index: int
    ) -> None:
        self.machine: Machine = program.machine
        self.format: InstructionFormat = self.machine.format(operation.mnemonic)
        self.operation = operation
        self.buffers = buffers
        self.where = f"operation {index} ({operation.mnemonic})"
        self.trips = [operation.fields.get(f"trip.{loop.name}", 1) for loop in self.format.loops]

    def execute(self) -> None:
        destination = self.format.destination
        if self.format.in_dram is not None:
            self._scatter(destination, self._gather(self.format.sources[0]))
            return
        leaves: dict[tuple[str, str], Values] = {}
        for source in self.format.sources:
            leaves.update(self._source_leaves(source))
        for name in self.format.immediates:
            leaves[name, ""] = np.full((1,) * (len(self.trips) + 1), self.operation.fields.get(name, 0), np.int64)
        reduce = [position for position, loop in enumerate(self.format.loops) if loop.is_reduce]
        statement = self.format.statement
        values = evaluate(statement.expr, leaves, self.trips, reduce, statement.blocks)
        if reads_destination(self.format, self.operation):
            values = values + decode(_in_a_row(self._gather(destination)), destination.element)[""]
            wrapped = statement.expr.type
            values = np.asarray(wrap(values, wrapped)) if wrapped is not None else values
        self._scatter(destination, self._words(values, destination))

    # -- words of operands, as uint8 [trip or 1 of each loop…, block, word bytes] ------------------------------------

    def _indices(self, operand: Operand) -> NDArray[np.int64]:
        """The words of the operand's buffer, [trip or 1 of each loop…, block]."""
        base = self.operation.bases[operand.name]
        words = np.arange(block_words(self.machine, self.format, operand)) + base.offset
        words = words.reshape((1,) * len(self.trips) + (-1,))
        for position, loop in enumerate(self.format.loops):
            if loop.name in operand.loops:
                stride = self.operation.fields.get(f"{operand.name}.{loop.name}", 0)
                shape = [1] * words.ndim
                shape[position] = self.trips[position]
                words = words + np.arange(self.trips[position]).reshape(shape) * stride
        size = len(self.buffers[base.buffer])
        if int(words.min()) < 0 or int(words.max()) >= size:
            raise CompileError(
                self.where,
                f"{operand.name} touches words {int(words.min())} to {int(words.max())} of {base.buffer}, which has "
                f"{size}",
            )
        return words

    def _gather(self, operand: Operand) -> Bytes:
        return self.buffers[self.operation.bases[operand.name].buffer][self._indices(operand)]

    def _scatter(self, operand: Operand, words: Bytes) -> None:
        indices = self._indices(operand)
        buffer = self.buffers[self.operation.bases[operand.name].buffer]
        lead = np.broadcast_shapes(indices.shape[:-1], words.shape[:-2])
        indices = np.broadcast_to(indices, (*lead, indices.shape[-1]))
        words = np.broadcast_to(words, (*lead, *words.shape[-2:])).reshape(*indices.shape, buffer.shape[1])
        buffer[indices.reshape(-1)] = words.reshape(-1, buffer.shape[1])  # of equal indices the last one stays

    def _source_leaves(self, source: Operand) -> dict[tuple[str, str], Values]:
        fields = decode(_in_a_row(self._gather(source)), source.element)
        if self._is_matrix(source) or source in self.format.tables or source.name in self.format.statement.blocks:
            memory = self.machine.memories[source.memory]
            width = memory.word_bytes * BYTE_BITS // source.element.bits
            fields = {name: v.reshape(*v.shape[:-1], source.block, width) for name, v in fields.items()}
        return {(source.name, name): values for name, values in fields.items()}

    def _is_matrix(self, source: Operand) -> bool:
        """True for the second argument of `dot`: its words are the rows of a matrix."""
        return self.format.statement.dot is not None and source is systolic_weights(self.format)

    def _words(self, values: Values, operand: Operand) -> Bytes:
        elements = operand.block * self.machine.memories[operand.memory].width
        values = np.broadcast_to(values, (*values.shape[:-1], elements))
        encoded = encode(values, operand.element)
        return encoded.reshape(*values.shape[:-1], operand.block, -1)


# -- elements as bytes -------------------------------------------------------------------------------------------------


def _in_a_row(words: Bytes) -> Bytes:
    """The bytes of a block's words, [loops…, bytes]."""
    return words.reshape(*words.shape[:-2], -1)


def decode(stored: Bytes, element: Element) -> dict[str, Values]:
    """int64 values by field name ("" for a plain element) of little-endian elements, uint8 [..., bytes of all]."""
    if element.bits < BYTE_BITS:
        apart = [stored.astype(np.int64) >> low for low in range(0, BYTE_BITS, element.bits)]
        bits = np.stack(apart, axis=-1).reshape(*stored.shape[:-1], -1)
    else:
        elements = stored.reshape(*stored.shape[:-1], -1, element.bytes).astype(np.int64)
        bits = np.zeros(elements.shape[:-1], np.int64)
        for byte in range(element.bytes):
            bits |= elements[..., byte] << (BYTE_BITS * byte)
    if element.type is not None:
        return {"": np.asarray(wrap(bits, element.type))}
    return {field.name: np.asarray(wrap(bits >> field.low_bit, field.type)) for field in element.fields}


def encode(values: Values, element: Element) -> Bytes:
    """The bytes of plain elements, little endian, [..., bytes of all]; padding bits are zero."""
    assert element.type is not None
    bits = values & ((1 << element.type.bits) - 1)
    if element.bits < BYTE_BITS:
        together = bits.reshape(*bits.shape[:-1], -1, BYTE_BITS // element.bits)
        placed = together << np.arange(0, BYTE_BITS, element.bits)
        return placed.sum(axis=-1).astype(np.uint8)
    apart = np.stack([(bits >> (BYTE_BITS * byte)) & 0xFF for byte in range(element.bytes)], axis=-1)
    return apart.astype(np.uint8).reshape(*bits.shape[:-1], -1)
