"""Activations with a scale for each block along the sum of a product: the product takes these scales into its weights'.

    q[k] = round(x[k] / s[b])                            of block b = k // block
    y[n] = sum(q[k] * s[b] * w[k, n] * t[b, n])          t are the scales of the weights

becomes, with one scale S, the greatest of all s:

    q[k] = round(x[k] * (S / s[b]) / S)                  the same integers
    y[n] = sum(q[k] * S * w[k, n] * (t[b, n] * s[b] / S))

So the activations have one scale, and only the weights have blocks (`compiler.lower.block_products`). The factors
S / s[b] of x are one for each channel, and become part of the operator before.

Example, two blocks with the scales 0.5 and 0.25: x of the second block is doubled, and rounded to steps of 0.5; its
weights' scales are halved.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, Quantization, TensorType, spread_scales
from tilewright.compiler.simplify.attributes import ConstantTensor, constant_weights, stored_weights
from tilewright.compiler.simplify.quantizers import quantization_of
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined

QUANTIZERS = ("onnx.QuantizeLinear", "quantize")
"""As the model has it, and of an input of the model as it is once read."""


def product_of_activation_blocks(operator: Operator, view: GraphView) -> Replacement | None:
    """MatMul or Gemm of activations in blocks and constant weights → of activations with one scale.

    None where the rows have different scales, where the blocks are not along the sum, or where the weights have blocks
    of a size that does not go with these.
    """
    reader = view.producer(operator.inputs[0], "onnx.DequantizeLinear")
    maker = view.producer(reader.inputs[0], *QUANTIZERS) if reader is not None else None
    weights = constant_weights(operator.inputs[1], view)
    if reader is None or maker is None or weights is None or operator.attributes.get("transA", 0):
        return None
    meant, made = quantization_of(reader, view), _made(maker, view)
    scales = _of_channels(meant, view.type(operator.inputs[0]).shape) if meant == made else None
    if scales is None or weights.values.ndim != 2:
        return None
    greatest = float(scales.max())
    along = 1 if operator.attributes.get("transB", 0) else 0
    scaled = _with_factors(weights, scales / greatest, meant.block, along)
    if scaled is None:
        return None
    name, change = stored_weights(scaled, f"{operator.name}.weight", view)
    x, before = _with_one_scale(
        reader, maker, greatest / scales, Quantization((greatest,), meant.zero_points[:1]), view
    )
    product = replace(operator, inputs=(x, name, *operator.inputs[2:]))
    return joined(joined(before, change), Replacement((product,)))


def _made(maker: Operator, view: GraphView) -> Quantization | None:
    """What the quantiser of the activations gives them."""
    return view.type(maker.outputs[0]).quantization if maker.kind == "quantize" else quantization_of(maker, view)


def _of_channels(quantization: Quantization, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """[K]: the scale of each index of the last dimension; None where rows differ, or where it has no blocks."""
    if not quantization.block or quantization.axis != len(shape) - 1 or len(set(quantization.zero_points)) > 1:
        return None
    rows = np.broadcast_to(spread_scales(quantization, shape)[0], shape).reshape(-1, shape[-1])
    return rows[0] if (rows == rows[0]).all() else None


def _with_factors(
    weights: ConstantTensor, factors: NDArray[np.float64], block: int, along: int
) -> ConstantTensor | None:
    """Weights times a factor [K] for each index of a dimension, the same for so many: each block's scale takes it."""
    known, shape = weights.quantization, weights.values.shape
    if known is None or (known.axis == along and not known.block) or (known.block and known.axis != along):
        return None
    sizes = sorted((block, known.block or block))
    if sizes[1] % sizes[0]:
        return None
    starts = np.arange(0, shape[along], sizes[0])
    scales, zeros = (
        np.broadcast_to(each, shape).take(starts, along) for each in spread_scales(known, shape)
    )  # of each block, and of each index of the other dimension
    column = factors[starts] if along else factors[starts, None]
    merged = Quantization(
        tuple((scales * column).ravel().tolist()), tuple(zeros.astype(np.int64).ravel().tolist()), along, sizes[0]
    )
    return ConstantTensor(weights.values, merged)


def _with_one_scale(
    reader: Operator, maker: Operator, factors: NDArray[np.float64], quantization: Quantization, view: GraphView
) -> tuple[str, Replacement]:
    """The activations times a factor for each channel, quantised with one scale: their name, and what makes them.

    Where a Relu makes them, the factors come before it, beside the product that they become part of.
    """
    source, integers, real = maker.inputs[0], reader.inputs[0], reader.outputs[0]
    relu = view.producer(source, "clamp")
    if relu is not None and (relu.attributes["low"], relu.attributes["high"]) != (0.0, math.inf):
        relu = None
    factor, scaled, codes, result = (view.fresh(f"{name}.one_scale") for name in (maker.name, source, integers, real))
    integer_type = replace(view.type(integers), quantization=quantization)
    types = {
        factor: TensorType("float32", factors.shape),
        scaled: view.type(source),
        codes: integer_type,
        result: view.type(real),
    }
    first = source if relu is None else relu.inputs[0]
    operators = [Operator(f"{maker.name}.factors", "onnx.Mul", (first, factor), (scaled,), {}, maker.nodes)]
    if relu is not None:
        limited = view.fresh(f"{scaled}.limited")
        types[limited] = view.type(source)
        operators.append(replace(relu, inputs=(scaled,), outputs=(limited,)))
        scaled = limited
    low, high = integer_type.limits
    operators += [
        Operator(maker.name, "quantize", (scaled,), (codes,), {"low": low, "high": high}, maker.nodes),
        Operator(reader.name, "dequantize", (codes,), (result,), {}, reader.nodes),
    ]
    return result, Replacement(tuple(operators), types, {factor: factors.astype(np.float32)})
