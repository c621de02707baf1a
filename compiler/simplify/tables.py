"""Functions of one quantised tensor as tables: eight bits have 256 values, so a table is exact.

Whatever is computed element by element from one tensor between its DequantizeLinear and a QuantizeLinear, with
constants for all channels or for each, becomes one `lookup`: Sigmoid, HardSwish as one node or as five, x · sigmoid(x),
PRelu. The table holds what the operators' own meanings give (compiler/graph/interpreter.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.canonical_graph import canonical_graph
from tilewright.compiler.graph.graph import BETWEEN, CHANNEL, REAL, Graph, Operator, TensorType
from tilewright.compiler.graph.interpreter import run_graph_tensors
from tilewright.compiler.session import MemoScope, MemoStage
from tilewright.compiler.simplify.attributes import constant_weights
from tilewright.compiler.simplify.binary import BINARY, MOST_DIMENSIONS
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.isa.program.stored_types import DEFAULT_TYPE, FLOATS

FUNCTIONS = frozenset(
    f"onnx.{name}"
    for name in (
        "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Div", "Elu", "Erf",
        "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "PRelu", "Pow",
        "Reciprocal", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
        "Swish", "Tan", "Tanh", "ThresholdedRelu",
    )
)  # fmt: skip
"""ONNX operators that compute each element of their result from the elements at the same place in their operands."""

ELEMENTWISE = (*BINARY, "clamp", "affine")
"""Canonical operators that do the same."""

ON_INTEGERS = (*BINARY, "rescale", "lookup")
"""Operators on quantised tensors that may become one table with the lookups before them."""

MOST_OPERATORS = 64
"""The most operators that become one function. No activation function needs nearly as many."""


def function_of_one(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(f(dequantize(q))) → lookup(q), for any f that works element by element."""
    region = TableRegion(view)
    if not region.collect(operator.inputs[0]) or len(region.leaves) != 1:
        return None
    (leaf,) = region.leaves
    computing = [o for o in region.operators if o.kind != "dequantize"]
    is_small = len(view.type(leaf).shape) <= MOST_DIMENSIONS  # otherwise no product could compute it
    if len(computing) < 2 and is_small and not any(o.kind in FUNCTIONS for o in computing):
        if not _meets_a_function(leaf, operator.outputs[0], view):
            return None
    source, result = view.type(leaf), view.type(operator.outputs[0])
    if any(q is None or q.axis is not None for q in (source.quantization, result.quantization)):
        return None
    if source.shape != view.type(operator.outputs[0]).shape:
        return None
    return _lookup((*region.operators, operator), leaf, region.constants, view)


def _meets_a_function(leaf: str, result: str, view: GraphView) -> bool:
    """Whether a table makes a quantised tensor, or a function reads what is computed from it: both become one table."""
    if view.producer(leaf, "lookup") is not None:
        return True
    readers = [user for reader in view.users(result) for user in (reader, *view.users(reader.outputs[0]))]
    return any(reader.kind in FUNCTIONS for reader in readers)


def function_of_lookups(operator: Operator, view: GraphView) -> Replacement | None:
    """op(lookup(q), q) on quantised tensors → one lookup(q)."""
    if view.type(operator.outputs[0]).quantization is None:
        return None
    before = [view.producer(name, "lookup") for name in operator.inputs]
    lookups = [o for o in before if o is not None]
    if not lookups:
        return None
    leaves = {name if o is None else o.inputs[0] for name, o in zip(operator.inputs, before, strict=True)}
    if len(leaves) != 1 or any(view.constant(name) is not None for name in leaves):
        return None
    (leaf,) = leaves
    if view.type(leaf).shape != view.type(operator.outputs[0]).shape:
        return None
    distinct = list({o.outputs[0]: o for o in lookups}.values())
    return _lookup((*distinct, operator), leaf, {}, view)


class TableRegion:
    """The operators between some quantised tensors and a float one, in order; `leaves` are the quantised tensors.

    `constants` are the real values of the constants that the operators read. What an operator makes of which `is_end`
    is true belongs to `ends`, as if it were given.
    """

    def __init__(self, view: GraphView, is_end: Callable[[Operator], bool] = lambda operator: False) -> None:
        self.operators: list[Operator] = []
        self.leaves: set[str] = set()
        self.ends: set[str] = set()
        self._is_end = is_end
        self.constants: dict[str, NDArray[np.float64]] = {}
        self._view = view
        self._seen: set[str] = set()

    def collect(self, name: str) -> bool:
        """Add what computes a tensor; False if something in it is not elementwise."""
        if name in self._seen or not name:
            return True
        self._seen.add(name)
        constant = constant_weights(name, self._view)
        if constant is not None:
            self.constants[name] = constant.real
            return True
        producer = self._view.producer(name)
        if producer is None or len(self.operators) >= MOST_OPERATORS:
            return False
        if producer.kind == "dequantize":
            self.leaves.add(producer.inputs[0])
            self.operators.append(producer)
            return True
        if self._is_end(producer):
            self.ends.add(name)
            return True
        if producer.kind not in FUNCTIONS and producer.kind not in ELEMENTWISE:
            return False
        if len(producer.outputs) != 1 or not all(self.collect(source) for source in producer.inputs):
            return False
        self.operators.append(producer)
        return True


