"""Statements on whole arrays: the same tree that the interpreter walks lane by lane, one numpy call an operation.

The calls are those of the operations' rows; the interpreter, which checks them, has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.arrays import array_value, reduce_array
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.facts import Kind
from tilewright.isa.language.numeric import Interval, wrap
from tilewright.isa.language.operations import REDUCTIONS, Op
from tilewright.isa.machine.memory import BYTE_BITS, Element

Leaf = tuple[str, str, bool, int]
"""An operand's name, its field, whether it stands inside the reduction, and the word of its block."""

Table = tuple[str, bool]
"""The name of an operand that is looked up in, and whether that happens inside the reduction."""


def working_type(expr: Expr) -> np.dtype[Any]:
    """The narrowest integer type in which every value of the expression and every step to it is exact."""
    nodes = walk(expr)
    if any(node.op.facts.needs_int64 for node in nodes):
        return np.dtype(np.int64)
    for width in (8, 16, 32):
        if all(Interval(-(1 << (width - 1)), (1 << (width - 1)) - 1).contains(node.range) for node in nodes):
            return np.dtype(f"int{width}")
    return np.dtype(np.int64)


def leaves(expr: Expr, inside: bool = False) -> set[Leaf]:
    """Every source that an expression mentions."""
    if expr.op is Op.SOURCE:
        return {(expr.name, expr.field, inside, expr.value)}
    inside = inside or expr.op in REDUCTIONS
    return {leaf for arg in expr.args for leaf in leaves(arg, inside)}


def tables(expr: Expr, inside: bool = False) -> set[Table]:
    """Every operand that an expression looks up in."""
    inside = inside or expr.op in REDUCTIONS
    found = {(expr.name, inside)} if expr.op is Op.LUT else set()
    return found.union(*(tables(arg, inside) for arg in expr.args))


