"""Factors and constants around a product of two computed operands: factors become the product's, sums move up to it.

Example: the scores of an attention are divided by √D, before or after the product, and a mask is added to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, Operator
from tilewright.compiler.simplify.binary import BINARY
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

ALONG = ("dequantize", "quantize", "reshape", "transpose", "affine")
"""Operators that may be between a product and a factor that moves up to it."""

SAME_STEPS = 0.1
"""Two scales count as the same if they differ by less than this over all values of a type, in steps."""


def factor_into_product(operator: Operator, view: GraphView) -> Replacement | None:
    """affine(product(a, b)) → product(a, b) with another factor, where all channels have one and nothing is added."""
    factor, x = _only_factor(operator, view), operator.inputs[0]
    product = view.producer(x, "product")
    if factor is None or product is None or not view.is_read_once(x):
        return None
    nodes = product.nodes + operator.nodes
    return Replacement((replace(_times(product, factor), outputs=operator.outputs, nodes=nodes),))


def factor_before_quantization(operator: Operator, view: GraphView) -> Replacement | None:
    """affine(dequantize(quantize(x))) behind a product → dequantize(quantize(affine(x))), in steps times the factor.

    The integers stay, and each means the factor times as much. The same where the product is already one of integers.
    """
    factor, dequantize = _only_factor(operator, view), view.producer(operator.inputs[0], "dequantize")
    if factor is None or dequantize is None or not _is_only_step(dequantize, view):
        return None
    integers = dequantize.inputs[0]
    quantize = view.producer(integers, "quantize", "product")
    chain = _chain_before(integers, view, *ALONG)
    if quantize is None or view.producer(chain[-1].inputs[0] if chain else integers, "product") is None:
        return None
    before_type = view.type(integers)
    assert before_type.quantization is not None
    finer = view.fresh(f"{integers}.scaled")
    meaning = replace(before_type.quantization, scales=(before_type.quantization.scale * factor,))
    types = {finer: replace(before_type, quantization=meaning)}
    after = replace(dequantize, inputs=(finer,), outputs=operator.outputs, nodes=dequantize.nodes + operator.nodes)
    if quantize.kind == "product":
        return Replacement((replace(_times(quantize, factor), outputs=(finer,)), after), types)
    scaled = view.fresh(f"{quantize.inputs[0]}.scaled")
    types[scaled] = view.type(quantize.inputs[0])
    before = replace(operator, inputs=(quantize.inputs[0], *operator.inputs[1:]), outputs=(scaled,))
    return Replacement((before, replace(quantize, inputs=(scaled,), outputs=(finer,)), after), types)


def _is_only_step(dequantize: Operator, view: GraphView) -> bool:
    """Whether only one operator reads a tensor's real values, and none its integers."""
    return view.is_read_once(dequantize.inputs[0]) and view.is_read_once(dequantize.outputs[0])


def rescale_of_same_steps(operator: Operator, view: GraphView) -> Replacement | None:
    """rescale(product) to nearly the same scale changes no integer: the product's result has that scale."""
    source, result = operator.inputs[0], operator.outputs[0]
    product = view.producer(source, "product")
    before, after = view.type(source), view.type(result)
    if product is None or before.quantization is None or after.quantization is None or not view.is_read_once(source):
        return None
    ratio = after.quantization.scale / before.quantization.scale
    is_same = before.dtype == after.dtype and before.quantization.zero_point == after.quantization.zero_point
    if not is_same or abs(ratio - 1) * (after.limits[1] - after.limits[0]) > SAME_STEPS:
        return None
    limits = {end: min(max(product.attributes[end], operator.attributes["low"]), operator.attributes["high"])
              for end in ("low", "high")}  # fmt: skip
    made = _times(product, ratio)
    made = replace(made, outputs=(result,), attributes={**made.attributes, **limits})
    return Replacement((replace(made, nodes=product.nodes + operator.nodes),))


def factor_of_operand_into_product(operator: Operator, view: GraphView) -> Replacement | None:
    """product(affine(a), b) → product(a, b) with another factor. The same for b, and with moves after the affine."""
    for position, name in enumerate(operator.inputs):
        moves = _chain_before(name, view, "reshape", "transpose")
        affine = view.producer(moves[-1].inputs[0] if moves else name, "affine")
        factor = None if affine is None else _only_factor(affine, view)
        if affine is None or factor is None:
            continue
        source, types, operators = affine.inputs[0], {}, []
        for move in reversed(moves):
            moved = view.fresh(f"{move.outputs[0]}.unscaled")
            types[moved] = view.type(move.outputs[0])
            operators.append(replace(move, inputs=(source,), outputs=(moved,)))
            source = moved
        inputs = (*operator.inputs[:position], source, *operator.inputs[position + 1 :])
        made = replace(_times(operator, factor), inputs=inputs, nodes=affine.nodes + operator.nodes)
        return Replacement((*operators, made), types)
    return None


