"""LSTM, GRU and RNN with `layout` 1, the batch first, as the same node with `layout` 0 and Transposes around it.

ONNX Runtime does not run `layout` 1.
"""

from __future__ import annotations

import onnx
from onnx import helper

from tilewright.compiler.simplify.rewrite import fresh_name
from tilewright.quantization.recurrent.node import GATES

SWAPPED = (1, 0, 2)
"""X [batch, steps, features] and states [batch, directions, H]: their first two dimensions change places."""

BATCH_FIRST = (2, 0, 1, 3)
"""Y [steps, directions, batch, H] → [batch, steps, directions, H]."""

INPUTS = (0, 5, 6)
"""X, initial_h and initial_c."""


RESULTS = ("Y", "Y_h", "Y_c")


def steps_first(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function without `layout` 1; types of the tensors between are to be inferred anew.

    Results that nobody wants get a name where one follows: shape inference takes those without a name for one tensor.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    taken = {value.name for value in (*graph.input, *graph.initializer)}
    taken |= {name for node in graph.node for name in (node.name, *node.output)}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in GATES:
            _name_results(node, taken)
        nodes += _turned(node, taken) if _is_batch_first(node) else [node]
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _name_results(node: onnx.NodeProto, taken: set[str]) -> None:
    wanted = max((count for count, name in enumerate(node.output, 1) if name), default=0)
    del node.output[wanted:]
    for position, (name, result) in enumerate(zip(node.output, RESULTS, strict=False)):
        node.output[position] = name or _name(f"{node.name or node.op_type}/{result}", taken)


def _is_batch_first(node: onnx.NodeProto) -> bool:
    return node.op_type in GATES and any(a.name == "layout" and a.i for a in node.attribute)


def _turned(node: onnx.NodeProto, taken: set[str]) -> list[onnx.NodeProto]:
    """The node with `layout` 0, between Transposes."""
    name = node.name or node.op_type
    kept = [attribute for attribute in node.attribute if attribute.name != "layout"]
    made = helper.make_node(node.op_type, list(node.input), list(node.output), node.name)
    made.attribute.extend(kept)
    before, after = [], []
    for position in INPUTS:
        if position < len(node.input) and node.input[position]:
            made.input[position] = _name(f"{name}/input{position}", taken)
            before.append(_transpose(node.input[position], made.input[position], made.input[position], SWAPPED))
    for position, output in enumerate(node.output):
        made.output[position] = _name(f"{name}/{RESULTS[position]}/steps", taken)
        axes = SWAPPED if position else BATCH_FIRST
        after.append(_transpose(made.output[position], output, _name(f"{name}/{RESULTS[position]}", taken), axes))
    return [*before, made, *after]


def _name(wanted: str, taken: set[str]) -> str:
    name = fresh_name(wanted, taken)
    taken.add(name)
    return name


def _transpose(source: str, result: str, name: str, axes: tuple[int, ...]) -> onnx.NodeProto:
    return helper.make_node("Transpose", [source], [result], name, perm=list(axes))
