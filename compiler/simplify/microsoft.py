"""Operators of the domain `com.microsoft` as ONNX's own, so that the rules for these apply.

What each is made of is in `compiler.importers.microsoft_bodies`; QOperator forms that ONNX has too are in
`compiler.simplify.qoperators`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Attribute, Operator, TensorType
from tilewright.compiler.importers.import_onnx import tensor_type
from tilewright.compiler.importers.microsoft_bodies import BODIES, body_of
from tilewright.compiler.importers.onnx_microsoft import OPSET_OF_FUNCTIONS
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

WHOLE = ("Gelu",)
"""Operators that ONNX has under the same name with the same meaning."""

IN_EACH_RUN = ("DynamicQuantizeMatMul",)
"""Operators that quantise an operand in each run: no table or product of constants computes what they do."""

WRITTEN = tuple(f"onnx.{name}" for name in BODIES if name not in (*WHOLE, *IN_EACH_RUN))
"""Kinds of operators that are written out."""

SAME_STEPS = 1e-4
"""How far from a whole number the steps of 1 may be, as a part of them: 1/40 of a step of the result at most."""

AXIS_ALONE = 13
"""From this opset on, Softmax is along one dimension."""


def write_out(operator: Operator, view: GraphView) -> Replacement | None:
    """An operator as ONNX's own operators, each named after it."""
    _require_whole_steps(operator, view)
    node = _node(operator)
    nodes = body_of(node, OPSET_OF_FUNCTIONS, lambda name: len(view.type(name).shape))
    if view.opset < AXIS_ALONE and any(_softmax_axis(each) for each in nodes):
        raise CompileError(operator, f"a softmax along another dimension than the last in opset {view.opset}")
    own = {name for name in (*operator.inputs, *operator.outputs) if name}
    names = {name: name for name in own}
    for each in nodes:
        names |= {made: view.fresh(f"{operator.name}.{made}") for made in each.output if made not in own}
    types = {names[name]: found for name, found in _types(operator, nodes, view).items() if name not in own}
    values = {names[each.output[0]]: _value(each) for each in nodes if each.op_type == "Constant"}
    types |= {name: TensorType(value.dtype.name, value.shape) for name, value in values.items()}
    operators = tuple(
        Operator(
            f"{operator.name}.{each.op_type.lower()}" if len(nodes) > 1 else operator.name,
            f"onnx.{each.op_type}",
            tuple(names[name] if name else "" for name in each.input),
            tuple(names[name] for name in each.output),
            _attributes(each),
            operator.nodes,
        )
        for each in nodes
        if each.op_type != "Constant"
    )
    return Replacement(operators, types, values)


def _require_whole_steps(operator: Operator, view: GraphView) -> None:
    """Raise CompileError for a QLinearSoftmax of which ONNX Runtime's kernel takes another scale than the file gives.

    It counts the steps of 1 and drops their fraction. Example: 1/255 in float32 is a little more than that: 254 steps.
    """
    scale = view.constant(operator.inputs[3]) if operator.kind == "onnx.QLinearSoftmax" else None
    if scale is None:
        return
    steps = np.float32(1) / np.float32(scale.reshape(()))
    if abs(np.floor(steps) - steps) > SAME_STEPS * steps:
        fact = f"1 is {steps:.5g} steps of its result, and ONNX Runtime's kernel drops their fraction"
        raise CompileError(operator, fact, expected="a whole number, such as 256")


def _node(operator: Operator) -> onnx.NodeProto:
    kind = operator.kind.removeprefix("onnx.")
    return helper.make_node(kind, operator.inputs, operator.outputs, operator.name, **operator.attributes)


def _softmax_axis(node: onnx.NodeProto) -> bool:
    """Whether a node is a softmax along a dimension that is not said to be the last."""
    return node.op_type == "Softmax" and any(each.name == "axis" and each.i != -1 for each in node.attribute)


def _types(operator: Operator, nodes: Sequence[onnx.NodeProto], view: GraphView) -> Mapping[str, TensorType]:
    """The types of what the nodes make, as ONNX infers them."""
    given = []
    for name in dict.fromkeys(filter(None, operator.inputs)):
        known = view.type(name)
        element = helper.np_dtype_to_tensor_dtype(np.dtype(known.dtype))
        given.append(helper.make_tensor_value_info(name, element, known.shape))
    results = [onnx.ValueInfoProto(name=name) for name in operator.outputs if name]
    graph = helper.make_graph(nodes, "body", given, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET_OF_FUNCTIONS)])
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise CompileError(operator, f"its operands do not fit: {error}") from error
    return {value.name: tensor_type(value) for value in inferred.graph.value_info}


def _value(node: onnx.NodeProto) -> NDArray[Any]:
    return np.asarray(numpy_helper.to_array(node.attribute[0].t))


def _attributes(node: onnx.NodeProto) -> dict[str, Attribute]:
    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {
        name: value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
        for name, value in found.items()
    }


MICROSOFT_FORMS = dict.fromkeys(WRITTEN, (write_out,))
"""Tried before all other rules, as other forms of several operators are made of these."""
