"""ConvInteger and MatMulInteger: products of integers less their zero points, whose sums stay integers of 32 bits.

Each becomes a product of reals between DequantizeLinear and a quantisation to int32. Its scale is that of the operand,
so the integers are the sums themselves, and nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator, Quantization, TensorType
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.isa.program.stored_types import COMPUTED, COMPUTED_NAMES

INTEGER_PRODUCTS: Mapping[str, tuple[str, int]] = {
    "onnx.ConvInteger": ("onnx.Conv", 0),
    "onnx.MatMulInteger": ("onnx.MatMul", 1),
}
"""Operator → the product of reals, and the dimension of the weights along which each may have a zero point."""


QUANTIZED_IN_EACH_RUN = "onnx.DynamicQuantizeLinear"

QUANTIZE_ONCE = (
    "Quantise it once, with samples of the model's inputs: tilewright quantize MODEL --calibration samples.npz "
    "--output net.onnx. MODEL is the float model, or this one if nothing in it is quantised otherwise"
)
"""What to do with a network that quantises its activations in each run."""


def integer_product(operator: Operator, view: GraphView) -> Replacement | None:
    """XInteger(x, w, x's zero point, w's) → quantize(X(dequantize(x), dequantize(w))), for constant weights."""
    kind, axis = INTEGER_PRODUCTS[operator.kind]
    x, w, *zeros = (*operator.inputs, "", "")
    weights, output = view.constant(w), operator.outputs[0]
    if weights is None or view.constant(x) is not None:
        return None
    x_type = view.type(x)
    if x_type.dtype not in COMPUTED or weights.dtype.name not in COMPUTED:
        raise CompileError(operator, f"multiplies {x_type.dtype} by {weights.dtype}", expected=COMPUTED_NAMES)
    x_zeros = _zero_points(operator, zeros[0], "input", view)
    w_zeros = _zero_points(operator, zeros[1], "weights", view)
    if len(x_zeros) > 1:
        raise CompileError(operator, f"{len(x_zeros)} zero points for its input", expected="one")
    if len(w_zeros) > 1 and (view.type(w).shape[axis] != len(w_zeros) or weights.ndim < 2):
        raise CompileError(
            operator,
            f"{len(w_zeros)} zero points do not fit dimension {axis} of its weights, which are {list(weights.shape)}",
        )
    meaning = _meaning_of_input(operator, x_type, x_zeros[0], view)
    if meaning is None:
        return None
    w_meaning = Quantization((1.0,) * len(w_zeros), w_zeros, axis if len(w_zeros) > 1 else None)
    integers = view.fresh(f"{operator.name}.weight")
    names = [view.fresh(f"{operator.name}.{suffix}") for suffix in ("input.real", "weight.real", "real")]
    types = {
        x: replace(x_type, quantization=meaning),
        integers: TensorType(weights.dtype.name, weights.shape, w_meaning),
        output: replace(view.type(output), quantization=Quantization((meaning.scale,), (0,))),
        **{
            name: TensorType("float32", shape)
            for name, shape in zip(names, (x_type.shape, weights.shape, view.type(output).shape), strict=True)
        },
    }
    low, high = types[output].limits
    operators = (
        Operator(f"{operator.name}.input", "dequantize", (x,), (names[0],)),
        Operator(f"{operator.name}.weight", "dequantize", (integers,), (names[1],)),
        replace(operator, kind=kind, inputs=(names[0], names[1]), outputs=(names[2],)),
        Operator(f"{operator.name}.sum", "quantize", (names[2],), (output,), {"low": low, "high": high}),
    )
    return Replacement(operators, types, {integers: weights})


def _zero_points(operator: Operator, name: str, what: str, view: GraphView) -> tuple[int, ...]:
    """The zero points of an operand: one if all are the same; 0 where they are left out."""
    if not name:
        return (0,)
    values = view.constant(name)
    if values is None and view.producer(name, QUANTIZED_IN_EACH_RUN) is not None:
        raise CompileError(operator, f"its {what} is quantised in each run", remedy=QUANTIZE_ONCE)
    if values is None:
        raise CompileError(operator, f"the zero point of its {what} is computed", expected="a constant")
    distinct = np.unique(values)
    if len(distinct) == 1:
        return (int(distinct[0]),)
    if values.ndim != 1:
        raise CompileError(
            operator, f"the zero points of its {what} are {list(values.shape)}", expected="one, or one for each output"
        )
    return tuple(int(value) for value in values)


def _meaning_of_input(operator: Operator, tensor_type: TensorType, zero: int, view: GraphView) -> Quantization | None:
    """What the input's integers mean: what their producer says, or themselves; None where that is not known yet."""
    x = operator.inputs[0]
    if tensor_type.quantization is None:
        return Quantization((1.0,), (zero,)) if x in view.inputs else None
    if tensor_type.quantization.axis is not None or tensor_type.quantization.zero_point != zero:
        made = list(tensor_type.quantization.zero_points)
        raise CompileError(
            operator, f"the zero point of its input is {zero}, {x!r} is made with {made}", expected="the same"
        )
    return tensor_type.quantization
