"""Integer products in the form that ONNX Runtime computes exactly on every processor.

ONNX Runtime (as of 1.32) multiplies uint8 by int8 in pairs: with AVX2 and without VNNI, the sum of two such products is
limited to int16. Its ConvInteger takes int8 by uint8 for something else, on all processors. Products of two uint8 are
exact.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import NodeProto, TensorProto, helper

PLACES = {
    "ConvInteger": ((0, 2), (1, 3)),
    "MatMulInteger": ((0, 2), (1, 3)),
    "QLinearConv": ((0, 2), (3, 5)),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "QGemm": ((0, 2), (3, 5)),
}
"""By operator, where each of the two factors stands, and its zero point."""

OFFSET = 128
"""What is added to an int8 factor and to its zero point: their difference stays."""


def with_exact_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with both factors of an integer product as uint8 where only one was; itself if it has no such product.

    Products in the bodies of If, Loop and Scan stay as they are.
    """
    if not any(node.op_type in PLACES for node in model.graph.node):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    types = _element_types(model)
    nodes: list[NodeProto] = []
    for number, node in enumerate(made.graph.node):
        if node.op_type in PLACES:
            factors = PLACES[node.op_type]
            of_factors = [types.get(node.input[at]) for at, _ in factors]
            if sorted(filter(None, of_factors)) == [TensorProto.UINT8, TensorProto.INT8]:
                signed = factors[of_factors.index(TensorProto.INT8)]
                nodes += _shifted(node, signed, f"uint8.{number}")
        nodes.append(node)
    if len(nodes) == len(made.graph.node):
        return model
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.append(helper.make_tensor("uint8.offset", TensorProto.INT32, (), [OFFSET]))
    made.graph.initializer.append(helper.make_tensor("uint8.zero", TensorProto.UINT8, (), [OFFSET]))
    return made


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    """The types of elements, by the tensors' names, as far as ONNX can tell them."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    return known | {constant.name: constant.data_type for constant in graph.initializer}


def _shifted(node: NodeProto, places: Iterable[int], name: str) -> list[NodeProto]:
    """Nodes that make an int8 factor and its zero point uint8; the node reads them then."""
    made: list[NodeProto] = []
    for at, part in zip(places, ("factor", "zero"), strict=True):
        while len(node.input) <= at:
            node.input.append("")
        if not node.input[at]:
            node.input[at] = "uint8.zero"
            continue
        wide, moved, narrow = (f"{name}.{part}.{step}" for step in ("int32", "moved", "uint8"))
        made.append(helper.make_node("Cast", [node.input[at]], [wide], to=TensorProto.INT32))
        made.append(helper.make_node("Add", [wide, "uint8.offset"], [moved]))
        made.append(helper.make_node("Cast", [moved], [narrow], to=TensorProto.UINT8))
        node.input[at] = narrow
    return made
