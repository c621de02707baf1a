"""A MultiHeadAttention node of ONNX Runtime's domain `com.microsoft`, read and checked: how its operands are given.

| operands | query | key | value |
| --- | --- | --- | --- |
| apart | [batch, tokens, features] | [batch, own, features] | [batch, own, value features] |
| in heads | [batch, tokens, features] | [batch, heads, own, width] | [batch, heads, own, value width] |
| packed keys | [batch, tokens, features] | [batch, own, heads, 2, width] | missing |
| packed | [batch, tokens, heads, 3, width] | missing | missing |

A cache, [batch, heads, past, width], stands before the node's own keys and values. Source:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import onnx
from onnx import helper

from tilewright.compiler.errors import CompileError, NodeName

OPERATOR, DOMAIN = "MultiHeadAttention", "com.microsoft"
QUERY, KEY, VALUE, BIAS, PADDING, ATTENTION_BIAS, PAST_KEY, PAST_VALUE = range(8)
NAMES = ("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value")

ATTRIBUTES = {"num_heads", "scale", "unidirectional", "mask_filter_value"}
"""Those that are known. The last is what is added to the scores of padding."""

RESULTS = 3
"""The output, and keys and values with the cache before them. A node that gives the scores, too, is not known."""

Shapes = Mapping[str, tuple[int, ...]]


class AttentionOperands(Enum):
    """How query, key and value are given."""

    APART = "apart"
    IN_HEADS = "in heads"
    PACKED_KEYS = "packed keys"
    PACKED = "packed"


@dataclass(frozen=True)
class AttentionForm:
    """What is known of a node.

    `width` and `value_width` are the features of a head, `own` the keys beside the `past` ones of the cache.
    """

    name: str
    operands: AttentionOperands
    given: Mapping[int, str]  # tensor by position
    attributes: Mapping[str, Any]
    batch: int
    tokens: int
    heads: int
    width: int
    value_width: int
    own: int
    past: int

    @property
    def keys(self) -> int:
        return self.past + self.own


def is_attention(node: onnx.NodeProto) -> bool:
    return bool(node.op_type == OPERATOR and node.domain == DOMAIN)


def runs_in_onnx_runtime(node: onnx.NodeProto) -> bool:
    """Whether ONNX Runtime's kernel for CPUs computes a node as it is defined.

    It has none for packed operands, and leaves out a cache unless the keys and values with it are results.
    """
    given = [bool(name) for name in node.input] + [False] * len(NAMES)
    has_results = len(node.output) >= RESULTS and all(node.output[:RESULTS])
    return given[KEY] and given[VALUE] and (has_results or not given[PAST_KEY])


def read_form(node: onnx.NodeProto, shapes: Shapes) -> AttentionForm | None:
    """What is known of a node; None if it is of another form, or a shape of it is not known.

    Raises CompileError for shapes that contradict each other.
    """
    given = {position: name for position, name in enumerate(node.input) if name}
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if set(given) - set(range(len(NAMES))) or any(node.output[RESULTS:]) or set(attributes) - ATTRIBUTES:
        return None
    if any(name not in shapes for name in given.values()):
        return None
    form = _AttentionReader(node, given, {NAMES[at]: shapes[name] for at, name in given.items()}, attributes).form()
    is_causal = bool(attributes.get("unidirectional", 0))
    masks = ((form.batch,), (form.batch, form.keys), (form.batch, form.tokens, form.keys))
    if (is_causal and form.own != form.tokens) or (PADDING in given and shapes[given[PADDING]] not in masks):
        return None
    return form


@dataclass(frozen=True)
class _AttentionReader:
    """A node's operands by name, and what its errors begin with."""

    node: onnx.NodeProto
    given: Mapping[int, str]
    shapes: Shapes  # by the operand's name in NAMES
    attributes: Mapping[str, Any]

    def form(self) -> AttentionForm:
        heads = int(self.attributes.get("num_heads", 0))
        if heads < 1:
            raise self._error(f"num_heads is {heads}", "at least 1")
        query = self.shapes.get("query", ())
        if len(query) == 5:
            batch, tokens, _, _, width = query
            self._require("query", (batch, tokens, heads, 3, width))
            return self._checked(AttentionOperands.PACKED, batch, tokens, heads, width, width, tokens)
        if len(query) != 3 or query[2] % heads:
            raise self._error(
                f"query has the shape {list(query)}",
                f"[batch, tokens, features of {heads} heads] or five sizes, packed",
            )
        if "key" not in self.shapes:
            raise self._error("key is missing", "one beside a query of three sizes")
        batch, tokens, features = query
        width, key, value = features // heads, self.shapes.get("key", ()), self.shapes.get("value", ())
        match len(key):
            case 5:
                own = key[1]
                self._require("key", (batch, own, heads, 2, width))
                return self._checked(AttentionOperands.PACKED_KEYS, batch, tokens, heads, width, width, own)
            case 4:
                own, value_width = key[2], value[-1] if value else 0
                self._require("key", (batch, heads, own, width))
                self._require("value", (batch, heads, own, value_width))
                return self._checked(AttentionOperands.IN_HEADS, batch, tokens, heads, width, value_width, own)
            case _:
                own, value_width = key[1] if len(key) == 3 else 0, (value[-1] if value else 0) // heads
                self._require("key", (batch, own, features))
                self._require("value", (batch, own, value_width * heads))
                return self._checked(AttentionOperands.APART, batch, tokens, heads, width, value_width, own)

    def _checked(
        self, operands: AttentionOperands, batch: int, tokens: int, heads: int, width: int, value_width: int, own: int
    ) -> AttentionForm:
        """The form, if what else is given fits it."""
        absent = {
            AttentionOperands.PACKED: ("key", "value"),
            AttentionOperands.PACKED_KEYS: ("value",),
            AttentionOperands.IN_HEADS: ("past_key", "past_value"),
            AttentionOperands.APART: (),
        }[operands]
        for name in absent:
            if name in self.shapes:
                raise self._error(f"{name} is given", f"none beside operands that are {operands.value}")
        past_key = self.shapes.get("past_key", ())
        past = past_key[2] if len(past_key) == 4 else 0
        for name, other in (("past_key", "past_value"), ("past_value", "past_key")):
            if name not in self.shapes and other in self.shapes:
                raise self._error(f"{name} is missing", f"one beside {other}")
        if "past_key" in self.shapes:
            self._require("past_key", (batch, heads, past, width))
            self._require("past_value", (batch, heads, past, value_width))
        if "bias" in self.shapes:
            self._require("bias", (heads * (2 * width + value_width),))
        if "attention_bias" in self.shapes:
            outer = self.shapes["attention_bias"][:2]
            fits = len(outer) == 2 and all(size in (1, most) for size, most in zip(outer, (batch, heads), strict=True))
            self._require("attention_bias", (*(outer if fits else (batch, heads)), tokens, past + own))
        return AttentionForm(
            self.node.name, operands, self.given, self.attributes, batch, tokens, heads, width, value_width, own, past
        )

    def _require(self, name: str, shape: Sequence[int]) -> None:
        found = self.shapes.get(name)
        if found != tuple(shape):
            fact = f"{name} is missing" if found is None else f"{name} has the shape {list(found)}"
            raise self._error(fact, f"{list(shape)}")

    def _error(self, fact: str, expected: str) -> CompileError:
        return CompileError(NodeName(self.node.name, OPERATOR), fact, expected=expected)
