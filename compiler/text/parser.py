"""Reads operations in MLIR's generic syntax."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.text.mlir import (
    NUMPY_NAMES,
    Attribute,
    MlirBlock,
    MlirOperation,
    split_shaped_type,
    value_id,
    value_name,
)
from tilewright.isa.errors import short

_TOKEN = re.compile(
    r"""
    (?:\s|//[^\n]*)*
    (?:
      (?P<string>"(?:[^"\\]|\\[0-9A-Fa-f]{2}|\\["\\nt])*")
    | (?P<value>%[A-Za-z0-9_.$\-]+)
    | (?P<block>\^[A-Za-z0-9_.$\-]+)
    | (?P<arrow>->)
    | (?P<number>0x[0-9A-Fa-f]+|-?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
    | (?P<word>[A-Za-z_!][A-Za-z0-9_$.]*)
    | (?P<mark>[()\[\]{}<>,:=])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


Item = TypeVar("Item")

MOST_NESTED = 40
"""Operations, lists and dictionaries inside each other; what the compiler prints has up to six."""

MOST_BITS = 63
"""Of a number, but for its sign."""

DOUBLE = struct.Struct(">d")
"""A float as its bits, most significant first."""


def parse_operation(text: str) -> MlirOperation:
    """Read one operation and nothing after it; raises CompileError with the line at fault."""
    parser = _Parser(text)
    operation = parser.operation()
    parser.expect("", "the end of the text")
    return operation


def parse_program(text: str) -> MlirOperation:
    """The same, with every value made once, and read after that and with the type with which it was made."""
    whole = parse_operation(text)
    _require_values(whole, {})
    return whole


def _require_values(operation: MlirOperation, outer: Mapping[str, str]) -> None:
    if operation.region is None:
        return
    types, region = dict(outer), operation.region
    made: set[str] = set()
    _make(region.arguments, types, made, operation.line)
    for each in region.operations:
        for name, type_text in zip(each.operands, each.operand_types, strict=True):
            if name and name not in types:
                raise CompileError(f"line {each.line}: {each.name}", f"{value_id(name)} is read before it is made")
            if name and types[name] != type_text:
                fact = f"{value_id(name)} is read as {short(type_text)}"
                raise CompileError(f"line {each.line}: {each.name}", fact, expected=short(types[name]))
        _require_values(each, types)
        _make(zip(each.results, each.result_types, strict=True), types, made, each.line)


def _make(values: Iterable[tuple[str, str]], types: dict[str, str], made: set[str], line: int) -> None:
    """Note the types of values, which must be new among those `made` in their block."""
    for name, type_text in values:
        if name and name in made:
            raise CompileError(f"line {line}", f"{value_id(name)} is made twice", expected="each value once")
        made.add(name)
        types[name] = type_text


class _Parser:
    """Recursive descent over the text; `kind` and `token` are the next token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.kind = self.token = ""
        self.start = 0
        self.depth = 0
        self.counted, self.lines = 0, 1  # the place up to which lines are counted, and the line there
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
        return CompileError(f"line {line}", f"expected {expected}, got {rest[0] if rest else 'the end'!r}")

    def expect(self, token: str, described: str = "") -> None:
        if self.token != token or (token and self.kind == "string"):
            raise self.fault(described or repr(token))
        if token:
            self.advance()

    def take(self, kind: str, described: str) -> str:
        if self.kind != kind:
            raise self.fault(described)
        return self.advance()

    def string(self) -> str:
        try:
            text = _unquote(self.token)
        except ValueError:
            raise self.fault("a string in UTF-8") from None
        self.advance()
        return text

    def value(self) -> str:
        """The name of a value."""
        if self.kind != "value":
            raise self.fault("a value")
        try:
            name = value_name(self.token)
        except ValueError:
            raise self.fault("a value whose name is of characters") from None
        self.advance()
        return name

    def separated(self, close: str, item: Callable[[], Item]) -> Iterator[Item]:
        """Items between commas up to the closing mark, which is consumed."""
        while self.token != close:
            yield item()
            if self.token != close:
                self.expect(",")
        self.advance()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """What is inside something else."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self.fault(f"at most {MOST_NESTED} operations, lists and dictionaries inside each other")
        yield
        self.depth -= 1

    def line(self) -> int:
        """The line of the next token; asked for in the order of the text."""
        self.lines += self.text.count("\n", self.counted, self.start)
        self.counted = self.start
        return self.lines

    def operation(self) -> MlirOperation:
        line, results = self.line(), list[str]()
        while self.kind == "value":
            results.append(self.value())
            if self.token == ",":
                self.advance()
        if results:
            self.expect("=")
        if self.kind != "string":
            raise self.fault("an operation's name in quotes")
        name = self.string()
        self.expect("(")
        operands = tuple(self.separated(")", self.value))
        region = None
        if self.token == "(":
            self.advance()
            with self.nested():
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
        return MlirOperation(name, operands, tuple(results), attributes, operand_types, result_types, region, line)

    def block(self) -> MlirBlock:
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
        return MlirBlock(arguments, tuple(operations))

    def argument(self) -> tuple[str, str]:
        name = self.value()
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
        found: dict[str, Attribute] = {}
        for key, value in self.separated("}", self.entry):
            if key in found:
                raise self.fault(f"before it, one {key} alone")
            found[key] = value
        return found

    def entry(self) -> tuple[str, Attribute]:
        if self.kind not in ("word", "string"):
            raise self.fault("an attribute's name")
        key = self.string() if self.kind == "string" else self.advance()
        self.expect("=")
        return key, self.attribute()

    def attribute(self) -> Attribute:
        match self.kind, self.token:
            case "string", _:
                return self.string()
            case "number", _:
                return self.number()
            case _, "[":
                self.advance()
                with self.nested():
                    return tuple(self.separated("]", self.attribute))
            case _, "{":
                with self.nested():
                    return self.dictionary()
            case _, "true" | "false":
                return self.advance() == "true"
            case _, "dense":
                return self.dense()
        raise self.fault("an attribute")

    def number(self) -> int | float:
        start, text = self.start, self.advance()
        is_hex = text.startswith("0x")
        if self.token == ":":
            self.advance()
            type_text = self.type_text()
            if is_hex and type_text == "f64":
                if len(text) != len("0x") + 2 * DOUBLE.size:
                    self.start = start
                    raise self.fault(f"{2 * DOUBLE.size} hexadecimal digits for this type")
                return float(DOUBLE.unpack(bytes.fromhex(text[2:]))[0])
        if not is_hex and re.search(r"[.eE]", text):
            return float(text)
        number = int(text, 16) if is_hex else int(text) if len(text) <= MOST_BITS else 1 << MOST_BITS
        if number.bit_length() > MOST_BITS:
            self.start = start
            raise self.fault(f"a number of at most {MOST_BITS} bits")
        return number

    def dense(self) -> NDArray[Any]:
        self.expect("dense")
        self.expect("<")
        text = self.string() if self.kind == "string" else "0x"
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
