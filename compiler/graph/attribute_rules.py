"""Rules of graphs about attributes: each of its type and in its range, limits and tables of their tensors' types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TypeGuard

import numpy as np

from tilewright.compiler.graph.graph import CANONICAL, Graph, Operator, stored_shape
from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.isa.errors import short

MOST = 1 << 26
"""Elements of a tensor that is no constant."""


MOST_REAL = float("inf")


def fault_of(operator: Operator, fact: str, expected: str = "") -> RuleViolation:
    """A fault of an operator."""
    subject = operator.outputs[0] if operator.outputs else None
    return RuleViolation(subject, f"{operator.kind} {operator.name!r}", fact, expected)


def canonical(graph: Graph) -> Iterator[Operator]:
    """The operators that are not ONNX's own."""
    return (operator for operator in graph.operators if operator.kind in CANONICAL)


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (int, float)


def _integers(count: int | None, least: int) -> Callable[[object], bool]:
    def are(value: object) -> bool:
        return (
            isinstance(value, tuple)
            and count in (None, len(value))
            and all(type(each) is int and least <= each < MOST for each in value)
        )

    return are


def _number(least: float) -> Callable[[object], bool]:
    return lambda value: _is_number(value) and isfinite(value) and value >= least


def _array(value: object) -> bool:
    return isinstance(value, np.ndarray) and (value.dtype.kind in "iub" or bool(np.isfinite(value).all()))


def _places(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(place, tuple)
        and len(place) == 3
        and all(type(each) is int and 0 <= each < MOST for each in place)
        and place[1] + place[2] > 0
        for place in value
    )


def _slopes(value: object) -> bool:
    return isinstance(value, tuple) and all(_is_number(each) and 0 <= each <= 1 for each in value)


def _whole(least: int) -> Callable[[object], bool]:
    return lambda value: _is_integer(value) and least <= value < 1 << 63


ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("strides", "dilations", "kernel"), (_integers(2, 1), "two integers from 1 on")),
    "pads": (_integers(4, 0), "four integers from 0 on"),
    "crops": (_integers(2, 0), "two integers from 0 on"),
    **dict.fromkeys(("group", "block", "joined"), (_whole(1), "an integer from 1 on")),
    **dict.fromkeys(("low", "high", "value"), (_number(-float("inf")), "a number")),
    **dict.fromkeys(("table", "real", "scale", "bias"), (_array, "an array")),
    "mask": (lambda value: value == () if isinstance(value, tuple) else _array(value), "an array or []"),
    **dict.fromkeys(("axes", "batches", "channels", "shape"), (_integers(None, 0), "integers from 0 on")),
    "axis": (lambda value: _is_integer(value) and 0 <= value < 4, "0 to 3"),
    "order": (lambda value: value in ("DCR", "CRD"), "DCR or CRD"),
    **dict.fromkeys(("is_transposed", "is_centred"), (lambda value: type(value) is bool, "true or false")),
    "counts_padding": (lambda value: type(value) in (bool, int) and value in (0, 1), "true or false"),
    **dict.fromkeys(("factor", "epsilon", "between"), (_number(0), "a number from 0 on")),
    "macs": (_whole(0), "an integer from 0 on"),
    "leak": (_slopes, "numbers from 0 to 1"),
}
"""Attribute → whether a value may be its, and what that is in words."""

PLACES = (_places, "an index and two weights for each place")
INDICES = (_integers(None, 0), "integers from 0 on")

OPTIONAL = ("low", "high", "joined", "macs", "leak", "factor", "between", "real")
"""Attributes that an operator may have besides those of its kind."""


def _attributes(graph: Graph) -> Iterator[RuleViolation]:
    for operator in canonical(graph):
        _, required = CANONICAL[operator.kind]
        for name in required:
            if name not in operator.attributes:
                yield fault_of(operator, f"attribute {name} is missing")
        for name, value in operator.attributes.items():
            known = ATTRIBUTES.get(name)
            if name in ("rows", "columns"):
                known = PLACES if operator.kind == "interpolate" else INDICES
            if known is None or name not in (*required, *OPTIONAL):
                yield fault_of(operator, f"unknown attribute {name}", f"one of {', '.join((*required, *OPTIONAL))}")
            elif not known[0](value):
                yield fault_of(operator, f"attribute {name} is {short(value)}", known[1])


def _limits(graph: Graph) -> Iterator[RuleViolation]:
    for operator in canonical(graph):
        result = graph.tensors[operator.outputs[0]]
        low, high = (operator.attributes.get(name) for name in ("low", "high"))
        if (low is None) != (high is None):
            yield fault_of(operator, "it has one of low and high", "both or none")
        elif low is not None and high is not None:
            least, most = result.limits if result.quantization is not None else (-MOST_REAL, MOST_REAL)
            if not least <= low <= high <= most:
                yield fault_of(operator, f"low is {low}, high {high}", f"ascending values of {result.dtype}")
            elif result.quantization is not None and not type(low) is type(high) is int:
                yield fault_of(operator, f"low is {low}, high {high}", "integers")


def _tables(graph: Graph) -> Iterator[RuleViolation]:
    for operator in canonical(graph):
        if operator.kind != "lookup":
            continue
        table, operand = operator.attributes["table"], graph.tensors[operator.inputs[0]]
        result = graph.tensors[operator.outputs[0]]
        (low, high), (least, most) = operand.limits, result.limits
        if table.ndim not in (1, 2) or table.shape[-1] != high - low + 1:
            yield fault_of(operator, f"a table of {list(table.shape)}", f"an entry for each value of {operand.dtype}")
        elif table.ndim == 2 and table.shape[0] != stored_shape(operand.shape)[1]:
            yield fault_of(operator, f"a table for {table.shape[0]} channels", f"{stored_shape(operand.shape)[1]}")
        elif table.size and not (table.dtype.kind in "iu" and least <= table.min() and table.max() <= most):
            yield fault_of(operator, f"entries from {table.min()} to {table.max()}", f"values of {result.dtype}")


ATTRIBUTE_RULES: Sequence[Rule[Graph]] = (
    Rule("attributes", "An operator has the attributes of its kind, each of its type and in its range.", _attributes),
    Rule("limits", "An operator limits its result by both `low` and `high`, values of its type.", _limits),
)
"""In order."""

TABLE_RULE: Rule[Graph] = Rule(
    "tables", "A lookup has an entry for each value of its operand, of its result's type.", _tables
)
"""This relies on shapes."""
