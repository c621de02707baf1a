"""What a valid graph keeps: types that hold their values, attributes of each kind's types, shapes that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, prod
from typing import TypeGuard

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CANONICAL, Graph, Operator, TensorType, scales_of_parts, stored_shape
from tilewright.compiler.graph.shapes import ANY_RANK, SHAPES
from tilewright.compiler.rules import Fault, Rule
from tilewright.compiler.text.mlir import ELEMENTS
from tilewright.isa.errors import IsaError, short
from tilewright.isa.program.program import GREATEST_SCALE, LEAST_SCALE

MOST = 1 << 26
"""Elements of a tensor that is no constant."""


MOST_REAL = float("inf")


def _fault(operator: Operator, fact: str, expected: str = "") -> Fault:
    subject = operator.outputs[0] if operator.outputs else None
    return Fault(subject, f"{operator.kind} {operator.name!r}", fact, expected)


# -- tensors -----------------------------------------------------------------------------------------------------------


def _names(graph: Graph) -> Iterator[Fault]:
    """Whether only operands and results of ONNX's operators are left out: theirs may be optional."""
    for name in (*graph.tensors, *graph.constants):
        if not name:
            yield Fault(name, "a tensor", "it has no name", "one")
    for operator in _canonical(graph):
        if not all((*operator.inputs, *operator.outputs)):
            yield _fault(operator, "it leaves out an operand or its result", "all of them")
    for name, tensor in graph.outputs.items():
        if not tensor:
            yield Fault(None, f"output {name!r}", "it is left out", "a tensor")


def _types(graph: Graph) -> Iterator[Fault]:
    for name, tensor in graph.tensors.items():
        if tensor.dtype not in ELEMENTS:
            yield Fault(name, f"tensor {name!r}", f"its elements are {tensor.dtype}", f"one of {', '.join(ELEMENTS)}")
        elif min(tensor.shape, default=1) < 0 or prod(tensor.shape) > MOST * 4:
            yield Fault(name, f"tensor {name!r}", f"its shape is {list(tensor.shape)}")
        elif tensor.quantization is not None:
            fact = _quantization_fault(tensor)
            if fact:
                yield Fault(name, f"tensor {name!r}", fact)


def _quantization_fault(tensor: TensorType) -> str:
    """What is wrong with the scales of a tensor; nothing where that is empty."""
    quantization = tensor.quantization
    assert quantization is not None
    if not all(LEAST_SCALE <= scale <= GREATEST_SCALE for scale in quantization.scales):
        return f"its scales are {short(quantization.scales)}; expected positive numbers that a float32 holds"
    low, high = tensor.limits
    if not all(low <= zero <= high for zero in quantization.zero_points):
        return f"its zero points are {short(quantization.zero_points)}; expected values of {tensor.dtype}"
    if quantization.axis is None:
        return "" if len(quantization.scales) == 1 else f"it has {len(quantization.scales)} scales and no axis"
    if not 0 <= quantization.axis < len(tensor.shape):
        return f"its scales are along dimension {quantization.axis} of {list(tensor.shape)}"
    try:
        scales_of_parts(quantization, tensor.shape).require_fit(tensor.shape)
    except IsaError as error:
        return str(error)
    return ""


def _constants(graph: Graph) -> Iterator[Fault]:
    for name, value in graph.constants.items():
        tensor = graph.tensors[name]
        if value.shape != tensor.shape or value.dtype.name != tensor.dtype:
            fact = f"its value is {value.dtype.name} {list(value.shape)}"
            yield Fault(name, f"constant {name!r}", fact, f"{tensor.dtype} {list(tensor.shape)}")


def _order(graph: Graph) -> Iterator[Fault]:
    made = {*graph.inputs, *graph.constants}
    for operator in graph.operators:
        for name in operator.inputs:
            if name and name not in made:
                yield _fault(operator, f"it reads {name!r}, which nothing before it makes")
        for name in operator.outputs:
            if name and name in made:
                yield _fault(operator, f"it makes {name!r} again")
        made.update(operator.outputs)
    for name, tensor in graph.outputs.items():
        if tensor not in made:
            yield Fault(None, f"output {name!r}", f"nothing makes {tensor!r}")


