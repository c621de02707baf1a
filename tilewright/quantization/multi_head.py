"""MultiHeadAttention of ONNX Runtime's domain `com.microsoft` as nodes of ONNX's own.

    q, k, v  = heads of query, key, value, each with its part of the bias      [batch, heads, tokens, width]
    k, v     = those of the cache, and these behind them: also results
    scores   = q · kᵀ · scale + attention_bias, less padding, less what comes later if it is unidirectional
    result   = softmax(scores) · v, the heads side by side

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. A padding mask is the length of
each sequence, or says of each key whether it counts, for all tokens or for each. Nodes with other masks, a cache that
is filled in place, and those of unknown shape, stay as they are: the host runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from math import sqrt
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.importers.shapes import known_shapes
from tilewright.quantization.multi_head_form import (
    ATTENTION_BIAS,
    BIAS,
    KEY,
    PADDING,
    PAST_KEY,
    PAST_VALUE,
    QUERY,
    VALUE,
    AttentionForm,
    AttentionOperands,
    Shapes,
    is_attention,
    read_form,
    runs_in_onnx_runtime,
)

FILTER = -10000.0
"""What is added to the scores of padding, where a node does not say it."""

PRESENT = {"k": 1, "v": 2}
"""Where a node gives the keys and values with the cache before them."""


def has_attention(model: onnx.ModelProto) -> bool:
    """Whether there is anything to write out."""
    return any(is_attention(node) for node in model.graph.node)


def runnable(model: onnx.ModelProto) -> Set[str]:
    """The nodes that ONNX Runtime computes as they are defined."""
    return {node.name for node in model.graph.node if is_attention(node) and runs_in_onnx_runtime(node)}


def write_attention(
    model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto], kept: Set[str] = frozenset()
) -> onnx.ModelProto:
    """The same function without these nodes, but for `kept` nodes or operators.

    `infer` adds the shapes of all tensors that are known: what follows a node is known once it is written out. Raises
    CompileError for a node whose shapes contradict each other.
    """
    left: set[str] = set()
    while True:
        model = infer(model)
        nodes = enumerate(model.graph.node)
        found = next(((at, n) for at, n in nodes if is_attention(n) and not {n.name, n.op_type} & (kept | left)), None)
        if found is None:
            return model
        at, node = found
        shapes = known_shapes(model)
        form = read_form(node, shapes)
        if form is None:
            left.add(node.name)
            continue
        made = onnx.ModelProto()
        made.CopyFrom(model)
        written = _AttentionWriter(form, shapes, made.graph).nodes_of(list(node.output))
        rest = [*model.graph.node[:at], *written, *model.graph.node[at + 1 :]]
        del made.graph.node[:]
        made.graph.node.extend(rest)
        model = made


class _AttentionWriter:
    """The nodes that take a node's place; their constants become the graph's."""

    def __init__(self, form: AttentionForm, shapes: Shapes, graph: onnx.GraphProto) -> None:
        self._form = form
        self._shapes = shapes
        self._graph = graph
        self._nodes: list[onnx.NodeProto] = []

    def nodes_of(self, outputs: list[str]) -> list[onnx.NodeProto]:
        """The nodes that compute these outputs, as far as they have names."""
        form, attributes = self._form, self._form.attributes
        present = {part: (outputs[at : at + 1] or [""])[0] for part, at in PRESENT.items()}
        q, k, v = (self._heads(part, present.get(part, "")) for part in "qkv")
        factor = attributes.get("scale", 0.0) or 1 / sqrt(form.width)
        scores = self._add("MatMul", "scores", q, k)
        scores = self._add("Mul", "scaled", scores, self._constant("scale", np.array(factor, np.float32)))
        if PADDING in form.given:
            scores = self._add("Add", "kept", scores, self._padding(form.given[PADDING]))
        if ATTENTION_BIAS in form.given:
            scores = self._add("Add", "biased", scores, form.given[ATTENTION_BIAS])
        if attributes.get("unidirectional", 0):
            is_later = np.triu(np.ones((form.tokens, form.keys)), form.past + 1) > 0
            later = np.where(is_later, np.finfo(np.float32).min, 0).astype(np.float32)
            scores = self._add("Add", "masked", scores, self._constant("mask", later[None, None]))
        mixed = self._add("MatMul", "mixed", self._add("Softmax", "softmax", scores, axis=-1), v)
        turned = self._add("Transpose", "turned", mixed, perm=[0, 2, 1, 3])
        features = form.heads * form.value_width
        joined = self._constant("shape", np.array((form.batch, form.tokens, features)))
        self._nodes.append(helper.make_node("Reshape", [turned, joined], [outputs[0]], f"{form.name}.joined"))
        return self._nodes

    def _add(self, op_type: str, part: str, *inputs: str, **given: Any) -> str:
        made = f"{self._form.name}.{part}"
        self._nodes.append(helper.make_node(op_type, inputs, [made], made, **given))
        return made

    def _constant(self, part: str, values: NDArray[Any]) -> str:
        self._graph.initializer.append(numpy_helper.from_array(values, f"{self._form.name}.{part}"))
        return f"{self._form.name}.{part}"

    # -- query, key and value ------------------------------------------------------------------------------------------

    def _heads(self, part: str, present: str) -> str:
        """Query or value as [batch, heads, tokens, width], the key as [batch, heads, width, keys]."""
        form = self._form
        past = form.given.get({"k": PAST_KEY, "v": PAST_VALUE}.get(part, -1), "")
        is_turned = part == "k" and not past and not present and form.operands is AttentionOperands.APART
        heads = self._own_heads(part, is_turned)
        if past:
            heads = self._add("Concat", f"{part}.all", past, heads, axis=2)
        if present:
            self._nodes.append(helper.make_node("Identity", [heads], [present], f"{form.name}.{part}.present"))
        if part == "k" and not is_turned:
            heads = self._add("Transpose", "k.turned", heads, perm=[0, 1, 3, 2])
        return heads

    def _own_heads(self, part: str, is_turned: bool) -> str:
        """What the node's own operands hold of a part, in heads; `is_turned`: with the tokens last."""
        form, packed = self._form, 0
        match form.operands:
            case AttentionOperands.PACKED:
                packed = 3
            case AttentionOperands.PACKED_KEYS:
                packed = 2 if part != "q" else 0
            case AttentionOperands.IN_HEADS:
                if part != "q":  # no bias: these come from a cache, which has it
                    return form.given[KEY if part == "k" else VALUE]
            case AttentionOperands.APART:
                pass
        if packed:
            return self._unpacked(part, packed)
        source = form.given[(QUERY, KEY, VALUE)["qkv".index(part)]]
        tokens, width = self._sizes(part)
        if BIAS in form.given:
            source = self._add("Add", f"{part}.sum", source, self._bias(part))
        shape = self._constant(f"{part}.shape", np.array((form.batch, tokens, form.heads, width)))
        axes = [0, 2, 3, 1] if is_turned else [0, 2, 1, 3]
        return self._add("Transpose", f"{part}.heads", self._add("Reshape", f"{part}.split", source, shape), perm=axes)

    def _unpacked(self, part: str, count: int) -> str:
        """A part of [batch, tokens, heads, count, width]: the slice of the features of each head that are its own."""
        form, (tokens, width) = self._form, self._sizes(part)
        source = form.given[QUERY if count == 3 else KEY]
        shape = self._constant(f"{part}.shape", np.array((form.batch, tokens, form.heads, count * width)))
        heads = self._add("Transpose", f"{part}.packed", self._add("Reshape", f"{part}.split", source, shape),
                          perm=[0, 2, 1, 3])  # fmt: skip
        begin = "qkv"[-count:].index(part) * width
        ends = [self._constant(f"{part}.{end}", np.array([at])) for end, at in
                (("first", begin), ("last", begin + width), ("axis", 3))]  # fmt: skip
        own = self._add("Slice", f"{part}.heads", heads, *ends)
        if BIAS not in form.given:
            return own
        of_heads = self._constant(f"{part}.bias.shape", np.array((1, form.heads, 1, width)))
        return self._add(
            "Add", f"{part}.sum", own, self._add("Reshape", f"{part}.bias.heads", self._bias(part), of_heads)
        )

    def _bias(self, part: str) -> str:
        """The features of the bias that are a part's."""
        begin = 0
        for before in "qkv"[: "qkv".index(part)]:
            begin += self._form.heads * self._sizes(before)[1]
        end = begin + self._form.heads * self._sizes(part)[1]
        ends = (self._constant(f"{part}.{name}", np.array([at])) for name, at in (("from", begin), ("to", end)))
        return self._add("Slice", f"{part}.bias", self._form.given[BIAS], *ends)

    def _sizes(self, part: str) -> tuple[int, int]:
        """Tokens of a part, and features of its heads."""
        form = self._form
        return (form.tokens if part == "q" else form.own), (form.value_width if part == "v" else form.width)

    # -- masks ---------------------------------------------------------------------------------------------------------

    def _padding(self, mask: str) -> str:
        """What is added to the scores, 0 for keys that count: [batch, 1, 1 or tokens, keys]."""
        batch, keys, shape = self._form.batch, self._form.keys, self._shapes[mask]
        if len(shape) == 1:
            lengths = self._add("Reshape", "lengths", mask, self._constant("lengths.shape", np.array((batch, 1))))
            places = self._constant("places", np.arange(keys, dtype=np.int32)[None])
            there = self._add("Less", "there", places, lengths)
        else:
            there = self._add("Greater", "there", mask, self._constant("padding", np.array(0, np.int32)))
        values = (0.0, self._form.attributes.get("mask_filter_value", FILTER))
        both = (self._constant(f"added{at}", np.array(value, np.float32)) for at, value in enumerate(values))
        added = self._add("Where", "added", there, *both)
        rows = self._form.tokens if len(shape) == 3 else 1
        return self._add(
            "Reshape", "added.wide", added, self._constant("added.shape", np.array((batch, 1, rows, keys)))
        )
