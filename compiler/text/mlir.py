"""MLIR's generic operation syntax, as far as levels 1 to 3 need it: values and operations as data, printed and parsed.

    %y = "graph.conv"(%x, %w) {pads = [1, 1, 1, 1]} : (tensor<1x3x8x8xi8>, tensor<4x3x3x3xi8>) -> tensor<1x4x8x8xi8>

The syntax is that of https://mlir.llvm.org/docs/LangRef (generic form): attributes are integers, floats, strings,
arrays, dictionaries and `dense<"0x…">` tensors; an operation may have one region of one block. Types are kept as text.
Printing and parsing are each other's inverse.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError

Attribute = Any
"""int, float, str, tuple of attributes, Mapping[str, Attribute] or numpy array."""


@dataclass(frozen=True)
class Block:
    """The one block of a region: its arguments with their types, and its operations."""

    arguments: tuple[tuple[str, str], ...]  # (value, type)
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Operation:
    """One operation. Values are any text (they are escaped in print); `types` are those of operands and results."""

    name: str  # with its dialect: graph.conv
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    operand_types: tuple[str, ...] = ()
    result_types: tuple[str, ...] = ()
    region: Block | None = None


# -- values and tensors as text ----------------------------------------------------------------------------------------

ELEMENTS: Mapping[str, str] = {  # numpy's name → MLIR's
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "int2": "i2",
    "int4": "i4",
    "uint2": "ui2",
    "uint4": "ui4",
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


def value_id(name: str) -> str:
    """An MLIR identifier for any name: letters, digits, `_`, `.` and `-` stay, other characters become `$` and hex.

    Example: `/conv/out` → `%$2f$conv$2f$out`.
    The empty name is `%$$`.
    """
    return "%$$" if not name else "%" + re.sub(r"[^A-Za-z0-9_.\-]", lambda match: f"${ord(match[0]):x}$", name)


def value_name(identifier: str) -> str:
    """The name that `value_id` made the identifier from."""
    text = "" if identifier == "%$$" else identifier.removeprefix("%")
    return re.sub(r"\$([0-9a-f]+)\$", lambda match: chr(int(match[1], 16)), text)


def shaped_type(kind: str, shape: tuple[int, ...], element: str) -> str:
    """`tensor<1x3xi8>` from ("tensor", (1, 3), "i8")."""
    return f"{kind}<{''.join(f'{size}x' for size in shape)}{element}>"


def split_shaped_type(text: str) -> tuple[str, tuple[int, ...], str]:
    """The inverse of `shaped_type`; raises CompileError for any other text."""
    match = re.fullmatch(r"(tensor|memref)<((?:\d+x)*)(.+)>", text)
    if match is None:
        raise CompileError(fact=f"{text!r} is not a type: expected tensor<…> or memref<…> with sizes and an element")
    return match[1], tuple(int(size) for size in match[2].split("x")[:-1]), match[3]


# -- printing ----------------------------------------------------------------------------------------------------------


def print_operation(operation: Operation, indent: str = "") -> str:
    """The operation as text, without a final newline."""
    results = ", ".join(map(value_id, operation.results))
    operands = ", ".join(map(value_id, operation.operands))
    text = f'{indent}{results + " = " if results else ""}"{operation.name}"({operands})'
    if operation.region is not None:
        text += f" ({_print_block(operation.region, indent)})"
    if operation.attributes:
        text += f" {print_attribute(operation.attributes)}"
    to = operation.result_types[0] if len(operation.result_types) == 1 else f"({', '.join(operation.result_types)})"
    return f"{text} : ({', '.join(operation.operand_types)}) -> {to}"


def _print_block(block: Block, indent: str) -> str:
    lines = ["{"]
    if block.arguments:
        arguments = ", ".join(f"{value_id(name)}: {type_text}" for name, type_text in block.arguments)
        lines.append(f"{indent}^bb0({arguments}):")
    lines += [print_operation(operation, indent + "  ") for operation in block.operations]
    return "\n".join([*lines, indent + "}"])


def print_attribute(value: Attribute) -> str:
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
            return "{" + ", ".join(f"{_print_key(key)} = {print_attribute(item)}" for key, item in value.items()) + "}"
        case np.ndarray():
            return print_dense(value)
        case _:
            return f"[{', '.join(map(print_attribute, value))}]"


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


def print_dense(array: NDArray[Any]) -> str:
    """`dense<"0x…"> : tensor<…>` with the elements' little-endian bytes; empty tensors are `dense<>`."""
    type_text = shaped_type("tensor", array.shape, ELEMENTS[array.dtype.name])
    if array.size == 0:
        return f"dense<> : {type_text}"
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return f'dense<"0x{data.hex().upper()}"> : {type_text}'


