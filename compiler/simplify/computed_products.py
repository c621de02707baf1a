"""MatMul and Gemm of two computed operands: `product`, with the moves of elements around it that its layout needs.

MatMul of [N, M, K] and [N, K, L] is y[n, m, l] = Σ a[n, m, k] · b[n, k, l]. On the machine the summed dimension of the
first operand lies along the channels, so a is turned to [N, K, 1, M], b to [N, L, 1, K], and the result [N, L, 1, M]
back. The transpositions meet those of the model and go; what stays is made a `permute` at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.binary import BINARY
from tilewright.compiler.simplify.moves import taken_attributes
from tilewright.compiler.simplify.rewrite import Replacement, View, joined
from tilewright.compiler.simplify.transposes import turned
from tilewright.compiler.simplify.weights import constant_weights, stored_weights

ALONG = ("dequantize", "quantize", "reshape", "transpose", "affine")
"""What may lie between a product and a factor that moves up to it."""

SAME_STEPS = 0.1
"""Where two scales differ by less than this part of a step over all of a type's values, they round to the same."""


def computed_matmul(operator: Operator, view: View) -> Replacement | None:
    """MatMul whose operands both are computed, of two to four dimensions; a dimension of 1 goes with any."""
    a, b = operator.inputs
    if any(constant_weights(name, view) is not None for name in (a, b)):
        return None
    shapes = view.type(a).shape, view.type(b).shape
    if not all(2 <= len(shape) <= 4 for shape in shapes):
        raise CompileError(
            operator,
            f"multiplies {list(shapes[0])} by {list(shapes[1])}",
            expected="matrices of two to four dimensions",
        )
    with attributes_of(operator):
        pass
    return _Moves(operator, view).matmul(1.0)


def computed_gemm(operator: Operator, view: View) -> Replacement | None:
    """Gemm whose first two operands are computed, without a bias."""
    a, b, *bias = operator.inputs
    if any(constant_weights(name, view) is not None for name in (a, b)):
        return None
    with attributes_of(operator) as attributes:
        alpha, beta = attributes.number("alpha", 1.0), attributes.number("beta", 1.0)
        turned = [attributes.integer(name, 0) for name in ("transA", "transB")]
    if any(bias) and beta != 0:
        raise CompileError(
            operator,
            "a product of two computed operands with a bias",
            expected="an Add after it, with QuantizeLinear and DequantizeLinear between",
        )
    if alpha <= 0:
        raise CompileError(operator, f"alpha = {alpha}", expected="a positive number")
    return _Moves(operator, view).matmul(alpha, *map(bool, turned))


def constant_times_computed(operator: Operator, view: View) -> Replacement | None:
    """MatMul of a constant matrix with a computed operand: W · x = (xᵀ · Wᵀ)ᵀ, which has its weights on the right."""
    w, x = operator.inputs
    weights, shape = constant_weights(w, view), view.type(x).shape
    if weights is None or constant_weights(x, view) is not None or not 2 <= len(shape) <= 4:
        return None
    rank, is_batched = weights.values.ndim, weights.values.ndim == len(shape) == 3
    if rank != 2 and not (is_batched and weights.values.shape[0] == shape[0]):
        return None
    matrix, change = stored_weights(turned(weights, last_two_exchanged(rank)), f"{operator.name}.matrix", view)
    made = _Moves(operator, view)
    columns = made.transpose(x, last_two_exchanged(len(shape)), "turned")
    result = view.type(operator.outputs[0]).shape
    product = made.add("product", "onnx.MatMul", (columns, matrix), (*result[:-2], result[-1], result[-2]))
    return joined(change, made.finished(product, last_two_exchanged(len(result))))


# -- factors -----------------------------------------------------------------------------------------------------------


def factor_into_product(operator: Operator, view: View) -> Replacement | None:
    """affine(product(a, b)) → product(a, b) with another factor, where all channels have one and nothing is added."""
    factor, x = _only_factor(operator, view), operator.inputs[0]
    product = view.producer(x, "product")
    if factor is None or product is None or not view.is_read_once(x):
        return None
    nodes = product.nodes + operator.nodes
    return Replacement((replace(_times(product, factor), outputs=operator.outputs, nodes=nodes),))


