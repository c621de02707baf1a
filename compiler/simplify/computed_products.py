"""MatMul and Gemm of two computed operands: `product`, with the moves of elements around it that its layout needs.

MatMul of [N, M, K] and [N, K, L] is y[n, m, l] = Σ a[n, m, k] · b[n, k, l]. On the machine the summed dimension of the
first operand lies along the channels, so a is turned to [N, K, 1, M], b to [N, L, 1, K], and the result [N, L, 1, M]
back. Most of these transpositions undo those of the model; what is left of them becomes `permute` at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import BATCH, Operator, TensorType, fresh_name
from tilewright.compiler.simplify.attributes import attributes_of, constant_weights, stored_weights
from tilewright.compiler.simplify.moves import taken_attributes
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.compiler.simplify.transposes import turned


def computed_matmul(operator: Operator, view: GraphView) -> Replacement | None:
    """MatMul of two computed operands of two to four dimensions; a batch dimension of 1 is broadcast."""
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
    return _ProductChain(operator, view).matmul(1.0)


def computed_gemm(operator: Operator, view: GraphView) -> Replacement | None:
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
    return _ProductChain(operator, view).matmul(alpha, *map(bool, turned))


def constant_times_computed(operator: Operator, view: GraphView) -> Replacement | None:
    """MatMul of a constant matrix with a computed operand: W · x = (xᵀ · Wᵀ)ᵀ, which has its weights on the right."""
    w, x = operator.inputs
    weights, shape = constant_weights(w, view), view.type(x).shape
    if weights is None or constant_weights(x, view) is not None or not 2 <= len(shape) <= 4:
        return None
    rank, is_batched = weights.values.ndim, weights.values.ndim == len(shape) == 3
    if rank != 2 and not (is_batched and weights.values.shape[0] == shape[0]):
        return None
    matrix, change = stored_weights(turned(weights, last_two_exchanged(rank)), f"{operator.name}.matrix", view)
    made = _ProductChain(operator, view)
    columns = made.transpose(x, last_two_exchanged(len(shape)), "turned")
    result = view.type(operator.outputs[0]).shape
    product = made.add("product", "onnx.MatMul", (columns, matrix), (*result[:-2], result[-1], result[-2]))
    return joined(change, made.finished(product, last_two_exchanged(len(result))))


def last_two_exchanged(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


class _ProductChain:
    """Collects what takes the place of one matrix product."""

    def __init__(self, operator: Operator, view: GraphView) -> None:
        self._operator = operator
        self._view = view
        self._operators: list[Operator] = []
        self._types: dict[str, TensorType] = {}

    def matmul(self, factor: float, is_a_turned: bool = False, is_b_turned: bool = False) -> Replacement:
        """The product on [N, K, 1, M] and [N, L, 1, K], and the moves around it."""
        a, b = self._operator.inputs[:2]
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
        """Where one matrix serves the whole batch, the rows of all matrices of the batch make one product."""
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
        """The operand's matrices, repeated where its batch dimensions of 1 are broadcast."""
        own = (1,) * (len(batch) - len(own)) + tuple(own)
        if own == tuple(batch):
            return name
        indices = np.broadcast_to(np.arange(prod(own)).reshape(own), tuple(batch)).ravel()
        shape = (prod(batch), *self._shape(name)[1:])
        return self.add("repeat", "take", (name,), shape, **taken_attributes({BATCH: tuple(map(int, indices))}))

    def transpose(self, name: str, axes: tuple[int, ...], suffix: str) -> str:
        shape = tuple(self._shape(name)[axis] for axis in axes)
        return self.add(suffix, "transpose", (name,), shape, axes=axes)

    def _reshape(self, name: str, shape: tuple[int, ...]) -> str:
        return self.add("reshape", "reshape", (name,), shape)

    def finished(self, name: str, axes: tuple[int, ...]) -> Replacement:
        """All operators, the last of which transposes a tensor to the operator's result."""
        last = Operator(
            f"{self._operator.name}.back", "transpose", (name,), self._operator.outputs, {"axes": axes},
            self._operator.nodes,
        )  # fmt: skip
        return Replacement((*self._operators, last), self._types)

    def add(self, suffix: str, kind: str, inputs: tuple[str, ...], shape: Sequence[int], **attributes: object) -> str:
        name = fresh_name(self._view.fresh(f"{self._operator.name}.{suffix}"), self._types)
        result_type = self._view.type(self._operator.outputs[0])
        self._types[name] = replace(result_type, shape=tuple(shape))
        title = self._operator.name if suffix == "product" else f"{self._operator.name}.{suffix}"
        self._operators.append(Operator(title, kind, inputs, (name,), attributes, self._operator.nodes))
        return name

    def _shape(self, name: str) -> tuple[int, ...]:
        return (self._types.get(name) or self._view.type(name)).shape
