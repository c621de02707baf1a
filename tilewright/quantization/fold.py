"""Folds what is better folded before quantising: constants, and normalisation and biases into the product before them.

onnxscript does most of it: its optimiser folds constants and BatchNormalization, and drops Identity and Dropout. The
rules here are those that it lacks: constants that are added after a product become the product's bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import IdentityEliminationPass, RemoveUnusedNodesPass
from onnxscript.optimizer import optimize_ir
from onnxscript.rewriter import MatchResult, RewritePass, RewriteRuleClassBase, RewriteRuleSet

from tilewright.compiler.errors import CompileError, first_line
from tilewright.compiler.simplify.full_rows import NEGLIGIBLE
from tilewright.compiler.simplify.rewrite import fresh_name
from tilewright.quantization.silent import silent

ANY_SIZE = 1 << 40
"""Constants are folded whatever their size: weights are large."""


def fold(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The same function with fewer nodes, which keep the names of those that they come from. Raises CompileError."""
    try:
        folded = ir.from_proto(model)
        RewritePass(RewriteRuleSet([DenseBias.rule(), ConvBias.rule()], commute=True))(folded)
        with silent("onnxscript"):  # it says of which constants it keeps the node
            optimize_ir(folded, input_size_limit=ANY_SIZE, output_size_limit=ANY_SIZE, should_fold=_is_folded)
        RewritePass(RewriteRuleSet([SettledChoice.rule(), NeedlessGuard.rule()]))(folded)
        RewritePass(RewriteRuleSet([BiasAndMask.rule()], commute=True))(folded)
        _drop_empty_pieces(folded.graph)
        IdentityEliminationPass()(folded)
        RemoveUnusedNodesPass()(folded)
        result: onnx.ModelProto = ir.to_proto(folded)
    except Exception as error:  # whatever its rules raise
        raise CompileError(name, f"cannot be prepared for quantising: {first_line(error)}") from error
    _restore_names(result, model)
    _own_results(result.graph, {value.name for value in result.graph.input})
    return result


class DenseBias(RewriteRuleClassBase):
    """Add(MatMul(x, w), b) → Gemm(x, w, b), for constant w [K, N] and b that is one number for each column."""

    def pattern(self, op: Any, x: Any, w: Any, b: Any) -> Any:
        return op.Add(op.MatMul(x, w, _outputs=["product"]), b)

    def check(self, context: Any, x: ir.Value, w: ir.Value, b: ir.Value, product: ir.Value) -> MatchResult:
        result = MatchResult()
        weights = _constant(w)
        if weights is None or weights.ndim != 2 or x.shape is None or len(x.shape) != 2:
            return result.fail("no product of two matrices, the right one constant")
        if _per_channel(b, rank=2, count=weights.shape[1]) is None:
            return result.fail("no constant for each column")
        return result

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, b: ir.Value, product: ir.Value) -> Any:
        weights = _constant(w)
        assert weights is not None
        bias = _per_channel(b, rank=2, count=weights.shape[1])
        assert bias is not None
        return op.Gemm(x, w, op.initializer(ir.tensor(bias), name=f"{product.name}/bias"))


class ConvBias(RewriteRuleClassBase):
    """Add(Conv(x, w), c) → Conv(x, w, c), for constant w and c that is one number for each channel."""

    def pattern(self, op: Any, x: Any, w: Any, c: Any) -> Any:
        product = op.Conv(x, w, _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["product"])
        return op.Add(product, c)

    def check(self, context: Any, x: ir.Value, w: ir.Value, c: ir.Value, product: ir.Value) -> MatchResult:
        result = MatchResult()
        weights = _constant(w)
        if weights is None or _per_channel(c, weights.ndim, weights.shape[0]) is None:
            return result.fail("no constant for each channel")
        bias = _bias(product)
        if bias is not None and _constant(bias) is None:
            return result.fail("its bias is computed")
        return result

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, c: ir.Value, product: ir.Value) -> Any:
        weights, node, bias = _constant(w), product.producer(), _bias(product)
        assert weights is not None and node is not None
        total = _per_channel(c, weights.ndim, weights.shape[0])
        before = None if bias is None else _constant(bias)
        assert total is not None
        if before is not None:
            total = total + before
        return op.Conv(x, w, op.initializer(ir.tensor(total), name=f"{product.name}/bias"), **node.attributes)


class SettledChoice(RewriteRuleClassBase):
    """Where(c, a, b) → a or b, for a constant c that is everywhere the same."""

    def pattern(self, op: Any, c: Any, a: Any, b: Any) -> Any:
        return op.Where(c, a, b, _outputs=["result"])

    def check(self, context: Any, c: ir.Value, a: ir.Value, b: ir.Value, result: ir.Value) -> MatchResult:
        found, condition = MatchResult(), _constant(c)
        if condition is None or not condition.size or condition.min() != condition.max():
            return found.fail("no constant condition that is everywhere the same")
        chosen = a if condition.all() else b
        if chosen.shape is None or result.shape is None or chosen.shape != result.shape:
            return found.fail("what it chooses is repeated")
        return found

    def rewrite(self, op: Any, c: ir.Value, a: ir.Value, b: ir.Value, result: ir.Value) -> Any:
        condition = _constant(c)
        assert condition is not None
        return op.Identity(a if condition.all() else b)