def factor_before_quantization(operator: Operator, view: View) -> Replacement | None:
    """affine(dequantize(quantize(x))) behind a product → dequantize(quantize(affine(x))), in steps times the factor.

    The integers are the same; they mean the factor times as much. So where the product is one of integers already.
    """
    factor, dequantize = _only_factor(operator, view), view.producer(operator.inputs[0], "dequantize")
    if factor is None or dequantize is None or not _is_only_step(dequantize, view):
        return None
    integers = dequantize.inputs[0]
    quantize = view.producer(integers, "quantize", "product")
    chain = _chain_before(integers, view, *ALONG)
    if quantize is None or view.producer(chain[-1].inputs[0] if chain else integers, "product") is None:
        return None
    of = view.type(integers)
    assert of.quantization is not None
    finer = view.fresh(f"{integers}.scaled")
    types = {finer: replace(of, quantization=replace(of.quantization, scales=(of.quantization.scale * factor,)))}
    after = replace(dequantize, inputs=(finer,), outputs=operator.outputs, nodes=dequantize.nodes + operator.nodes)
    if quantize.kind == "product":
        return Replacement((replace(_times(quantize, factor), outputs=(finer,)), after), types)
    scaled = view.fresh(f"{quantize.inputs[0]}.scaled")
    types[scaled] = view.type(quantize.inputs[0])
    before = replace(operator, inputs=(quantize.inputs[0], *operator.inputs[1:]), outputs=(scaled,))
    return Replacement((before, replace(quantize, inputs=(scaled,), outputs=(finer,)), after), types)


def _is_only_step(dequantize: Operator, view: View) -> bool:
    """Whether only one operator reads a tensor's real values, and nobody its integers beside."""
    return view.is_read_once(dequantize.inputs[0]) and view.is_read_once(dequantize.outputs[0])


def rescale_of_same_steps(operator: Operator, view: View) -> Replacement | None:
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


def factor_of_operand_into_product(operator: Operator, view: View) -> Replacement | None:
    """product(affine(a), b) → product(a, b) with another factor; also where a is moved after it, and the same for b."""
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


def factor_before_moves(operator: Operator, view: View) -> Replacement | None:
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
        values[fresh] = np.full(shape[1], value.flat[0])
        types[fresh] = replace(view.type(name), shape=values[fresh].shape)
    operators.append(replace(operator, inputs=(source, *values), outputs=(scaled,)))
    operators.append(replace(move, inputs=(scaled,), outputs=(result,)))
    return Replacement(tuple(operators), types, values)


def _chain_before(name: str, view: View, *kinds: str) -> list[Operator]:
    """The operators of some kinds that one after the other make a tensor, the last of them first."""
    chain = []
    while (operator := view.producer(name, *kinds)) is not None:
        chain.append(operator)
        name = operator.inputs[0]
    return chain


def _times(product: Operator, factor: float) -> Operator:
    return replace(product, attributes={**product.attributes, "factor": product.attributes["factor"] * factor})


def _only_factor(affine: Operator, view: View) -> float | None:
    """The factor of an affine that has the same for all channels, positive, and adds nothing."""
    scale, offset = (view.constant(name) for name in affine.inputs[1:])
    if scale is None or offset is None or offset.any() or scale.min() != scale.max() or scale.flat[0] <= 0:
        return None
    return float(scale.flat[0])


# -- sums with constants -----------------------------------------------------------------------------------------------


def reshape_after_binary(operator: Operator, view: View) -> Replacement | None:
    """add(reshape(product), constant) → reshape(add(product, constant)), such as a mask of an attention's scores.

    The same for all operators of two operands, and what is computed from a product element by element.
    """
    reshapes = [view.producer(name, "reshape") for name in operator.inputs]
    found = next((position for position, of in enumerate(reshapes) if of is not None), None)
    if found is None:
        return None
    reshape, other, result = reshapes[found], operator.inputs[1 - found], operator.outputs[0]
    assert reshape is not None
    value, of = view.constant(other), view.type(other)
    source, shape = reshape.inputs[0], view.type(result).shape
    is_plain = of.quantization is None or of.quantization.axis is None
    if value is None or not is_plain or shape != view.type(reshape.outputs[0]).shape:
        return None
    if len(view.type(source).shape) > 4 or not _is_of_product(source, view):
        return None
    constant, middle = view.fresh(f"{other}.unshaped"), view.fresh(f"{result}.unshaped")
    whole = _without_repetition(np.broadcast_to(value, shape).reshape(view.type(source).shape))
    types = {
        constant: replace(of, shape=whole.shape), middle: replace(view.type(result), shape=view.type(source).shape)
    }  # fmt: skip
    inputs = (source, constant) if found == 0 else (constant, source)
    made = replace(operator, inputs=inputs, outputs=(middle,))
    after = replace(reshape, inputs=(middle,), outputs=(result,))
    return Replacement((made, after), types, {constant: whole})


def _is_of_product(name: str, view: View) -> bool:
    """Whether a product, or a softmax of one, makes a tensor, or what is computed from its elements one by one."""
    chain = _chain_before(name, view, "rescale", "lookup", "quantize", "dequantize")
    return view.producer(chain[-1].inputs[0] if chain else name, "product", "softmax", *BINARY) is not None


def _without_repetition(values: NDArray[Any]) -> NDArray[Any]:
    """An array with one index for each dimension along which nothing changes."""
    for axis in range(values.ndim):
        first = values.take([0], axis)
        values = first if np.array_equal(np.broadcast_to(first, values.shape), values) else values
    return np.ascontiguousarray(values)


