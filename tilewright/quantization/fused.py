"""Fused operators of ONNX Runtime's domain `com.microsoft` as nodes of ONNX's own, so that each is quantised by itself.

What each is made of is in `compiler.importers.microsoft_bodies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.microsoft_bodies import FLOAT, body_of
from tilewright.compiler.importers.onnx_microsoft import DOMAIN
from tilewright.compiler.importers.opsets import opset_of
from tilewright.compiler.importers.shapes import known_shapes


def write_fused(model: onnx.ModelProto, kept: Set[str] = frozenset()) -> onnx.ModelProto:
    """The same function without these operators, but for `kept` nodes or operators, and forms that are not known.

    Nodes have names, and their shapes are inferred.
    """
    if not any(map(_is_fused, model.graph.node)):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    ranks = {name: len(shape) for name, shape in known_shapes(model).items()}
    opset = opset_of(model)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        written = [node]
        if _is_fused(node) and not {node.name, node.op_type} & kept:
            with suppress(CompileError):  # the host runs it as it is
                written = _named(node, body_of(node, opset, ranks.get))
        nodes += written
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _is_fused(node: onnx.NodeProto) -> bool:
    return bool(node.domain == DOMAIN and node.op_type in FLOAT)


def _named(node: onnx.NodeProto, body: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes with names after the one whose place they take; so have the tensors between them."""
    own = {*node.input, *node.output}
    names: Mapping[str, str] = {
        name: f"{node.name}.{name}" for each in body for name in each.output if name and name not in own
    }
    for position, each in enumerate(body):
        each.name = f"{node.name}.{each.op_type.lower()}{position}" if len(body) > 1 else node.name
        each.input[:] = [names.get(name, name) for name in each.input]
        each.output[:] = [names.get(name, name) for name in each.output]
    return body