# -- attributes --------------------------------------------------------------------------------------------------------


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
    **dict.fromkeys(("table", "scale", "bias"), (_array, "an array")),
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

OPTIONAL = ("low", "high", "joined", "macs", "leak", "factor", "between")
"""Attributes that an operator may have besides those of its kind."""


def _attributes(graph: Graph) -> Iterator[Fault]:
    for operator in _canonical(graph):
        _, required = CANONICAL[operator.kind]
        for name in required:
            if name not in operator.attributes:
                yield _fault(operator, f"attribute {name} is missing")
        for name, value in operator.attributes.items():
            known = ATTRIBUTES.get(name)
            if name in ("rows", "columns"):
                known = PLACES if operator.kind == "interpolate" else INDICES
            if known is None or name not in (*required, *OPTIONAL):
                yield _fault(operator, f"unknown attribute {name}", f"one of {', '.join((*required, *OPTIONAL))}")
            elif not known[0](value):
                yield _fault(operator, f"attribute {name} is {short(value)}", known[1])


def _limits(graph: Graph) -> Iterator[Fault]:
    for operator in _canonical(graph):
        result = graph.tensors[operator.outputs[0]]
        low, high = (operator.attributes.get(name) for name in ("low", "high"))
        if (low is None) != (high is None):
            yield _fault(operator, "it has one of low and high", "both or none")
        elif low is not None and high is not None:
            least, most = result.limits if result.quantization is not None else (-MOST_REAL, MOST_REAL)
            if not least <= low <= high <= most:
                yield _fault(operator, f"low is {low}, high {high}", f"ascending values of {result.dtype}")
            elif result.quantization is not None and not type(low) is type(high) is int:
                yield _fault(operator, f"low is {low}, high {high}", "integers")


def _tables(graph: Graph) -> Iterator[Fault]:
    for operator in _canonical(graph):
        if operator.kind != "lookup":
            continue
        table, operand = operator.attributes["table"], graph.tensors[operator.inputs[0]]
        result = graph.tensors[operator.outputs[0]]
        (low, high), (least, most) = operand.limits, result.limits
        if table.ndim not in (1, 2) or table.shape[-1] != high - low + 1:
            yield _fault(operator, f"a table of {list(table.shape)}", f"an entry for each value of {operand.dtype}")
        elif table.ndim == 2 and table.shape[0] != stored_shape(operand.shape)[1]:
            yield _fault(operator, f"a table for {table.shape[0]} channels", f"{stored_shape(operand.shape)[1]}")
        elif table.size and not (table.dtype.kind in "iu" and least <= table.min() and table.max() <= most):
            yield _fault(operator, f"entries from {table.min()} to {table.max()}", f"values of {result.dtype}")


# -- results -----------------------------------------------------------------------------------------------------------


def _shapes(graph: Graph) -> Iterator[Fault]:
    for operator in _canonical(graph):
        result = graph.tensors[operator.outputs[0]].shape
        operands = [graph.tensors[name].shape for name in operator.inputs]
        try:
            if operator.kind in ANY_RANK:
                expected = ANY_RANK[operator.kind](operator, operands, result)
            else:
                # a number or a bias has no dimensions of its own; the operands of products and sums do
                stored = [stored_shape(shape) if len(shape) != 4 else shape for shape in operands]
                result = stored_shape(result)
                expected = SHAPES[operator.kind](operator, stored, result)
        except (ValueError, CompileError) as error:
            yield _fault(operator, str(error))
            continue
        if expected != result:
            yield _fault(operator, f"its result is {list(result)}", f"{list(expected)}")


