"""What a valid graph keeps: types that hold their values, shapes that follow, scales of what computes.

`graph.attribute_rules` has the rules about attributes; RULES are all but those of `onnx.…` operators and of ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.attribute_rules import ATTRIBUTE_RULES, MOST, TABLE_RULE, canonical, fault_of
from tilewright.compiler.graph.graph import Graph, TensorType, scales_of_parts, stored_shape
from tilewright.compiler.graph.shapes import ANY_RANK, SHAPES
from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.compiler.text.mlir import ELEMENTS
from tilewright.isa.errors import IsaError, short
from tilewright.isa.program.program import GREATEST_SCALE, LEAST_SCALE

# -- tensors -----------------------------------------------------------------------------------------------------------


def _names(graph: Graph) -> Iterator[RuleViolation]:
    """Whether only operands and results of ONNX's operators are left out: theirs may be optional."""
    for name in (*graph.tensors, *graph.constants):
        if not name:
            yield RuleViolation(name, "a tensor", "it has no name", "one")
    for operator in canonical(graph):
        if not all((*operator.inputs, *operator.outputs)):
            yield fault_of(operator, "it leaves out an operand or its result", "all of them")
    for name, tensor in graph.outputs.items():
        if not tensor:
            yield RuleViolation(None, f"output {name!r}", "it is left out", "a tensor")


def _types(graph: Graph) -> Iterator[RuleViolation]:
    for name, tensor in graph.tensors.items():
        if tensor.dtype not in ELEMENTS:
            yield RuleViolation(
                name, f"tensor {name!r}", f"its elements are {tensor.dtype}", f"one of {', '.join(ELEMENTS)}"
            )
        elif min(tensor.shape, default=1) < 0 or prod(tensor.shape) > MOST * 4:
            yield RuleViolation(name, f"tensor {name!r}", f"its shape is {list(tensor.shape)}")
        elif tensor.quantization is not None:
            fact = _quantization_fault(tensor)
            if fact:
                yield RuleViolation(name, f"tensor {name!r}", fact)


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


def _constants(graph: Graph) -> Iterator[RuleViolation]:
    for name, value in graph.constants.items():
        tensor = graph.tensors[name]
        if value.shape != tensor.shape or value.dtype.name != tensor.dtype:
            fact = f"its value is {value.dtype.name} {list(value.shape)}"
            yield RuleViolation(name, f"constant {name!r}", fact, f"{tensor.dtype} {list(tensor.shape)}")


def _order(graph: Graph) -> Iterator[RuleViolation]:
    made = {*graph.inputs, *graph.constants}
    for operator in graph.operators:
        for name in operator.inputs:
            if name and name not in made:
                yield fault_of(operator, f"it reads {name!r}, which nothing before it makes")
        for name in operator.outputs:
            if name and name in made:
                yield fault_of(operator, f"it makes {name!r} again")
        made.update(operator.outputs)
    for name, tensor in graph.outputs.items():
        if tensor not in made:
            yield RuleViolation(None, f"output {name!r}", f"nothing makes {tensor!r}")


# -- results -----------------------------------------------------------------------------------------------------------


def _shapes(graph: Graph) -> Iterator[RuleViolation]:
    for operator in canonical(graph):
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
            yield fault_of(operator, str(error))
            continue
        if expected != result:
            yield fault_of(operator, f"its result is {list(result)}", f"{list(expected)}")


def _views(graph: Graph) -> Iterator[RuleViolation]:
    """Whether integers come from integers, with the same meaning if they are only moved."""
    for operator in canonical(graph):
        operand, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
        if operator.kind in SAME_INTEGERS and _meaning(operand) != _meaning(result):
            yield fault_of(operator, f"its operand is {_said(operand)}, its result {_said(result)}", "the same of both")
        elif operator.kind != "quantize" and result.quantization is not None and operand.quantization is None:
            yield fault_of(
                operator, f"it makes {_said(result)} of {_said(operand)}", "integers with a scale as its operand"
            )
        elif operator.kind != "dequantize" and result.quantization is None and operand.quantization is not None:
            yield fault_of(
                operator, f"it makes {_said(result)} of {_said(operand)}", "integers with a scale as its result"
            )
        elif operator.kind == "quantize" and result.quantization is None:
            yield fault_of(operator, f"its result is {_said(result)}", "integers with a scale")
        elif operator.kind == "dequantize" and (operand.quantization is None or result.quantization is not None):
            yield fault_of(operator, f"it makes {_said(result)} of {_said(operand)}", "floats of integers with a scale")


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

BIAS = 2
"""The operand that may also be floats."""

COMPUTING: Mapping[str, int | None] = {
    **dict.fromkeys((*WEIGHTED, "average_pool", "rescale", "softmax", "normalize", "interpolate", "pad"), 1),
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum", "product", "concat"), None),
}
"""Operators that compute with what integers mean → of how many operands, from the first on; None: of all."""


def _scales(graph: Graph) -> Iterator[RuleViolation]:
    for operator in canonical(graph):
        quantization = graph.tensors[operator.outputs[0]].quantization
        if quantization is None or operator.kind not in COMPUTING:
            continue
        for name in operator.inputs[: COMPUTING[operator.kind]]:
            tensor = graph.tensors[name]
            if tensor.quantization is None or tensor.quantization.axis is not None:
                yield fault_of(operator, f"its operand {name!r} is {_said(tensor)}", "integers of one scale")
        if len(set(quantization.zero_points)) > 1:
            yield fault_of(operator, f"its result has {len(set(quantization.zero_points))} zero points", "one")
        for position, name in enumerate(operator.inputs) if operator.kind in WEIGHTED else ():
            has_scales = position == BIAS or graph.tensors[name].quantization is not None
            if position > 0 and not (name in graph.constants and has_scales):
                yield fault_of(operator, f"it reads {name!r}", "weights with scales, and a bias, that are constants")


RULES: Sequence[Rule[Graph]] = (
    Rule("names", "Every tensor has a name; only what is optional for ONNX is left out.", _names),
    Rule("types", "A tensor's scales are positive, as many as its shape says; zero points are of its type.", _types),
    Rule("constants", "A constant has the type and shape that its tensor says.", _constants),
    Rule("order", "Each tensor is made once, before it is read; outputs are made.", _order),
    *ATTRIBUTE_RULES,
    Rule("shapes", "A result's shape follows from those of the operands and the attributes.", _shapes),
    TABLE_RULE,
    Rule("views", "Only `quantize` makes integers of floats; what only moves integers keeps their scale.", _views),
    Rule("scales", "What computes on integers reads one scale each; weights and a bias are constants.", _scales),
)
"""The rules of all graphs, in order; `importers.node_rules` has those of `onnx.…` operators."""