# -- parsing -----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""
    (?:\s|//[^\n]*)*
    (?:
      (?P<string>"(?:[^"\\]|\\[0-9A-Fa-f]{2}|\\["\\nt])*")
    | (?P<value>%[A-Za-z0-9_.$\-]+)
    | (?P<block>\^[A-Za-z0-9_.$\-]+)
    | (?P<arrow>->)
    | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
    | (?P<word>[A-Za-z_!][A-Za-z0-9_$.]*)
    | (?P<mark>[()\[\]{}<>,:=])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


def parse_operation(text: str) -> Operation:
    """Read one operation and nothing after it; raises CompileError with the line at fault."""
    parser = _Parser(text)
    operation = parser.operation()
    parser.expect("", "the end of the text")
    return operation


class _Parser:
    """Recursive descent over the text; `kind` and `token` are the next token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.kind = self.token = ""
        self.start = 0
        self.advance()

    def advance(self) -> str:
        taken = self.token
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.start = self.position
            raise self.fault("a token")
        self.kind = match.lastgroup or ""
        self.token = match[self.kind]
        self.start, self.position = match.start(self.kind), match.end()
        return taken

    def fault(self, expected: str) -> CompileError:
        line = self.text.count("\n", 0, self.start) + 1
        rest = self.text[self.start : self.start + 20].splitlines()
        return CompileError(f"line {line}", f"expected {expected}, came {rest[0] if rest else 'the end'!r}")

    def expect(self, token: str, described: str = "") -> None:
        if self.token != token or (token and self.kind == "string"):
            raise self.fault(described or repr(token))
        if token:
            self.advance()

    def take(self, kind: str, described: str) -> str:
        if self.kind != kind:
            raise self.fault(described)
        return self.advance()

    def separated(self, close: str, item: Callable[[], Any]) -> Iterator[Any]:
        """Items between commas up to the closing mark, which is consumed."""
        while self.token != close:
            yield item()
            if self.token != close:
                self.expect(",")
        self.advance()

    def operation(self) -> Operation:
        results: list[str] = []
        while self.kind == "value":
            results.append(value_name(self.advance()))
            if self.token == ",":
                self.advance()
        if results:
            self.expect("=")
        name = _unquote(self.take("string", "an operation's name in quotes"))
        self.expect("(")
        operands = tuple(self.separated(")", lambda: value_name(self.take("value", "a value"))))
        region = None
        if self.token == "(":
            self.advance()
            region = self.block()
            self.expect(")")
        attributes = self.dictionary() if self.token == "{" else {}
        self.expect(":")
        self.expect("(")
        operand_types = tuple(self.separated(")", self.type_text))
        self.expect("->")
        if self.token == "(":
            self.advance()
            result_types = tuple(self.separated(")", self.type_text))
        else:
            result_types = (self.type_text(),)
        if (len(operands), len(results)) != (len(operand_types), len(result_types)):
            raise self.fault(f"before it, a type for each of {len(operands)} operands and {len(results)} results")
        return Operation(name, operands, tuple(results), attributes, operand_types, result_types, region)

    def block(self) -> Block:
        self.expect("{")
        arguments: tuple[tuple[str, str], ...] = ()
        if self.kind == "block":
            self.advance()
            self.expect("(")
            arguments = tuple(self.separated(")", self.argument))
            self.expect(":")
        operations = []
        while self.token != "}":
            operations.append(self.operation())
        self.advance()
        return Block(arguments, tuple(operations))

    def argument(self) -> tuple[str, str]:
        name = value_name(self.take("value", "a value"))
        self.expect(":")
        return name, self.type_text()

    def type_text(self) -> str:
        """A type as written: a word, and what stands between its angle brackets."""
        if self.kind != "word":
            raise self.fault("a type")
        start = self.start
        end = self.position
        if end < len(self.text) and self.text[end] == "<":
            depth, end = 1, end + 1
            while depth:
                step = re.compile(r"[^<>]*(->|[<>])").match(self.text, end)
                if step is None:
                    raise self.fault("a type with its brackets closed")
                depth += {"<": 1, ">": -1, "->": 0}[step[1]]
                end = step.end()
        self.position = end
        self.advance()
        return self.text[start:end]

    def dictionary(self) -> dict[str, Attribute]:
        self.expect("{")
        return dict(self.separated("}", self.entry))

    def entry(self) -> tuple[str, Attribute]:
        if self.kind not in ("word", "string"):
            raise self.fault("an attribute's name")
        key = _unquote(self.advance()) if self.kind == "string" else self.advance()
        self.expect("=")
        return key, self.attribute()

    def attribute(self) -> Attribute:
        match self.kind, self.token:
            case "string", _:
                return _unquote(self.advance())
            case "number", _:
                return self.number()
            case _, "[":
                self.advance()
                return tuple(self.separated("]", self.attribute))
            case _, "{":
                return self.dictionary()
            case _, "true" | "false":
                return self.advance() == "true"
            case _, "dense":
                return self.dense()
        raise self.fault("an attribute")

    def number(self) -> int | float:
        text = self.advance()
        is_hex = text.startswith("0x")
        if self.token == ":":
            self.advance()
            type_text = self.type_text()
            if is_hex and type_text == "f64":
                return float(struct.unpack(">d", bytes.fromhex(text[2:]))[0])
        if is_hex:
            return int(text, 16)
        return float(text) if re.search(r"[.eE]", text) else int(text)

    def dense(self) -> NDArray[Any]:
        self.expect("dense")
        self.expect("<")
        text = _unquote(self.advance()) if self.kind == "string" else "0x"
        self.expect(">")
        self.expect(":")
        start = self.start
        _, shape, element = split_shaped_type(self.type_text())
        if element not in NUMPY_NAMES:
            raise CompileError(fact=f"unknown element {element!r}: expected one of {', '.join(NUMPY_NAMES)}")
        name = NUMPY_NAMES[element]
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        try:
            data = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            data = b"?"
        if len(data) != math.prod(shape) * dtype.itemsize:
            self.start = start
            raise self.fault(f"{math.prod(shape) * dtype.itemsize} bytes of hexadecimal digits for this type")
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _unquote(text: str) -> str:
    def unescape(match: re.Match[bytes]) -> bytes:
        named = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
        return named.get(match[1]) or bytes.fromhex(match[1].decode())

    return re.sub(rb'\\([0-9A-Fa-f]{2}|[nt"\\])', unescape, text[1:-1].encode()).decode()
