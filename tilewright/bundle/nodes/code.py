"""The body of a C function while it is written: operands, counters, variables, tables, loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.bundle.c_text import array, integer, long_integer, real

C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "bool": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Element types of the host's tensors that C has, by numpy's names."""


class NoCode(Exception):
    """Why a node has no C; the text fits behind `there is no C for it: `."""


@dataclass(frozen=True, slots=True)
class NodeOperand:
    """A tensor of a node: what C calls its first element, and its values where they are constant."""

    name: str
    dtype: str  # of C_TYPES
    shape: tuple[int, ...]
    value: NDArray[Any] | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class CNode:
    """A node of ONNX with its operands; an optional input that is left out is None."""

    op_type: str
    attributes: Mapping[str, Any]
    inputs: tuple[NodeOperand | None, ...]
    outputs: tuple[NodeOperand, ...]
    opset: int

    def input(self, position: int) -> NodeOperand | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def required(self, position: int) -> NodeOperand:
        """An input that a valid node has."""
        found = self.input(position)
        if found is None:
            raise NoCode(f"it has no input {position}")
        return found

    def constant(self, position: int, what: str) -> NDArray[Any] | None:
        """The values of an input that is constant; None where it is left out. Raises NoCode if it is computed."""
        found = self.input(position)
        if found is not None and found.value is None:
            raise NoCode(f"its {what} is computed in each run, not constant")
        return None if found is None else found.value


@dataclass(frozen=True, slots=True)
class CElement:
    """An element of an operand; in text, what C calls it: the value itself of a constant with one."""

    operand: NodeOperand
    index: str

    def __str__(self) -> str:
        value = self.operand.value
        if value is not None and value.size == 1:
            return literal(value.reshape(-1)[0], self.operand.dtype)
        return f"{self.operand.name}[{self.index}]"


@dataclass(frozen=True, slots=True)
class ElementWalk:
    """Where an operand's elements are: `first + Σ stride · counter`, in elements, after the index `base` of C."""

    operand: NodeOperand
    strides: tuple[int, ...]
    first: int = 0
    base: str = ""


Elements = Mapping[str, CElement]
Body = Callable[[Elements], Sequence[str]]


@dataclass
class Code:
    """What a function in C needs besides its statements; `prefix` begins the names of its tables."""

    prefix: str
    tables: list[str] = field(default_factory=list)
    variables: dict[str, None] = field(default_factory=dict)
    names: dict[str, NodeOperand] = field(default_factory=dict)
    level: int = 0

    def variable(self, kind: str, name: str) -> str:
        """Declare a variable of the function."""
        self.variables[f"{kind} {name}"] = None
        return name

    def table(self, kind: str, items: Sequence[str]) -> str:
        """A constant array beside the function; its name."""
        name = f"{self.prefix}_table{len(self.tables)}"
        self.tables.append(array(kind, name, items))
        return name

    def use(self, operand: NodeOperand) -> NodeOperand:
        """Declare an operand's pointer in the function."""
        if operand.value is None or operand.value.size > 1:
            self.names[operand.name] = operand
        return operand

    def element(self, affine: ElementWalk, counters: Sequence[str]) -> CElement:
        """The element that an operand has at some counters."""
        terms = [affine.base] if affine.base not in ("", "0U") else []
        terms += [f"{counter} * {step}U" for counter, step in zip(counters, affine.strides, strict=True) if step > 1]
        terms += [counter for counter, step in zip(counters, affine.strides, strict=True) if step == 1]
        if affine.first or not terms:
            terms.append(f"{affine.first}U")
        return CElement(self.use(affine.operand), " + ".join(terms))

    def loops(self, sizes: Sequence[int], walks: Mapping[str, ElementWalk], body: Body) -> list[str]:
        """Statements that run `body` once for each element of a box, in C order; it gets the elements by name."""
        kept = merged(sizes, list(walks.values()))
        counters = [self.variable("size_t", f"i{self.level + at}") for at in range(len(kept.sizes))]
        self.level += len(counters)
        elements = {
            name: self.element(replace(walk, strides=strides), counters)
            for (name, walk), strides in zip(walks.items(), kept.strides, strict=True)
        }
        lines = list(body(elements))
        self.level -= len(counters)
        for counter, size in reversed(list(zip(counters, kept.sizes, strict=True))):
            head = f"for ({counter} = 0; {counter} < {size}U; {counter}++) {{"
            lines = [head, *(f"    {line}" for line in lines), "}"]
        return lines


@dataclass(frozen=True, slots=True)
class MergedLoops:
    """Sizes of loops, and the strides in them of each operand."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def merged(sizes: Sequence[int], walks: Sequence[ElementWalk]) -> MergedLoops:
    """The fewest loops that visit the same elements in the same order.

    Two loops are one where all operands go on in the inner one's steps: sizes 4 and 6 with strides 6 and 1 are 24
    with stride 1.
    """
    found: list[int] = []
    steps: list[list[int]] = [[] for _ in walks]
    for axis, size in enumerate(sizes):
        strides = [walk.strides[axis] for walk in walks]
        if size == 1:
            continue
        goes_on = found and all(own[-1] == stride * size for own, stride in zip(steps, strides, strict=True))
        if goes_on:
            found[-1] *= size
        else:
            found.append(size)
        for own, stride in zip(steps, strides, strict=True):
            own[-1:] = [stride] if goes_on else [*own[-1:], stride]
    return MergedLoops(tuple(found), tuple(map(tuple, steps)))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast(operand: NodeOperand, shape: Sequence[int]) -> ElementWalk:
    """An operand as numpy and ONNX repeat it to a shape. Raises NoCode where it does not fit."""
    lead = len(shape) - len(operand.shape)
    fits = lead >= 0 and all(own in (1, size) for own, size in zip(operand.shape, shape[lead:], strict=True))
    if not fits:
        raise NoCode(f"its operand of shape {list(operand.shape)} does not fit its result of shape {list(shape)}")
    own_strides = row_major(operand.shape)
    own = [0 if size == 1 else step for size, step in zip(operand.shape, own_strides, strict=True)]
    return ElementWalk(operand, (0,) * lead + tuple(own))


def require_floats(*operands: NodeOperand) -> None:
    """Raise NoCode for an operand that is not of float32."""
    for operand in operands:
        if operand.dtype != "float32":
            raise NoCode(f"it is of {operand.dtype}; the C is for float32")


def literal(value: Any, dtype: str) -> str:
    """A constant of C, within an expression. Raises NoCode for a real that C has no literal for."""
    text = _plain_literal(value, dtype)
    return f"({text})" if text.startswith("-") else text


def literals(operand: NodeOperand) -> list[str]:
    """All values of a constant operand."""
    assert operand.value is not None
    return [_plain_literal(value, operand.dtype) for value in operand.value.reshape(-1)]


def _plain_literal(value: Any, dtype: str) -> str:
    if dtype == "float32":
        if not np.isfinite(value):
            raise NoCode(f"its constant {value} has no literal in C")
        return real(float(value))
    return long_integer(int(value), dtype) if dtype in ("int64", "uint64") else integer(int(value))