def last_two_exchanged(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


class _Moves:
    """Collects what takes the place of one matrix product."""

    def __init__(self, operator: Operator, view: View) -> None:
        self._operator = operator
        self._view = view
        self._operators: list[Operator] = []
        self._types: dict[str, TensorType] = {}

    def matmul(self, factor: float, is_a_turned: bool = False, is_b_turned: bool = False) -> Replacement:
        """The product on [N, K, 1, M] and [N, L, 1, K], and the moves around it."""
        a, b = self._operator.inputs
        a_shape, b_shape = self._shape(a), self._shape(b)
        rank = len(self._shape(self._operator.outputs[0]))
        *batch, m, n = self._shape(self._operator.outputs[0])
        k = a_shape[-2 if is_a_turned else -1]
        a = a if is_a_turned else self.transpose(a, last_two_exchanged(len(a_shape)), "turned")
        b = self.transpose(b, last_two_exchanged(len(b_shape)), "matrix") if not is_b_turned else b
        if prod(b_shape[:-2]) == 1 and prod(batch) > 1:
            return self._rows_of_all(a, b, (prod(batch), k, m, n), factor)
        a = self._repeated(self._reshape(a, (prod(a_shape[:-2]), k, 1, m)), a_shape[:-2], batch)
        b = self._repeated(self._reshape(b, (prod(b_shape[:-2]), n, 1, k)), b_shape[:-2], batch)
        attributes = {"is_transposed": False, "factor": factor}
        product = self.add("product", "product", (a, b), (prod(batch), n, 1, m), **attributes)
        parted = self._reshape(product, (*batch, n, m))
        return self.finished(parted, last_two_exchanged(rank))

    def _rows_of_all(self, a: str, b: str, sizes: tuple[int, int, int, int], factor: float) -> Replacement:
        """Where all of the batch meets one matrix, its rows are those of one product."""
        batches, k, m, n = sizes
        shape = self._shape(self._operator.outputs[0])
        parted = self._reshape(a, (batches, k, m))
        rows = self._reshape(self.transpose(parted, (1, 0, 2), "rows"), (1, k, 1, batches * m))
        attributes = {"is_transposed": False, "factor": factor}
        product = self.add("product", "product", (rows, self._reshape(b, (1, n, 1, k))), (1, n, 1, batches * m),
                           **attributes)  # fmt: skip
        rank = len(shape)
        split = self._reshape(product, (n, *shape[:-1]))
        return self.finished(split, (*range(1, rank), 0))

    def _repeated(self, name: str, own: Sequence[int], batch: Sequence[int]) -> str:
        """The operand's matrices again and again, as its batch dimensions of 1 go with those of the result."""
        own = (1,) * (len(batch) - len(own)) + tuple(own)
        if own == tuple(batch):
            return name
        indices = np.broadcast_to(np.arange(prod(own)).reshape(own), tuple(batch)).ravel()
        shape = (prod(batch), *self._shape(name)[1:])
        return self.add("repeat", "take", (name,), shape, **taken_attributes({0: tuple(map(int, indices))}))

    def transpose(self, name: str, axes: tuple[int, ...], part: str) -> str:
        shape = tuple(self._shape(name)[axis] for axis in axes)
        return self.add(part, "transpose", (name,), shape, axes=axes)

    def _reshape(self, name: str, shape: tuple[int, ...]) -> str:
        return self.add("reshape", "reshape", (name,), shape)

    def finished(self, name: str, axes: tuple[int, ...]) -> Replacement:
        """The whole, which ends with a transposition to the operator's result."""
        last = Operator(
            f"{self._operator.name}.back", "transpose", (name,), self._operator.outputs, {"axes": axes},
            self._operator.nodes,
        )  # fmt: skip
        return Replacement((*self._operators, last), self._types)

    def add(self, part: str, kind: str, inputs: tuple[str, ...], shape: Sequence[int], **attributes: object) -> str:
        name = self._view.fresh(f"{self._operator.name}.{part}")
        while name in self._types:
            name += "'"
        of = self._view.type(self._operator.outputs[0])
        self._types[name] = replace(of, shape=tuple(shape))
        title = self._operator.name if part == "product" else f"{self._operator.name}.{part}"
        self._operators.append(Operator(title, kind, inputs, (name,), attributes, self._operator.nodes))
        return name

    def _shape(self, name: str) -> tuple[int, ...]:
        return (self._types.get(name) or self._view.type(name)).shape


COMPUTED_PRODUCTS = {
    "product": (factor_of_operand_into_product,),
    "affine": (factor_into_product, factor_before_moves, factor_before_quantization),
    "rescale": (rescale_of_same_steps,),
    **dict.fromkeys(BINARY, (reshape_after_binary,)),
}