def _lookup(
    operators: tuple[Operator, ...], leaf: str, constants: Mapping[str, NDArray[np.float64]], view: GraphView
) -> Replacement | None:
    """The lookup that takes the place of some operators, and makes the result of the last one."""
    found = _table(operators, leaf, constants, view)
    if found is None:
        return None
    table, real = found
    last = operators[-1]
    nodes = tuple(dict.fromkeys(node for o in operators for node in o.nodes))
    name = next((o.name for o in operators if o.kind not in ("dequantize", "quantize")), last.name)
    off = sum(o.attributes.get(BETWEEN, 0.0) for o in operators)
    attributes = {"table": table} | ({BETWEEN: off} if off else {}) | ({} if real is None else {REAL: real})
    return Replacement((Operator(name, "lookup", (leaf,), last.outputs, attributes, nodes),))


def _table(
    operators: tuple[Operator, ...], leaf: str, reals: Mapping[str, NDArray[np.float64]], view: GraphView
) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
    """The last result for every value of the leaf: [values], or [C, values] where channels differ.

    Where a machine may have no entry for each of so many values, also what it was before it was rounded. None if a
    constant differs along another dimension; in such tables, if channels differ, or if more than the last result was
    rounded. The operators run on a tensor [1, C, values].
    """
    if view.type(leaf).dtype in FLOATS:
        return None  # a table has an entry for each code, and these are no range of numbers
    low, high = view.type(leaf).limits
    is_wide = high - low > DEFAULT_TYPE.values.interval.span
    if is_wide and (operators[-1].kind != "quantize" or any(each.kind == "lookup" for each in operators)):
        return None
    graph = _function(operators, leaf, reals, high - low + 1, view)
    if graph is None:
        return None

    def make() -> _Table:
        shape = graph.tensors[leaf].shape
        given = np.broadcast_to(np.arange(low, high + 1), shape).astype(graph.tensors[leaf].dtype)
        with np.errstate(all="ignore"):
            results = run_graph_tensors(graph, {leaf: given})
        table = results[operators[-1].outputs[0]][0]
        table = np.ascontiguousarray(table[0] if (table == table[0]).all() else table)
        unrounded = results[operators[-1].inputs[0]][0, 0]
        real = _in_steps(unrounded, view.type(operators[-1].outputs[0])) if is_wide else None
        for each in (table, real):
            if each is not None:
                each.setflags(write=False)
        return table, real

    table, real = view.session.memo(_TABLES, canonical_graph(graph), make)
    return None if is_wide and table.ndim > 1 else (table, real)


def _in_steps(real: NDArray[Any], result: TensorType) -> NDArray[np.float64]:
    """Real values as numbers of a type's steps, no farther from its limits than these are apart."""
    assert result.quantization is not None
    (low, high), steps = result.limits, real.astype(np.float64) / result.quantization.scale
    steps = np.nan_to_num(steps + result.quantization.zero_point, nan=low)
    return np.clip(steps, 2 * low - high, 2 * high - low)


def real_function(
    operators: Sequence[Operator],
    leaf: str,
    reals: Mapping[str, NDArray[np.float64]],
    points: NDArray[Any],
    view: GraphView,
) -> NDArray[Any] | None:
    """The last operator's results, [1 or C, points], where the leaf, a float tensor, has these values.

    None if a constant differs along another dimension than the channels.
    """
    graph = _function(tuple(operators), leaf, reals, len(points), view)
    if graph is None:
        return None
    given = np.broadcast_to(points, graph.tensors[leaf].shape).astype(np.float32)
    with np.errstate(all="ignore"):
        return np.asarray(run_graph_tensors(graph, {leaf: given})[operators[-1].outputs[0]][0])


def _function(
    operators: tuple[Operator, ...], leaf: str, reals: Mapping[str, NDArray[np.float64]], count: int, view: GraphView
) -> Graph | None:
    """Operators on a leaf of so many values, [1, C or 1, values]; None if a constant varies along another dimension."""
    source = view.type(leaf)
    constants: dict[str, NDArray[Any]] = {}
    for operator in operators:
        for position, name in enumerate(operator.inputs):
            if name not in reals:
                continue
            value = reals[name].astype(np.float32)
            is_list = operator.kind == "affine" and position > 0  # one number for each channel
            if is_list and (value == value[:1]).all():
                value = value[:1]
            shaped = value.reshape(1, -1, 1) if is_list else _by_channel(value, len(source.shape))
            if shaped is None:
                return None
            constants[name] = shaped.ravel() if is_list else shaped
    tables = [o.attributes["table"] for o in operators if o.kind == "lookup"]
    is_varying = any(value.size > 1 for value in constants.values()) or any(table.ndim > 1 for table in tables)
    if is_varying and len(source.shape) < 2:
        return None
    channels = source.shape[CHANNEL] if is_varying else 1
    names = {name for o in operators for name in (*o.inputs, *o.outputs) if name}
    types = {name: replace(view.type(name), shape=(1, channels, count)) for name in names if name not in constants}
    types |= {name: TensorType("float32", value.shape) for name, value in constants.items()}
    return Graph("function", operators, types, constants, (leaf,), {}, view.opset)


_Table = tuple[NDArray[Any], NDArray[np.float64] | None]

_TABLES = MemoStage[_Table](1 << 10, MemoScope.ALL)
"""Tables, and what they were before rounding, by the canonical form of their function.

A recurrent network computes the same one in each of its steps.
"""


def _by_channel(value: NDArray[Any], rank: int) -> NDArray[Any] | None:
    """A constant that broadcasts against tensors of a rank, as [1, C or 1, 1]; None if it varies otherwise."""
    moving = [axis for axis, size in enumerate(value.shape) if size > 1]
    if not moving:
        return value.reshape(1, 1, 1)
    is_of_channels = len(moving) == 1 and rank > 1 and value.ndim - moving[0] == rank - 1
    return value.reshape(1, -1, 1) if is_of_channels else None


TABLE_RULES = {
    "quantize": (function_of_one,),
    **dict.fromkeys(ON_INTEGERS, (function_of_lookups,)),
}
