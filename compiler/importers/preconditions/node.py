"""One ONNX node as its preconditions see it: shapes, constants, attributes with defaults, and how to refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.errors import DamagedModel, NodeName
from tilewright.compiler.graph.graph import Attribute

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ModelNode:
    """A node of a model whose shapes are inferred. `shapes` and `constants` are by tensor."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]  # those of the file, and the defaults of ONNX's schema
    given: frozenset[str]  # attributes that the file has
    shapes: Mapping[str, Shape]
    constants: Mapping[str, NDArray[Any]]

    def shape(self, position: int) -> Shape | None:
        """Of an operand; None if it is left out or not known."""
        return self.shapes.get(self.inputs[position]) if self.has(position) else None

    def constant(self, position: int) -> NDArray[Any] | None:
        """The values of an operand that is constant."""
        return self.constants.get(self.inputs[position]) if self.has(position) else None

    def has(self, position: int) -> bool:
        """Whether an optional operand is given."""
        return position < len(self.inputs) and self.inputs[position] != ""

    def integers(self, name: str) -> Shape | None:
        """An attribute that is a list of integers; None if it is left out."""
        value = self.attributes.get(name)
        return None if value is None else tuple(int(item) for item in value)

    def require(self, holds: bool, fact: str, expected: str) -> None:
        """Raises DamagedModel unless a precondition holds."""
        if not holds:
            self.refuse(fact, expected)

    def refuse(self, fact: str, expected: str) -> NoReturn:
        error = DamagedModel(NodeName(self.name, self.operator), fact, expected=expected)
        error.nodes = (self.name,)
        raise error

    def require_one_of(self, name: str, *allowed: int | str) -> None:
        """An attribute has one of the values that ONNX gives a meaning."""
        value = self.attributes.get(name, allowed[0])
        self.require(value in allowed, f"{name} = {value!r}", " or ".join(map(repr, allowed)))


def node_of(
    name: str, node: onnx.NodeProto, opset: int, shapes: Mapping[str, Shape], constants: Mapping[str, NDArray[Any]]
) -> ModelNode:
    """A node of ONNX's own domain."""
    given = attributes_of(node)
    return ModelNode(
        name, node.op_type, tuple(node.input), tuple(node.output), {**_defaults(node.op_type, opset), **given},
        frozenset(given), shapes, constants,
    )  # fmt: skip


def attributes_of(node: onnx.NodeProto) -> dict[str, Attribute]:
    """The attributes that the file gives a node."""
    return {attribute.name: _value(attribute) for attribute in node.attribute}


@cache
def _defaults(operator: str, opset: int) -> Mapping[str, Attribute]:
    """The attributes that ONNX's schema gives a value to where a node does not."""
    attributes = onnx.defs.get_schema(operator, opset).attributes
    return {key: _value(of.default_value) for key, of in attributes.items() if of.default_value.name}


def _value(attribute: onnx.AttributeProto) -> Attribute:
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def product(shape: Shape) -> int:
    """Elements of a shape; exact, however many."""
    return int(np.prod(np.array(shape, object), initial=1)) if shape else 1
