"""MultiHeadAttention of ONNX Runtime's domain `com.microsoft` as nodes of ONNX's own.

    q, k, v  = heads of query, key, value, each with its part of the bias      [batch, heads, tokens, width]
    scores   = q · kᵀ · scale + attention_bias, less padding, less what comes later if it is unidirectional
    result   = softmax(scores) · v, the heads side by side

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. A padding mask is the length of
each sequence, or says of each key whether it counts. Nodes with other masks, a cache, packed or transposed operands,
and those of unknown shape, stay as they are: the host runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from math import sqrt
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.importers.shapes import known_shapes

OPERATOR, DOMAIN = "MultiHeadAttention", "com.microsoft"
BIAS, PADDING, ATTENTION_BIAS = 3, 4, 5
"""Operands that may be missing. All others beside query, key and value have to be."""

ATTRIBUTES = {"num_heads", "scale", "unidirectional", "mask_filter_value"}
"""Those that are known. The last is what is added to the scores of padding."""

FILTER = -10000.0
"""That, where a node does not say it."""

Shapes = Mapping[str, tuple[int, ...]]


def has_attention(model: onnx.ModelProto) -> bool:
    """Whether there is anything to write out."""
    return any(_is_attention(node) for node in model.graph.node)


def write_attention(
    model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto], kept: Set[str] = frozenset()
) -> onnx.ModelProto:
    """The same function without these nodes, but for `kept` nodes or operators.

    `infer` adds the shapes of all tensors that are known: what follows a node is known once it is written out.
    """
    left: set[str] = set()
    while True:
        model = infer(model)
        nodes = enumerate(model.graph.node)
        found = next(((at, n) for at, n in nodes if _is_attention(n) and not {n.name, n.op_type} & (kept | left)), None)
        if found is None:
            return model
        at, node = found
        shapes = known_shapes(model)
        if _is_plain(node, shapes):
            made = onnx.ModelProto()
            made.CopyFrom(model)
            written = _written(node, shapes, made.graph)
            rest = [*model.graph.node[:at], *written, *model.graph.node[at + 1 :]]
            del made.graph.node[:]
            made.graph.node.extend(rest)
            model = made
        else:
            left.add(node.name)


def _is_attention(node: onnx.NodeProto) -> bool:
    return bool(node.op_type == OPERATOR and node.domain == DOMAIN)


def _is_plain(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Whether query, key and value are apart and in features, and nothing is given that is not written out."""
    given = {position for position, name in enumerate(node.input) if name}
    known = {0, 1, 2} <= given <= {0, 1, 2, BIAS, PADDING, ATTENTION_BIAS}
    if not known or any(node.output[1:]) or {attribute.name for attribute in node.attribute} - ATTRIBUTES:
        return False
    q, k, v = (shapes.get(name, ()) for name in node.input[:3])
    return (
        len(q) == len(k) == len(v) == 3
        and (k[1] == q[1] or not _attributes(node).get("unidirectional", 0))
        and all(name in shapes for name in node.input if name)
        and (PADDING not in given or shapes[node.input[PADDING]] in ((k[0],), (k[0], k[1])))
    )


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _written(node: onnx.NodeProto, shapes: Shapes, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that take this one's place; their constants become the graph's."""
    attributes, nodes = _attributes(node), []
    heads = attributes["num_heads"]

    def add(op_type: str, part: str, *inputs: str, **given: Any) -> str:
        made = f"{node.name}.{part}"
        nodes.append(helper.make_node(op_type, inputs, [made], made, **given))
        return made

    def constant(part: str, values: NDArray[Any]) -> str:
        graph.initializer.append(numpy_helper.from_array(values, f"{node.name}.{part}"))
        return f"{node.name}.{part}"

    optional = {at: name for at, name in enumerate(node.input) if name}
    split, begin = {}, 0
    for part, source in zip("qkv", node.input, strict=False):
        batch, tokens, features = shapes[source]
        if BIAS in optional:
            ends = (
                constant(f"{part}.{end}", np.array([at])) for end, at in (("from", begin), ("to", begin + features))
            )
            source = add("Add", f"{part}.sum", source, add("Slice", f"{part}.bias", optional[BIAS], *ends))
        begin += features
        shape = constant(f"{part}.shape", np.array((batch, tokens, heads, features // heads)))
        axes = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
        split[part] = add("Transpose", f"{part}.heads", add("Reshape", f"{part}.split", source, shape), perm=axes)
    batch, tokens, features = shapes[node.input[0]]
    factor = attributes.get("scale", 0.0) or 1 / sqrt(features // heads)
    scores = add("MatMul", "scores", split["q"], split["k"])
    scores = add("Mul", "scaled", scores, constant("scale", np.array(factor, np.float32)))
    if PADDING in optional:
        scores = add("Add", "kept", scores, _padding(optional[PADDING], shapes, node, add, constant))
    if ATTENTION_BIAS in optional:
        scores = add("Add", "biased", scores, optional[ATTENTION_BIAS])
    if attributes.get("unidirectional", 0):
        later = np.where(np.triu(np.ones((tokens, tokens)), 1) > 0, np.finfo(np.float32).min, 0)
        scores = add("Add", "masked", scores, constant("mask", later[None, None].astype(np.float32)))
    mixed = add("MatMul", "mixed", add("Softmax", "softmax", scores, axis=-1), split["v"])
    turned = add("Transpose", "turned", mixed, perm=[0, 2, 1, 3])
    joined = constant("shape", np.array((batch, tokens, shapes[node.input[2]][2])))
    nodes.append(helper.make_node("Reshape", [turned, joined], [node.output[0]], f"{node.name}.joined"))
    return nodes


def _padding(
    mask: str,
    shapes: Shapes,
    node: onnx.NodeProto,
    add: Callable[..., str],
    constant: Callable[[str, NDArray[Any]], str],
) -> str:
    """What is added to scores [batch, heads, tokens, keys]: 0 for keys that count. As [batch, 1, 1, keys]."""
    batch, keys, _ = shapes[node.input[1]]
    if len(shapes[mask]) == 1:
        lengths = add("Reshape", "lengths", mask, constant("lengths.shape", np.array((batch, 1))))
        there = add("Less", "there", constant("places", np.arange(keys, dtype=np.int32)[None]), lengths)
    else:
        there = add("Greater", "there", mask, constant("padding", np.array(0, np.int32)))
    values = (0.0, _attributes(node).get("mask_filter_value", FILTER))
    both = (constant(f"added{at}", np.array(value, np.float32)) for at, value in enumerate(values))
    added = add("Where", "added", there, *both)
    return add("Reshape", "added.wide", added, constant("added.shape", np.array((batch, 1, 1, keys))))
