"""Integer products in the form that ONNX Runtime computes exactly on every processor.

ONNX Runtime (as of 1.32) multiplies unsigned by signed bytes in pairs: with AVX2 and without VNNI, the sum of two such
products is limited to int16. Its ConvInteger takes signed by unsigned ones for something else, on all processors, and
it has no QLinearConv of signed by unsigned ones. Products of two unsigned ones are exact, so all others become these.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from tilewright.compiler.errors import NodeName, describe
from tilewright.errors import InputError
from tilewright.extras import require_module
from tilewright.isa.program.stored_types import COMPUTED, DEFAULT_TYPE, STORED_TYPES

OFFSET = STORED_TYPES["uint8"].offset
"""What is added to a signed factor and to its zero point: their difference stays."""

SIGNED = helper.np_dtype_to_tensor_dtype(DEFAULT_TYPE.dtype)


@dataclass(frozen=True, slots=True)
class ProductOperands:
    """Where each factor of an operator stands, with its zero point; and the zero point of a result that is quantised.

    ONNX Runtime wants that result in the type of the first factor.
    """

    factors: tuple[tuple[int, int], ...]
    result: int | None = None


PRODUCTS: Mapping[str, ProductOperands] = {
    "ConvInteger": ProductOperands(((0, 2), (1, 3))),
    "MatMulInteger": ProductOperands(((0, 2), (1, 3))),
    "QLinearConv": ProductOperands(((0, 2), (3, 5)), 7),
    "QLinearMatMul": ProductOperands(((0, 2), (3, 5)), 7),
    "QGemm": ProductOperands(((0, 2), (3, 5)), 8),
    "MatMulIntegerToFloat": ProductOperands(((0, 4), (1, 5))),
    "QAttention": ProductOperands(((0, 6), (1, 7))),
    # The other factor of these is quantised as they run, to uint8.
    "DynamicQuantizeMatMul": ProductOperands(((1, 3),)),
    "DynamicQuantizeLSTM": ProductOperands(((1, 9), (2, 11))),
}
"""Operators of ONNX and of ONNX Runtime that multiply integers."""


def with_exact_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with only uint8 in its integer products; itself if it has no others.

    Raises InputError for a product of which it cannot tell the types.
    """
    if not any(_is_product(node) for graph in _graphs(model.graph) for node in graph.node):
        return model
    made = onnx.shape_inference.infer_shapes(model)  # a copy, with types in the bodies of If, Loop and Scan too
    rewriting = _Rewriting(made, model)
    rewriting.graph(made.graph, ChainMap(), ChainMap())
    return made if rewriting.constants else model


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph, and those in its nodes' attributes, however deep."""
    yield graph
    for node in graph.node:
        yield from (each for body in _bodies(node) for each in _graphs(body))


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _replace_nodes(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    """In place; some of the nodes may be the graph's own."""
    kept = GraphProto(node=nodes)
    graph.ClearField("node")
    graph.MergeFrom(kept)


def _is_product(node: NodeProto) -> bool:
    return node.op_type in PRODUCTS


Types = ChainMap[str, int]
Constants = ChainMap[str, TensorProto]


@dataclass
class _Rewriting:
    """What is done to a model, in place."""

    model: onnx.ModelProto
    given: onnx.ModelProto
    """The model as it was."""

    constants: set[str] = field(default_factory=set)
    """Those that were added. Every change adds one."""

    asked: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def graph(self, graph: GraphProto, types: Types, constants: Constants) -> None:
        """`types` and `constants` are those around the graph."""
        constants = constants.new_child({tensor.name: tensor for tensor in graph.initializer})
        types = types.new_child(_element_types(graph))
        nodes: list[NodeProto] = []
        for node in graph.node:
            for body in _bodies(node):
                self.graph(body, types, constants)
            nodes += self._exact(node, types, constants) if _is_product(node) else [node]
        _replace_nodes(graph, nodes)

    def _exact(self, node: NodeProto, types: Types, constants: Constants) -> list[NodeProto]:
        """The node, with what comes before and after it to make its factors and its result uint8."""
        product = PRODUCTS[node.op_type]
        signed = [places for places in product.factors if self._is_signed(node, *places, types)]
        before = [made for places in signed for made in self._shift_factor(node, *places, constants)]
        at = product.result
        if at is None or len(node.input) <= at or not self._are_signed(node, [node.input[at], node.output[0]], types):
            return [*before, node]
        before += self._shifted(node, at, constants)
        result, node.output[0] = node.output[0], self._fresh(node.output[0])
        return [*before, node, *self._moved(node.output[0], result, -OFFSET, SIGNED)]

    def _is_signed(self, node: NodeProto, at: int, zero: int, types: Types) -> bool:
        """Whether a factor is signed. Its zero point has the same type."""
        return self._are_signed(node, [node.input[place] for place in (zero, at) if place < len(node.input)], types)

    def _are_signed(self, node: NodeProto, names: Sequence[str], types: Types) -> bool:
        """Whether tensors of one type are signed bytes. Raises InputError if it is known of none."""
        named = [name for name in names if name]
        known = [types[name] for name in named if name in types] or self._asked(named)
        if not known:
            place = describe(NodeName(node.name or node.output[0], node.op_type))
            raise InputError(f"{place}: the type of {named[-1]!r} is not known, so its product may not be exact")
        return known[0] == SIGNED

    def _asked(self, names: Sequence[str]) -> list[int]:
        """The types that ONNX Runtime knows of those of these tensors that the model's own nodes make."""
        if not self.asked:
            self.asked |= _types_in_onnx_runtime(self.given)
        return [self.asked[name] for name in names if name in self.asked]

    def _shift_factor(self, node: NodeProto, at: int, zero: int, constants: Constants) -> list[NodeProto]:
        """Nodes that make a signed factor and its zero point uint8; the node reads them then."""
        while len(node.input) <= zero:
            node.input.append("")
        if not node.input[zero]:
            node.input[zero] = self._constant("uint8.zero", np.array(OFFSET, np.uint8))
            return self._shifted(node, at, constants)
        return [*self._shifted(node, at, constants), *self._shifted(node, zero, constants)]

    def _shifted(self, node: NodeProto, at: int, constants: Constants) -> list[NodeProto]:
        """Nodes that make a signed input of a node uint8; none for a constant, which is replaced."""
        given = node.input[at]
        if given in constants:
            values = numpy_helper.to_array(constants[given]).astype(np.int16) + OFFSET
            node.input[at] = self._constant(f"uint8.{given}", values.astype(np.uint8))
            return []
        node.input[at] = self._fresh(given)
        return self._moved(given, node.input[at], OFFSET, TensorProto.UINT8)

    def _moved(self, given: str, made: str, by: int, to: int) -> list[NodeProto]:
        """Nodes that add a number to integers of eight bits, and give them another type."""
        wide, moved = f"{made}.wide", f"{made}.moved"
        offset = self._constant(f"uint8.add{by}", np.array(by, np.int32))
        return [
            helper.make_node("Cast", [given], [wide], to=TensorProto.INT32),
            helper.make_node("Add", [wide, offset], [moved]),
            helper.make_node("Cast", [moved], [made], to=to),
        ]

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        """The name of a constant of the model, which is made once; bodies see it too."""
        if name not in self.constants:
            self.constants.add(name)
            self.model.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def _fresh(self, name: str) -> str:
        self.count += 1
        return f"uint8.{self.count}.{name}"


def _element_types(graph: GraphProto) -> dict[str, int]:
    """The types of elements that a graph states of its tensors."""
    values = (*graph.input, *graph.value_info, *graph.output)
    known = {value.name: value.type.tensor_type.elem_type for value in values}
    return {name: of for name, of in known.items() if of} | {each.name: each.data_type for each in graph.initializer}


def _types_in_onnx_runtime(model: onnx.ModelProto) -> dict[str, int]:
    """What ONNX Runtime knows of the tensors that nodes of the main graph make, those of its own operators too."""
    require_module("onnxruntime")
    import onnxruntime

    asking = onnx.ModelProto()
    asking.CopyFrom(model)
    stated = {value.name for value in asking.graph.output}
    made = dict.fromkeys(name for node in asking.graph.node for name in node.output if name)
    asking.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in stated)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        asking.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    types = {f"tensor({name})": helper.np_dtype_to_tensor_dtype(STORED_TYPES[name].dtype) for name in COMPUTED}
    return {value.name: types[value.type] for value in session.get_outputs() if value.type in types}
