"""Buffers in the text of level 2: their types, and the inputs that are parts of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Buffer, BufferPart, NestProgram
from tilewright.compiler.text.attributes import attribute
from tilewright.compiler.text.mlir import ELEMENTS, NUMPY_NAMES, MlirOperation, shaped_type, split_shaped_type
from tilewright.isa.language.numeric import FLOAT_TYPES, FloatType, IntegerType
from tilewright.isa.program.program import Tensor
from tilewright.isa.program.small_floats import SMALL_FLOATS, small_float_of

DIALECT = "nest."
BUFFER = DIALECT + "buffer"
PART = DIALECT + "part"
COMPUTE = DIALECT + "compute"


def print_memref(shape: tuple[int, ...], element_type: IntegerType) -> str:
    if isinstance(element_type, FloatType):
        return shaped_type("memref", shape, ELEMENTS[small_float_of(element_type).name])
    return shaped_type("memref", shape, f"{'' if element_type.is_signed else 'u'}i{element_type.bits}")


def parse_memref(text: str) -> tuple[tuple[int, ...], IntegerType]:
    _, shape, element = split_shaped_type(text)
    small = SMALL_FLOATS.get(NUMPY_NAMES.get(element, ""))
    if small is not None and small.type in FLOAT_TYPES.values():
        return shape, small.type
    match = re.fullmatch(r"(u?)i(\d+)", element)
    if match is None:
        raise CompileError(repr(text), expected="integer elements such as i8 or ui16")
    return shape, IntegerType(int(match[2]), not match[1])


def print_part(part: BufferPart, buffer: Buffer, program: NestProgram) -> MlirOperation:
    tensors = (part.tensor, buffer.name)
    types = tuple(print_memref(each.shape, each.type) for each in (program.buffers[name] for name in tensors))
    return MlirOperation(PART, tensors, attributes={"first": part.first}, operand_types=types)


def with_part(
    operation: MlirOperation, tensor: str, joined: str, buffers: Mapping[str, Buffer], inputs: Sequence[Tensor]
) -> Buffer:
    """A buffer with one more part, an input that must lie inside it."""
    if tensor not in {each.name for each in inputs}:
        raise CompileError(f"{PART} of %{joined}", f"%{tensor} is no input", expected="an input")
    first = attribute(operation, "first", tuple)
    for name in (tensor, joined):
        if name not in buffers:
            raise CompileError(f"{PART} of %{joined}", f"there is no buffer %{name} before it")
    inner, outer = buffers[tensor], buffers[joined]
    room = [size - own for size, own in zip(outer.shape, inner.shape, strict=False)]
    is_inside = len(first) == len(room) and all(
        isinstance(at, int) and 0 <= at <= most for at, most in zip(first, room, strict=True)
    )
    if not is_inside or inner.type != outer.type:
        raise CompileError(
            f"{PART} of %{joined}",
            f"%{tensor}, {print_memref(inner.shape, inner.type)}, from {list(first)} on",
            expected=f"a region of {print_memref(outer.shape, outer.type)}",
        )
    return replace(outer, parts=(*outer.parts, BufferPart(tensor, first)))