def factor_before_moves(operator: Operator, view: GraphView) -> Replacement | None:
    """affine(transpose(product)) → transpose(affine(product)), where all channels have one factor and offset.

    The same for reshapes, and where a quantisation lies between, affine(dequantize(quantize(transpose(product)))).
    """
    x, *constants = operator.inputs
    between = _chain_before(x, view, "dequantize", "quantize")
    move = view.producer(between[-1].inputs[0] if between else x, "reshape", "transpose")
    whole = _chain_before(x, view, *ALONG)
    known = [value for name in constants if (value := view.constant(name)) is not None]
    if move is None or len(known) < 2 or any(value.min() != value.max() for value in known):
        return None
    if view.producer(whole[-1].inputs[0], "product") is None:
        return None
    source, result = move.inputs[0], operator.outputs[0]
    shape = view.type(source).shape
    if len(shape) < 2:
        return None
    types, values = {}, {}
    operators = []
    for quantizer in reversed(between):
        unmoved = view.fresh(f"{quantizer.outputs[0]}.unmoved")
        types[unmoved] = replace(view.type(quantizer.outputs[0]), shape=shape)
        operators.append(replace(quantizer, inputs=(source,), outputs=(unmoved,)))
        source = unmoved
    scaled = view.fresh(f"{result}.unmoved")
    types[scaled] = replace(view.type(result), shape=shape)
    for name, value in zip(constants, known, strict=True):
        fresh = view.fresh(f"{name}.unmoved")
        values[fresh] = np.full(shape[CHANNEL], value.flat[0])
        types[fresh] = replace(view.type(name), shape=values[fresh].shape)
    operators.append(replace(operator, inputs=(source, *values), outputs=(scaled,)))
    operators.append(replace(move, inputs=(scaled,), outputs=(result,)))
    return Replacement(tuple(operators), types, values)


def _chain_before(name: str, view: GraphView, *kinds: str) -> list[Operator]:
    """The chain of operators of some kinds that makes a tensor, the last of them first."""
    chain = []
    while (operator := view.producer(name, *kinds)) is not None:
        chain.append(operator)
        name = operator.inputs[0]
    return chain


def _times(product: Operator, factor: float) -> Operator:
    return replace(product, attributes={**product.attributes, "factor": product.attributes["factor"] * factor})


def _only_factor(affine: Operator, view: GraphView) -> float | None:
    """The factor of an affine that has the same for all channels, positive, and adds nothing."""
    scale, offset = (view.constant(name) for name in affine.inputs[1:])
    if scale is None or offset is None or offset.any() or scale.min() != scale.max() or scale.flat[0] <= 0:
        return None
    return float(scale.flat[0])


# -- sums with constants -----------------------------------------------------------------------------------------------


def reshape_after_binary(operator: Operator, view: GraphView) -> Replacement | None:
    """add(reshape(product), constant) → reshape(add(product, constant)), such as a mask of an attention's scores.

    The same for all operators of two operands, and for whatever is computed from a product element by element.
    """
    reshapes = [view.producer(name, "reshape") for name in operator.inputs]
    found = next((position for position, producer in enumerate(reshapes) if producer is not None), None)
    if found is None:
        return None
    reshape, other, result = reshapes[found], operator.inputs[1 - found], operator.outputs[0]
    assert reshape is not None
    value, other_type = view.constant(other), view.type(other)
    source, shape = reshape.inputs[0], view.type(result).shape
    is_plain = other_type.quantization is None or other_type.quantization.axis is None
    if value is None or not is_plain or shape != view.type(reshape.outputs[0]).shape:
        return None
    if len(view.type(source).shape) > 4 or not _is_of_product(source, view):
        return None
    constant, middle = view.fresh(f"{other}.unshaped"), view.fresh(f"{result}.unshaped")
    whole = _without_repetition(np.broadcast_to(value, shape).reshape(view.type(source).shape))
    types = {
        constant: replace(other_type, shape=whole.shape),
        middle: replace(view.type(result), shape=view.type(source).shape),
    }
    inputs = (source, constant) if found == 0 else (constant, source)
    made = replace(operator, inputs=inputs, outputs=(middle,))
    after = replace(reshape, inputs=(middle,), outputs=(result,))
    return Replacement((made, after), types, {constant: whole})


def _is_of_product(name: str, view: GraphView) -> bool:
    """Whether a product, or a softmax of one, makes a tensor, or what is computed from its elements one by one."""
    chain = _chain_before(name, view, "rescale", "lookup", "quantize", "dequantize")
    return view.producer(chain[-1].inputs[0] if chain else name, "product", "softmax", *BINARY) is not None


def _without_repetition(values: NDArray[Any]) -> NDArray[Any]:
    """An array with one index for each dimension along which nothing changes."""
    for axis in range(values.ndim):
        first = values.take([0], axis)
        values = first if np.array_equal(np.broadcast_to(first, values.shape), values) else values
    return np.ascontiguousarray(values)


PRODUCT_FACTOR_RULES = {
    "product": (factor_of_operand_into_product,),
    "affine": (factor_into_product, factor_before_moves, factor_before_quantization),
    "rescale": (rescale_of_same_steps,),
    **dict.fromkeys(BINARY, (reshape_after_binary,)),
}