@dataclass(frozen=True, slots=True)
class TableWords:
    """Where lookups find their elements: `stored` is the memory as [word, lane], `first` the word of the least index.

    `first` broadcasts to the iterations, with a last axis of size 1 for the lanes.
    """

    stored: NDArray[Any]
    first: NDArray[np.int64]
    element: Element

    def elements(self, index: NDArray[Any]) -> NDArray[Any]:
        """The element of each index in its own lane, as int64."""
        together = self.element.in_a_byte
        lanes = np.arange(self.stored.shape[1] * together)
        found = self.stored[self.first + index, lanes // together]
        if together > 1:
            found = found >> (lanes % together * self.element.bits).astype(np.uint8)
        return _in_type(found, self.element, "", np.dtype(np.int64))


def storage_type(element: Element) -> np.dtype[Any]:
    """What numpy sees in memory: one signed integer an element, or several uint64 for elements above 64 bits, or a
    byte of several elements.
    """
    if element.in_a_byte > 1:
        return np.dtype(np.uint8)
    if element.bits > 64:
        return np.dtype("<u8")
    if element.type is not None and not element.type.is_signed:
        return np.dtype(f"<u{element.bytes}")
    return np.dtype(f"<i{element.bytes}")


def extract(stored: NDArray[Any], element: Element, field: str, to: np.dtype[Any]) -> NDArray[Any]:
    """The integers of a field ("" for a plain element) of stored elements, as the working type.

    `stored` has the storage type; elements above 64 bits have their uint64 parts along the last axis. Where several
    share a byte, the last axis becomes as many times longer.
    """
    if element.in_a_byte > 1:
        apart = stored[..., None] >> _first_bits(element)
        stored = apart.reshape(*stored.shape[:-1], -1)
    return _in_type(stored, element, field, to)


def store(view: NDArray[Any], values: NDArray[Any], element: Element) -> None:
    """Write integers as elements of a type to a view of the storage type; each is kept modulo 2 to its stored bits."""
    np.copyto(view, as_stored(values, element, view.shape[-1]), casting="unsafe")


def as_stored(values: NDArray[Any], element: Element, size: int) -> NDArray[Any]:
    """What is stored of integers, in a last axis of `size`, along which one integer is repeated."""
    if element.in_a_byte == 1:
        return values
    whole = np.broadcast_to(values, (*values.shape[:-1], size * element.in_a_byte))
    low_bits = (whole.astype(np.int64) & ((1 << element.bits) - 1)).astype(np.uint8)
    together = low_bits.reshape(*values.shape[:-1], size, element.in_a_byte) << _first_bits(element)
    return np.asarray(np.bitwise_or.reduce(together, axis=-1))


def _first_bits(element: Element) -> NDArray[np.uint8]:
    """The lowest bit of each element of a byte."""
    return np.arange(0, BYTE_BITS, element.bits, dtype=np.uint8)


def _in_type(stored: NDArray[Any], element: Element, field: str, to: np.dtype[Any]) -> NDArray[Any]:
    """As `extract`, where every element stands in a place of its own, in the lowest bits."""
    field_type = element.type if element.type is not None else element.field(field).type
    low_bit = 0 if element.type is not None else element.field(field).low_bit
    if element.bits > 64:
        part, shift = divmod(low_bit, 64)
        raw = stored[..., part] >> np.uint64(shift)
        if shift + field_type.bits > 64:
            raw = raw | (stored[..., part + 1] << np.uint64(64 - shift))
        return np.asarray(wrap(raw.view(np.int64), field_type)).astype(to)
    if field_type.bits == element.bits and element.in_a_byte == 1:
        return stored.astype(to)
    return np.asarray(wrap(stored.astype(np.int64) >> low_bit, field_type)).astype(to)


class StatementFacts:
    """What follows from a statement alone, found once for all instructions that compute it."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.type = working_type(expr)
        self.leaves = tuple(sorted(leaves(expr)))
        self.tables = tuple(sorted(tables(expr)))


class ArrayStatement:
    """A statement made ready for arrays of one shape: iterations first, lanes last.

    Axes over which nothing moves may have size 1. The result has size 1 along the reduced axes.
    """

    def __init__(self, facts: StatementFacts, shape: tuple[int, ...], reduced_axes: tuple[int, ...]) -> None:
        self.type = facts.type
        self._expr = facts.expr
        self._shape = shape
        self._reduced_axes = reduced_axes

    def evaluate(
        self,
        sources: Mapping[Leaf, NDArray[Any]],
        immediates: Mapping[str, int],
        tables: Mapping[Table, TableWords] = MappingProxyType({}),
    ) -> NDArray[Any]:
        """The statement's value; `sources` are of the working type and broadcast to the shape."""
        return np.asarray(self._value(self._expr, Operands(sources, immediates, tables), False), self.type)

    def _value(self, expr: Expr, operands: Operands, inside: bool) -> NDArray[Any]:
        match expr.op:
            case Op.SOURCE:
                return operands.sources[expr.name, expr.field, inside, expr.value]
            case Op.CONST:
                return self.type.type(expr.value)
            case Op.IMMEDIATE:
                return self.type.type(operands.immediates[expr.name])
            case Op.LUT:
                index = np.asarray(self._value(expr.args[0], operands, inside), np.int64) - expr.args[0].range.low
                return operands.tables[expr.name, inside].elements(index).astype(self.type)
        match expr.op.facts.kind:
            case Kind.LOOPS:
                whole = np.broadcast_to(self._value(expr.args[0], operands, True), self._shape)
                return reduce_array(expr.op, whole, self._reduced_axes)
            case Kind.ACROSS_LANES:
                value = np.asarray(self._value(expr.args[0], operands, inside), self.type)
                lanes = np.broadcast_to(value, np.broadcast_shapes(value.shape, self._shape[-1:]))
                return reduce_array(expr.op, lanes, -1)
        result = array_value(expr, *(self._value(arg, operands, inside) for arg in expr.args))
        return result.astype(self.type) if result.dtype != self.type else result


@dataclass(frozen=True, slots=True)
class Operands:
    """What a statement names, in one execution."""

    sources: Mapping[Leaf, NDArray[Any]]
    immediates: Mapping[str, int]
    tables: Mapping[Table, TableWords]
