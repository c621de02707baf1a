"""Prints operations in MLIR's generic syntax."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.text.mlir import ELEMENTS, Attribute, MlirBlock, MlirOperation, shaped_type, value_id


def print_operation(operation: MlirOperation, indent: str = "") -> str:
    """The operation as text, without a final newline."""
    results = ", ".join(map(value_id, operation.results))
    operands = ", ".join(map(value_id, operation.operands))
    text = f'{indent}{results + " = " if results else ""}"{operation.name}"({operands})'
    if operation.region is not None:
        text += f" ({_print_block(operation.region, indent)})"
    if operation.attributes:
        text += f" {_print_attribute(operation.attributes)}"
    to = operation.result_types[0] if len(operation.result_types) == 1 else f"({', '.join(operation.result_types)})"
    return f"{text} : ({', '.join(operation.operand_types)}) -> {to}"


def _print_block(block: MlirBlock, indent: str) -> str:
    lines = ["{"]
    if block.arguments:
        arguments = ", ".join(f"{value_id(name)}: {type_text}" for name, type_text in block.arguments)
        lines.append(f"{indent}^bb0({arguments}):")
    lines += [print_operation(operation, indent + "  ") for operation in block.operations]
    return "\n".join([*lines, indent + "}"])


def _print_attribute(value: Attribute) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            return _print_float(float(value))
        case str():
            return _quote(value)
        case Mapping():
            return "{" + ", ".join(f"{_print_key(key)} = {_print_attribute(item)}" for key, item in value.items()) + "}"
        case np.ndarray():
            return _print_dense(value)
        case _:
            return f"[{', '.join(map(_print_attribute, value))}]"


def print_number(value: float) -> str:
    """A finite float as MLIR's grammar wants it: a digit on each side of the point. 1e-05 → 1.0e-05."""
    mantissa, _, exponent = repr(float(value)).partition("e")
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def _print_float(value: float) -> str:
    if math.isfinite(value):
        return print_number(value)
    return f"0x{struct.pack('>d', value).hex().upper()} : f64"


def _print_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$.]*", key) else _quote(key)


def _quote(text: str) -> str:
    def escape(match: re.Match[str]) -> str:
        return "".join(f"\\{byte:02X}" for byte in match[0].encode())

    return '"' + re.sub(r'[\\"\x00-\x1f\x7f]', escape, text) + '"'


def _print_dense(array: NDArray[Any]) -> str:
    """`dense<"0x…"> : tensor<…>` with the elements' little-endian bytes; empty tensors are `dense<>`."""
    type_text = shaped_type("tensor", array.shape, ELEMENTS[array.dtype.name])
    if array.size == 0:
        return f"dense<> : {type_text}"
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return f'dense<"0x{data.hex().upper()}"> : {type_text}'