def _views(graph: Graph) -> Iterator[Fault]:
    """Whether integers come from integers, with the same meaning if they are only moved."""
    for operator in _canonical(graph):
        operand, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
        if operator.kind in SAME_INTEGERS and _meaning(operand) != _meaning(result):
            yield _fault(operator, f"its operand is {_said(operand)}, its result {_said(result)}", "the same of both")
        elif operator.kind != "quantize" and result.quantization is not None and operand.quantization is None:
            yield _fault(
                operator, f"it makes {_said(result)} of {_said(operand)}", "integers with a scale as its operand"
            )
        elif operator.kind != "dequantize" and result.quantization is None and operand.quantization is not None:
            yield _fault(
                operator, f"it makes {_said(result)} of {_said(operand)}", "integers with a scale as its result"
            )
        elif operator.kind == "quantize" and result.quantization is None:
            yield _fault(operator, f"its result is {_said(result)}", "integers with a scale")
        elif operator.kind == "dequantize" and (operand.quantization is None or result.quantization is not None):
            yield _fault(operator, f"it makes {_said(result)} of {_said(operand)}", "floats of integers with a scale")


SAME_INTEGERS = (
    *("reshape", "transpose", "refold", "permute", "take", "space_to_depth", "depth_to_space"),
    *("max_pool", "channel_max", "pad"),
)
"""Operators that move integers, or choose among them: no rounding, so that scales stay."""


def _meaning(tensor: TensorType) -> object:
    quantization = tensor.quantization
    if quantization is None or quantization.axis is not None:
        return tensor.dtype, quantization is None
    return tensor.dtype, quantization.scale, quantization.zero_point


def _said(tensor: TensorType) -> str:
    quantization = tensor.quantization
    if quantization is None:
        return tensor.dtype
    if quantization.axis is not None:
        return f"{tensor.dtype} of {len(quantization.scales)} scales"
    return f"{tensor.dtype} of scale {quantization.scale:g} and zero point {quantization.zero_point}"


WEIGHTED = ("conv", "conv_transpose")
"""Operators whose weights and bias are constants."""

COMPUTING: Mapping[str, int | None] = {
    **dict.fromkeys((*WEIGHTED, "average_pool", "rescale", "softmax", "normalize", "interpolate", "pad"), 1),
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum", "product", "concat"), None),
}
"""Operators that compute with what integers mean → of how many operands, from the first on; None: of all."""


def _scales(graph: Graph) -> Iterator[Fault]:
    for operator in _canonical(graph):
        quantization = graph.tensors[operator.outputs[0]].quantization
        if quantization is None or operator.kind not in COMPUTING:
            continue
        for name in operator.inputs[: COMPUTING[operator.kind]]:
            tensor = graph.tensors[name]
            if tensor.quantization is None or tensor.quantization.axis is not None:
                yield _fault(operator, f"its operand {name!r} is {_said(tensor)}", "integers of one scale")
        if len(set(quantization.zero_points)) > 1:
            yield _fault(operator, f"its result has {len(set(quantization.zero_points))} zero points", "one")
        for name in operator.inputs[1:] if operator.kind in WEIGHTED else ():
            if name not in graph.constants or graph.tensors[name].quantization is None:
                yield _fault(operator, f"it reads {name!r}", "weights and a bias that are constants with scales")


def _canonical(graph: Graph) -> Iterator[Operator]:
    return (operator for operator in graph.operators if operator.kind in CANONICAL)


RULES: Sequence[Rule[Graph]] = (
    Rule("names", "Every tensor has a name; only what is optional for ONNX is left out.", _names),
    Rule("types", "A tensor's scales are positive, as many as its shape says; zero points are of its type.", _types),
    Rule("constants", "A constant has the type and shape that its tensor says.", _constants),
    Rule("order", "Each tensor is made once, before it is read; outputs are made.", _order),
    Rule("attributes", "An operator has the attributes of its kind, each of its type and in its range.", _attributes),
    Rule("limits", "An operator limits its result by both `low` and `high`, values of its type.", _limits),
    Rule("shapes", "A result's shape follows from those of the operands and the attributes.", _shapes),
    Rule("tables", "A lookup has an entry for each value of its operand, of its result's type.", _tables),
    Rule("views", "Only `quantize` makes integers of floats; what only moves integers keeps their scale.", _views),
    Rule("scales", "What computes on integers reads one scale each; weights and a bias are constants.", _scales),
)
"""The rules of all graphs, in order; `importers.node_rules` has those of `onnx.…` operators."""