class BiasAndMask(RewriteRuleClassBase):
    """Softmax(x + c) → Softmax((x + b) + m), where c holds a bias and a mask: eight bits do not hold both.

    The bias may be that of ALiBi: Press et al., 2022 (arXiv:2108.12409).
    """

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        return op.Softmax(op.Add(x, c, _outputs=["total"]), _allow_other_attributes=True, _outputs=["result"])

    def check(self, context: Any, x: Any, c: ir.Value, total: Any, result: Any) -> MatchResult:
        found, values = MatchResult(), _constant(c)
        if values is None or values.dtype != np.float32:
            return found.fail("no constant")
        is_masked = values <= NEGLIGIBLE
        if not is_masked.any() or not np.where(is_masked, 0, values).any():
            return found.fail("a mask alone, or none")
        return found

    def rewrite(self, op: Any, x: ir.Value, c: ir.Value, total: ir.Value, result: ir.Value) -> Any:
        values, add, softmax = _constant(c), total.producer(), result.producer()
        assert values is not None and add is not None and softmax is not None
        is_masked = values <= NEGLIGIBLE
        for part, each in (("bias", np.where(is_masked, 0, values)), ("mask", np.where(is_masked, values, 0))):
            constant = op.initializer(ir.tensor(each.astype(np.float32)), name=f"{total.name}/{part}")
            x = op.Add(x, constant)
            made = x.producer()
            assert made is not None
            made.name = f"{add.name}/{part}"
        return op.Softmax(x, **softmax.attributes)


class NeedlessGuard(RewriteRuleClassBase):
    """Where(max(s) = -∞, 0, y) → y: Attention's care for rows that are all masked.

    What is quantised is never -∞, and a machine's softmax gives 0 where a mask leaves nothing.
    """

    def pattern(self, op: Any, s: Any, axes: Any, least: Any, zero: Any, y: Any) -> Any:
        return op.Where(op.Equal(op.ReduceMax(s, axes, _allow_other_attributes=True), least), zero, y)

    def check(self, context: Any, s: Any, axes: Any, least: ir.Value, zero: ir.Value, y: Any) -> MatchResult:
        result, limit, otherwise = MatchResult(), _constant(least), _constant(zero)
        if limit is None or otherwise is None or not np.isneginf(limit).all() or otherwise.any():
            return result.fail("no choice of 0 where all is -∞")
        return result

    def rewrite(self, op: Any, s: Any, axes: Any, least: Any, zero: Any, y: ir.Value) -> Any:
        return op.Identity(y)


def _drop_empty_pieces(graph: ir.Graph) -> None:
    """Leave out each Split that gives all of its operand to one result, and of which nothing reads the others."""
    for node in list(graph):
        operand, sizes = (*node.inputs, None)[:2] if node.op_type == "Split" else (None, None)
        lengths = None if sizes is None else _constant(sizes)
        if operand is None or lengths is None or np.count_nonzero(lengths) != 1:
            continue
        whole = node.outputs[int(np.flatnonzero(lengths)[0])]
        others = [each for each in node.outputs if each is not whole]
        if any(each.uses() or each.is_graph_output() for each in others) or whole.is_graph_output():
            continue
        ir.convenience.replace_all_uses_with(whole, operand)
        graph.remove(node, safe=True)


def _is_folded(node: ir.Node) -> bool | None:
    """What the optimiser does by itself, and ConstantOfShape, which it leaves because files become smaller."""
    return True if node.op_type == "ConstantOfShape" else None


def _constant(value: ir.Value) -> NDArray[Any] | None:
    if value.const_value is None or value.is_graph_input():
        return None
    return np.asarray(value.const_value.numpy())


def _bias(product: ir.Value) -> ir.Value | None:
    node = product.producer()
    assert node is not None
    return node.inputs[2] if len(node.inputs) > 2 else None


def _per_channel(value: ir.Value, rank: int, count: int) -> NDArray[np.float32] | None:
    """A constant that broadcasts against a tensor of a rank, as one number for each index of dimension 1."""
    constant = _constant(value)
    if constant is None or constant.ndim > rank or constant.dtype != np.float32:
        return None
    shape = (1,) * (rank - constant.ndim) + constant.shape
    if any(size != 1 for axis, size in enumerate(shape) if axis != 1) or shape[1] not in (1, count):
        return None
    return np.array(np.broadcast_to(constant.ravel(), (count,)))


def _own_results(graph: onnx.GraphProto, taken: set[str]) -> None:
    """Give the subgraphs of If, Loop and Scan an Identity for results that are values from outside.

    ONNX lets a subgraph return only what it makes itself; a branch that was one Identity is empty once that is dropped.
    """
    taken |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        for inner in (part for attribute in node.attribute for part in (attribute.g, *attribute.graphs)):
            made = {value.name for value in (*inner.input, *inner.initializer)}
            made |= {name for of in inner.node for name in of.output}
            for output in inner.output:
                if output.name and output.name not in made:
                    name = fresh_name(f"{output.name}/{node.name}", taken)
                    inner.node.append(onnx.helper.make_node("Identity", [output.name], [name], name=name))
                    taken.add(name)
                    output.name = name
            _own_results(inner, taken)


def _restore_names(folded: onnx.ModelProto, original: onnx.ModelProto) -> None:
    """Give each node that a rule made the name of the nearest original node of its kind on the way to its result.

    Example: conv1 and bn1 became a Conv that makes bn1's result; it is called conv1.
    """
    known = {node.name for node in original.graph.node}
    makers = {output: node for node in original.graph.node for output in node.output}
    taken = {node.name for node in folded.graph.node}
    for node in folded.graph.node:
        if node.name in known or not node.output:
            continue
        maker = makers.get(node.output[0])
        wanted = None if maker is None else maker.name
        while maker is not None and maker.op_type != node.op_type and maker.input:
            maker = makers.get(maker.input[0])
        for name in (wanted if maker is None else maker.name, wanted):
            if name and name not in taken:
                node.name = name
                taken.add(name)
                break
