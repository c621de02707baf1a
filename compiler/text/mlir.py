"""What a text at levels 1 to 3 consists of: MLIR's operations, blocks and values as data.

    %y = "graph.conv"(%x, %w) {pads = [1, 1, 1, 1]} : (tensor<1x3x8x8xi8>, tensor<4x3x3x3xi8>) -> tensor<1x4x8x8xi8>

The syntax is that of https://mlir.llvm.org/docs/LangRef (generic form): attributes are integers, floats, strings,
arrays, dictionaries and `dense<"0x…">` tensors; an operation may have one region of one block. Types are kept as text.
`printer.py` prints them and `parser.py` reads them back, each the other's inverse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tilewright.compiler.errors import CompileError
from tilewright.isa.errors import short

Attribute = Any
"""int, float, str, tuple of attributes, Mapping[str, Attribute] or numpy array."""


@dataclass(frozen=True)
class MlirBlock:
    """The one block of a region: its arguments with their types, and its operations."""

    arguments: tuple[tuple[str, str], ...]  # (value, type)
    operations: tuple[MlirOperation, ...]


@dataclass(frozen=True)
class MlirOperation:
    """One operation. Values are any text (they are escaped in print); `types` are those of operands and results."""

    name: str  # with its dialect: graph.conv
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    operand_types: tuple[str, ...] = ()
    result_types: tuple[str, ...] = ()
    region: MlirBlock | None = None
    line: int = field(default=0, compare=False)  # where a text has it, from 1 on; 0: it is of no text


# -- values and tensors as text ----------------------------------------------------------------------------------------

ELEMENTS: Mapping[str, str] = {  # numpy's name → MLIR's
    "bool": "i1",
    **{f"{sign}int{bits}": f"{sign}i{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    "bfloat16": "bf16",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}
NUMPY_NAMES: Mapping[str, str] = {mlir: name for name, mlir in ELEMENTS.items()}


MOST_ELEMENTS = 1 << 34
"""Of a tensor in a text; a model may have no more in all of them together."""

MOST_DIMENSIONS, MOST_DIGITS = 32, 18


def value_id(name: str) -> str:
    """An MLIR identifier for any name: letters, digits, `_`, `.` and `-` stay, other characters become `$` and hex.

    Example: `/conv/out` → `%$2f$conv$2f$out`.
    The empty name is `%$$`.
    """
    return "%$$" if not name else "%" + re.sub(r"[^A-Za-z0-9_.\-]", lambda match: f"${ord(match[0]):x}$", name)


def value_name(identifier: str) -> str:
    """The name that `value_id` made the identifier from; raises ValueError for one that it makes from none."""
    text = "" if identifier == "%$$" else identifier.removeprefix("%")
    name = re.sub(r"\$([0-9a-f]{1,6})\$", lambda match: chr(int(match[1], 16)), text)
    name.encode()  # half of a pair of UTF-16 is no character
    return name


def shaped_type(kind: str, shape: tuple[int, ...], element: str) -> str:
    """`tensor<1x3xi8>` from ("tensor", (1, 3), "i8")."""
    return f"{kind}<{''.join(f'{size}x' for size in shape)}{element}>"


def split_shaped_type(text: str) -> tuple[str, tuple[int, ...], str]:
    """The inverse of `shaped_type`; raises CompileError for any other text."""
    match = re.fullmatch(r"(tensor|memref)<((?:\d+x)*)(.+)>", text)
    if match is None:
        raise CompileError(fact=f"{text!r} is not a type: expected tensor<…> or memref<…> with sizes and an element")
    texts = match[2].split("x")[:-1]
    shape = tuple(int(size) for size in texts if len(size) <= MOST_DIGITS)
    if len(texts) > MOST_DIMENSIONS or len(shape) < len(texts) or prod(shape) > MOST_ELEMENTS:
        raise CompileError(
            fact=f"the type {short(text)} is too large", expected=f"at most 2^{MOST_ELEMENTS.bit_length() - 1} elements"
        )
    return match[1], shape, match[3]
