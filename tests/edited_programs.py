"""Edits of a program's text that keep its grammar: of attributes, operands, types and operations.

`edit_program` changes one operation of a text, or the order of two.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.compiler.text.mlir import MlirBlock, MlirOperation

NUMBERS = (-1, 0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 127, 128, 255, 256, 1 << 15, 1 << 31)

WORD = re.compile(r"-?\d+|[A-Za-z_]\w*|[-+*<>]+")


def edit_program(whole: MlirOperation, rng: random.Random) -> tuple[MlirOperation, str]:
    """The program with one edit, and what was edited."""
    if whole.region is None or (rng.random() < 0.15 and whole.attributes):
        return _edit_attributes(whole, rng)
    if len(whole.region.operations) == 0:
        return _edit_attributes(whole, rng)
    index = rng.randrange(len(whole.region.operations))
    operation = whole.region.operations[index]
    if operation.region is not None and rng.random() < 0.8:
        inner, what = edit_program(operation, rng)
        return _with(whole, index, (inner,)), what
    match rng.choice(["attribute"] * 6 + ["operand", "operand", "delete", "swap", "repeat", "type", "left out"]):
        case "delete":
            return _with(whole, index, ()), f"{_name(operation)} deleted"
        case "repeat":
            return _with(whole, index, (operation, operation)), f"{_name(operation)} repeated"
        case "swap":
            other = rng.randrange(len(whole.region.operations))
            operations = list(whole.region.operations)
            operations[index], operations[other] = operations[other], operations[index]
            changed = replace(whole, region=replace(whole.region, operations=tuple(operations)))
            return changed, f"{_name(operation)} and {_name(operations[index])} swapped"
        case "operand" if operation.operands:
            return _edit_operand(whole, index, rng)
        case "type" if operation.result_types:
            return _edit_type(whole, operation, rng)
        case "left out" if operation.operands or operation.results:
            return _without_value(whole, rng.choice((*operation.operands, *operation.results)))
        case _:
            changed, what = _edit_attributes(operation, rng)
            return _with(whole, index, (changed,)), what


def _name(operation: MlirOperation) -> str:
    said = operation.attributes.get("name", operation.results[0] if operation.results else "")
    return f"{operation.name} {said} (line {operation.line})"


def _with(whole: MlirOperation, index: int, operations: Sequence[MlirOperation]) -> MlirOperation:
    assert whole.region is not None
    inside = whole.region.operations
    return replace(whole, region=replace(whole.region, operations=(*inside[:index], *operations, *inside[index + 1 :])))


def _edit_operand(whole: MlirOperation, index: int, rng: random.Random) -> tuple[MlirOperation, str]:
    """Another value in the place of an operand: mostly one of the same type."""
    assert whole.region is not None
    types = dict(whole.region.arguments)
    for each in whole.region.operations:
        types.update(zip(each.results, each.result_types, strict=True))
    operation = whole.region.operations[index]
    position = rng.randrange(len(operation.operands))
    alike = [name for name, of in types.items() if of == operation.operand_types[position]]
    name = rng.choice(alike if alike and rng.random() < 0.6 else sorted(types))
    operands, operand_types = list(operation.operands), list(operation.operand_types)
    operands[position], operand_types[position] = name, types[name]
    changed = replace(operation, operands=tuple(operands), operand_types=tuple(operand_types))
    return _with(whole, index, (changed,)), f"{_name(operation)}: operand {operation.operands[position]} → {name}"


def _without_value(whole: MlirOperation, value: str) -> tuple[MlirOperation, str]:
    """A value left out wherever it stands, as optional operands are: without a name."""

    def changed(each: MlirOperation) -> MlirOperation:
        region = each.region and MlirBlock(
            tuple((name if name != value else "", of) for name, of in each.region.arguments),
            tuple(map(changed, each.region.operations)),
        )
        operands, results = (tuple(n if n != value else "" for n in of) for of in (each.operands, each.results))
        return replace(each, operands=operands, results=results, region=region)

    return changed(whole), f"{value} left out"


def _edit_type(whole: MlirOperation, operation: MlirOperation, rng: random.Random) -> tuple[MlirOperation, str]:
    """Another type of a value, wherever it stands."""
    value, old = operation.results[0], operation.result_types[0]
    new = _edit_text(old, rng)

    def changed(each: MlirOperation) -> MlirOperation:
        pairs = zip(each.operands, each.operand_types, strict=True)
        operand_types = tuple(new if name == value else of for name, of in pairs)
        pairs = zip(each.results, each.result_types, strict=True)
        result_types = tuple(new if name == value else of for name, of in pairs)
        region = each.region and MlirBlock(each.region.arguments, tuple(map(changed, each.region.operations)))
        return replace(each, operand_types=operand_types, result_types=result_types, region=region)

    return changed(whole), f"{_name(operation)}: type {old} → {new}"


def _edit_attributes(operation: MlirOperation, rng: random.Random) -> tuple[MlirOperation, str]:
    if not operation.attributes:
        return operation, "nothing"
    changed, what = _edit_mapping(operation.attributes, rng)
    return replace(operation, attributes=changed), f"{_name(operation)}: {what}"


def _edit_mapping(values: Mapping[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    name, other = rng.choice(list(values)), rng.choice(list(values))
    match rng.choice(["delete", "swap", "change", "change", "change", "change"]):
        case "delete":
            return {each: value for each, value in values.items() if each != name}, f"{name} deleted"
        case "swap":
            return {**values, name: values[other], other: values[name]}, f"{name} and {other} swapped"
        case _:
            changed, what = _edit_value(values[name], rng)
            return {**values, name: changed}, f"{name}{what}"


KINDS = (0, -1, 2.5, float("inf"), 1 << 62, True, "x", "", (), (1,), (1, 2, 3, 4), ("a",), ((1, 2),), {}, {"a": 1})
"""Values of all kinds."""


def _edit_value(value: Any, rng: random.Random) -> tuple[Any, str]:
    if rng.random() < 0.1:
        new = rng.choice([*KINDS, np.zeros(3, np.float32), np.zeros(0, np.int8), np.ones((2, 2), np.int8)])
        return new, f": {str(value)[:40]!r} → {new!r}"
    match value:
        case bool():
            return not value, f": {value} → {not value}"
        case int():
            new = rng.choice([*NUMBERS, value + 1, value - 1, -value])
            return new, f": {value} → {new}"
        case float():
            number = rng.choice([0.0, 1.0, value * 2, -value, value * 1.01])
            return number, f": {value} → {number}"
        case str():
            text = _edit_text(value, rng)
            return text, f": {value!r} → {text!r}"
        case np.ndarray():
            return _edit_array(value, rng)
        case Mapping() if value:
            mapping, what = _edit_mapping(value, rng)
            return mapping, f".{what}"
        case tuple() if value:
            return _edit_tuple(value, rng)
        case _:
            return (1,), f": {value!r} → [1]"


def _edit_tuple(values: tuple[Any, ...], rng: random.Random) -> tuple[tuple[Any, ...], str]:
    index, other, items = rng.randrange(len(values)), rng.randrange(len(values)), list(values)
    match rng.choice(["delete", "swap", "repeat", "change", "change", "change"]):
        case "delete":
            del items[index]
            return tuple(items), f"[{index}] deleted"
        case "repeat":
            return (*values[:index], values[index], *values[index:]), f"[{index}] repeated"
        case "swap":
            items[index], items[other] = items[other], items[index]
            return tuple(items), f"[{index}] and [{other}] swapped"
        case _:
            items[index], what = _edit_value(items[index], rng)
            return tuple(items), f"[{index}]{what}"


def _edit_array(array: Any, rng: random.Random) -> tuple[Any, str]:
    """One element changed, or the elements in another order."""
    changed = array.copy().reshape(-1)
    if changed.size == 0:
        return np.ones(1, array.dtype), ": empty → [1]"
    index, other = rng.randrange(changed.size), rng.randrange(changed.size)
    most = np.iinfo(changed.dtype).max if changed.dtype.kind in "iu" else 1e9
    changed[index] = rng.choice([changed[other], changed[index] // 2, 1, 0, most])
    return changed.reshape(array.shape), f"[{index}]: {array.reshape(-1)[index]} → {changed[index]}"


def _edit_text(text: str, rng: random.Random) -> str:
    """One word of a text deleted, repeated, changed, or in the place of another."""
    words = list(WORD.finditer(text))
    if not words:
        return text + "x"
    at, other = rng.choice(words), rng.choice(words)
    old = at[0]
    is_number = old.lstrip("-").isdigit()
    match rng.choice(["delete", "change", "change", "other", "other", "tail"]):
        case "delete":
            new = ""
        case "tail":  # a phrase at the end: `outside 5`, `reduce`
            return text[: at.start()].rstrip()
        case "change" if is_number:
            new = str(rng.choice([*NUMBERS, int(old) + 1, int(old) - 1]))
        case _:
            new = other[0]
    return text[: at.start()] + new + text[at.end() :]
