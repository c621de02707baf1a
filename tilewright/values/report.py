"""A comparison of values on a terminal: a verdict, a row a tensor, and the instruction behind the first difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.terminal.tables import print_table, print_text
from tilewright.values.compare import Difference, ValueComparison
from tilewright.values.culprit import WordRead

SHOWN_WORDS = 6
"""As many words of each operand are shown."""


def comparison_json(comparison: ValueComparison) -> dict[str, Any]:
    """All of it, with the verdict: whether each layer by itself is within its limit."""
    return {"is_within_limits": comparison.first is None, **asdict(comparison)}


def print_comparison(comparison: ValueComparison, inputs: str, machine: str) -> None:
    """The verdict, the tensors, what is not compared, and the first difference."""
    print(_verdict(comparison))
    print()
    rows = [
        (
            *(tensor.layer, tensor.values, tensor.isolated.unequal, tensor.isolated.furthest, tensor.limit),
            *(tensor.accumulated.unequal, tensor.accumulated.furthest),
        )
        for tensor in comparison.tensors
    ]
    columns = ("layer", "values", "differ alone", "steps", "limit", "differ in a row", "steps")
    print_table(f"{inputs} on {machine} beside ONNX Runtime without optimisations", columns, rows)
    print()
    print_text(
        "alone: the layer on the tensors that ONNX Runtime has before it; in a row: on those that the machine's own "
        "layers made, so that single steps add up. The limit is a step for each rounding that a layer does."
    )
    _print_left_out(comparison)
    if comparison.first is not None:
        print()
        limits = {tensor.tensor: tensor.limit for tensor in comparison.tensors}
        _print_difference(comparison.first, limits[comparison.first.tensor])


def _verdict(comparison: ValueComparison) -> str:
    if not comparison.tensors:
        return "Nothing was compared: no tensor of the machine is one of the model's."
    values = sum(tensor.values for tensor in comparison.tensors)
    if comparison.first is None:
        unequal = sum(tensor.isolated.unequal for tensor in comparison.tensors)
        furthest = max(tensor.isolated.furthest for tensor in comparison.tensors)
        away = f"{unequal:,} differ, by {furthest} step{'s' * (furthest != 1)} at most" if unequal else "all are equal"
        return f"Every layer by itself is within its limit: of {values:,} values {away}."
    far = [tensor for tensor in comparison.tensors if tensor.isolated.furthest > tensor.limit]
    layers = "1 layer is" if len(far) == 1 else f"{len(far)} layers are"
    return f"{layers} further away than rounding explains. First: layer {comparison.first.layer}, see the end."


def _print_left_out(comparison: ValueComparison) -> None:
    """What the comparison cannot see, in a line each."""
    for name, why in comparison.skipped.items():
        print_text(f"Not compared: {name}: {why}.")
    if comparison.unseen:
        print_text(
            f"Not compared: {len(comparison.unseen)} quantised tensors that no memory of the machine holds, since a "
            f"layer computes several nodes at once, or the host does: {', '.join(comparison.unseen)}."
        )
    if comparison.host_nodes:
        print_text(f"Not compared: what the host computes, in ONNX Runtime itself: {', '.join(comparison.host_nodes)}.")


def _print_difference(first: Difference, limit: int) -> None:
    who, index = first.culprit, ", ".join(map(str, first.index))
    fields = {name: value for name, value in who.fields.items() if value or name.startswith("trip.")}
    print_text(f"First difference: {first.tensor}[{index}] is {first.machine}, expected {first.expected}")
    if limit > 1:
        print_text(
            f"The layer rounds {limit} times, and what is between cannot be set right: if steps grow on the way, "
            "this need not be a fault."
        )
    rows = {
        "layer": first.layer + (f" (program {first.program + 1})" if first.program else ""),
        "instruction": f"{who.instruction}: {who.text}",
        "statement": f"{who.statement}, in lane {first.lane}",
        "copied by": ", ".join(map(str, who.copied_by)),
        "fields": ", ".join(f"{name} {value}" for name, value in fields.items()),
    }
    for name, text in rows.items():
        if text:
            print_text(f"{name + ':':<14}{text}", indent=14)
    print("It read, for this element:")
    for operand in dict.fromkeys(word.operand for word in who.read):
        words = [word for word in who.read if word.operand == operand]
        for word in words[:SHOWN_WORDS]:
            print_text(f"  {_word(word, first.lane)}", indent=4)
        if len(words) > SHOWN_WORDS:
            print(f"  … and {len(words) - SHOWN_WORDS:,} more words of {operand}; --json has all")


def _word(word: WordRead, lane: int) -> str:
    maker = "" if word.maker is None else f"  (written by instruction {word.maker})"
    return f"{word.operand} = {word.memory}[{word.address}]: {_elements(word.elements, lane)}{maker}"


def _elements(elements: Mapping[str, Sequence[int]], lane: int) -> str:
    """The elements of a word; of elements with fields, only that of the lane."""
    if list(elements) == [""]:
        return " ".join(map(str, elements[""]))
    return ", ".join(f"{name} {values[lane % len(values)]}" for name, values in elements.items())
