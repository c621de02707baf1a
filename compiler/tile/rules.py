"""What a valid tile program keeps: buffers in their regions, operations in their buffers, words written before read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.compiler.tile.accesses import Masks, operand_bounds, operation_footprints
from tilewright.compiler.tile.program import WORKSPACE, TileBuffer, TileOperation, TileProgram
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.program import Tensor, require_elements, require_scales
from tilewright.isa.program.stored_types import DTYPES, INTEGERS

DIALECT = "tile."
"""What the names of operations begin with in texts."""


def operation_fault(index: int, operation: TileOperation, fact: str, expected: str = "") -> RuleViolation:
    """A fault of the operation of an index."""
    return RuleViolation((DIALECT, index), f"operation {index} ({operation.mnemonic})", fact, expected)


def buffer_fault(buffer: TileBuffer, fact: str, expected: str = "") -> RuleViolation:
    return RuleViolation(buffer.name, f"buffer {buffer.name}", fact, expected)


# -- buffers and the host's tensors ------------------------------------------------------------------------------------


def _fixed(program: TileProgram) -> Mapping[str, int]:
    """The sizes of the regions in which a buffer has its offset from the start."""
    return {"weights": len(program.weights), "inputs": program.input_bytes, "outputs": program.output_bytes}


def _places(program: TileProgram) -> Iterator[RuleViolation]:
    fixed = _fixed(program)
    places = (*program.machine.memories, WORKSPACE, *fixed)
    limit = 1 << program.machine.dram.offset_bits
    for buffer in program.buffers.values():
        if buffer.place not in places:
            yield buffer_fault(buffer, f"no place {buffer.place!r}", f"one of {', '.join(places)}")
        elif buffer.size < 1 or buffer.alignment < 1:
            yield buffer_fault(buffer, f"size {buffer.size}, alignment {buffer.alignment}", "at least 1 of each")
        elif max(buffer.size, buffer.alignment) > limit:
            yield buffer_fault(buffer, f"size {buffer.size}, alignment {buffer.alignment}", f"at most {limit}")
        elif buffer.place not in fixed and buffer.offset is not None:
            yield buffer_fault(buffer, f"offset {buffer.offset} in {buffer.place}", "none: an address is chosen")
        elif buffer.place in fixed:
            size = fixed[buffer.place]
            if buffer.offset is None or not 0 <= buffer.offset <= size - buffer.size:
                fact = f"{buffer.size} bytes at offset {buffer.offset} of {buffer.place}"
                yield buffer_fault(buffer, fact, f"bytes of the {size} there")


def _hosts(program: TileProgram) -> Iterator[RuleViolation]:
    limit = 1 << program.machine.dram.offset_bits
    sizes = (program.input_bytes, program.output_bytes)
    for what, tensors, size in zip(("input", "output"), (program.inputs, program.outputs), sizes, strict=True):
        counts = Counter(tensor.name for tensor in tensors)
        if not 0 <= size <= limit:
            yield RuleViolation(None, f"the {what}s", f"have {size} bytes", f"from 0 to {limit}")
        for tensor in tensors:
            fact = "is there twice" if counts[tensor.name] > 1 else _tensor_fault(tensor, size)
            if fact:
                yield RuleViolation(None, f"{what} {tensor.name!r}", fact)


def _tensor_fault(tensor: Tensor, size: int) -> str:
    """What is wrong with a tensor in a region of a size; nothing where that is empty."""
    if tensor.dtype not in DTYPES or tensor.integers not in INTEGERS:
        return f"is {tensor.dtype}, stored as {tensor.integers}; expected one of {', '.join(DTYPES)}"
    if min(tensor.stored) < 1 or tensor.lanes < 1:
        return f"is stored as {list(tensor.stored)} in blocks of {tensor.lanes} channels"
    if tensor.offset < 0 or tensor.offset + tensor.bytes > size:
        return f"takes bytes {tensor.offset} to {tensor.offset + tensor.bytes - 1} of a region of {size}"
    try:
        require_elements(tensor)
        require_scales(tensor)
    except IsaError as error:
        return str(error)
    return ""


# -- operations --------------------------------------------------------------------------------------------------------


def _operations(program: TileProgram) -> Iterator[RuleViolation]:
    for index, operation in enumerate(program.operations):
        try:
            make_instruction(program.machine.format(operation.mnemonic), operation.fields)
        except IsaError as error:
            yield operation_fault(index, operation, str(error))
        if not 0 <= operation.layer < len(program.layers):
            yield operation_fault(index, operation, f"layer {operation.layer}; there are {len(program.layers)}")


def _operands(program: TileProgram) -> Iterator[RuleViolation]:
    for index, operation in enumerate(program.operations):
        format = program.machine.format(operation.mnemonic)
        for operand in format.operands:
            base = operation.bases.get(operand.name)
            if base is None or base.buffer not in program.buffers:
                named = None if base is None else base.buffer
                yield operation_fault(index, operation, f"{operand.name} names no buffer: {named!r}")
                continue
            buffer = program.buffers[base.buffer]
            place = buffer.place if buffer.place in program.machine.memories else DRAM
            if operand.memory != place:
                yield operation_fault(index, operation, f"{operand.name} is in {buffer.place}", operand.memory)
            first, stop = operand_bounds(program.machine, format, operand, operation)
            if base.offset + first < 0 or base.offset + stop > buffer.size:
                words = f"words {base.offset + first} to {base.offset + stop - 1}"
                fact = f"{operand.name} touches {words} of {base.buffer}, which has {buffer.size}"
                yield operation_fault(index, operation, fact)


class _WrittenWords:
    """Which words of buffers have values so far; buffers at fixed offsets are their regions' words."""

    def __init__(self, program: TileProgram) -> None:
        self._program = program
        self._outputs = np.zeros(program.output_bytes, np.bool_)
        self._own: dict[str, NDArray[np.bool_]] = {}

    def words(self, name: str, first: int, stop: int) -> NDArray[np.bool_]:
        """Of words of a buffer, which have values; may be written to."""
        buffer = self._program.buffers[name]
        if buffer.place in ("weights", "inputs"):
            return np.ones(stop - first, np.bool_)
        if buffer.offset is not None:
            return self._outputs[buffer.offset + first : buffer.offset + stop]
        if name not in self._own:
            self._own[name] = np.zeros(buffer.size, np.bool_)
        return self._own[name][first:stop]


def _order(program: TileProgram) -> Iterator[RuleViolation]:
    written, masks = _WrittenWords(program), Masks()
    for index, operation in enumerate(program.operations):
        touched = operation_footprints(program.machine, operation, masks)
        for each in touched:
            if each.is_read and not written.words(each.buffer, each.first, each.stop)[each.mask].all():
                fact = f"{each.operand} reads words of {each.buffer} that nothing has written"
                yield operation_fault(index, operation, fact, "an operation before that writes them")
        for each in touched:
            if each.is_write:
                written.words(each.buffer, each.first, each.stop)[each.mask] = True


RULES: Sequence[Rule[TileProgram]] = (
    Rule("places", "A buffer lies in a memory or region of the machine, inside it if its offset is fixed.", _places),
    Rule("hosts", "An input or output lies inside its region, in the shape and type that it says.", _hosts),
    Rule("operations", "An operation is an instruction with fields that it has, and of a layer.", _operations),
    Rule("operands", "An operand is in the memory that its instruction says, and inside its buffer.", _operands),
    Rule("order", "A word is written before it is read, when operations run one after the other.", _order),
)
"""All rules of tile programs, in order."""
