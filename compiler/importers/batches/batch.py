"""A model for another number of images: proof, node by node, that none meets another, and what of the file changes.

What a file fixes for its own number of images (the sizes of a Reshape, a token that a Concat puts before each image) is
there for the wanted number afterwards. Each image of a batch then gives what it gives alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.graph.graph import fresh_name
from tilewright.compiler.importers.batches.node import REMEDY, Batched, BatchedNode
from tilewright.compiler.importers.batches.place import ImageAxis, repeated
from tilewright.compiler.importers.batches.rules import MICROSOFT, RULES
from tilewright.compiler.importers.control_flow import reads
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.importers.onnx_microsoft import DOMAIN
from tilewright.compiler.importers.opsets import NAMES_OF_DEFAULT_DOMAIN, opset_of
from tilewright.compiler.importers.preconditions.node import ModelNode, Shape, attributes_of, node_of
from tilewright.compiler.importers.preconditions.rules import Constants
from tilewright.compiler.importers.shapes import known_shapes


@dataclass(frozen=True)
class ForImages:
    """A model for the wanted number of images, the shapes that its tensors must have, and where images lie in them."""

    model: onnx.ModelProto
    shapes: Mapping[str, Shape]
    places: Mapping[str, ImageAxis]

    def require_shapes(self, inferred: onnx.ModelProto) -> None:
        """Raise CompileError for the first node whose result has another shape."""
        known = known_shapes(inferred)
        for node in inferred.graph.node:
            for name in node.output:
                if name in self.shapes and known.get(name) != self.shapes[name]:
                    came, sizes = known.get(name), list(self.shapes[name])
                    fact = f"its result would be {'open' if came is None else list(came)} and not {sizes}"
                    raise CompileError(
                        NodeName(node.name, node.op_type), f"{fact}, so it takes no batch", remedy=REMEDY
                    )


def with_one_image(model: onnx.ModelProto, shapes: Shapes, wanted: int) -> onnx.ModelProto:
    """The model with one image where the first size of an input is open. Raises CompileError for `shapes` of others."""
    for name, sizes in shapes.items():
        if sizes[:1] not in ((1,), (wanted,), ()):
            option = f"--shape {name}={'x'.join(map(str, sizes))}"
            raise CompileError(
                option, f"is of {sizes[0]} images, and --batch of {wanted}", remedy="give one image, 1x…"
            )
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    firsts = [size for value in _inputs(fixed) for size in value.type.tensor_type.shape.dim[:1]]
    for size in firsts:
        if not size.HasField("dim_value") or size.dim_value < 1:
            size.dim_value = 1
    return fixed


def for_images(model: onnx.ModelProto, wanted: int, name: str) -> ForImages:
    """The model for the wanted number of images. All nodes have names, and all shapes are inferred.

    Raises CompileError for inputs and outputs whose first dimension is no batch, and for a node of which it is not
    known that it keeps images apart.
    """
    images = _images_of(model, name)
    walk = _BatchWalk(model, images, wanted)
    for node in model.graph.node:
        walk.take(node)
    _require_outputs(model, walk.places, name)
    shapes = {
        tensor: tuple(place.size(wanted) if axis == place.axis else size for axis, size in enumerate(shape))
        for tensor, place in walk.places.items()
        if (shape := walk.shapes.get(tensor)) is not None
    }
    return ForImages(model if images == wanted else walk.changed(shapes), shapes, walk.places)


# -- inputs and outputs ------------------------------------------------------------------------------------------------


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    initialised = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initialised]


def _images_of(model: onnx.ModelProto, name: str) -> int:
    """How many images the file's inputs hold; raises CompileError where their first sizes are no batch."""
    shapes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in _inputs(model)}
    firsts = {tuple(shape[:1]) for shape in shapes.values()}
    if len(firsts) != 1 or () in firsts or (0,) in firsts:
        found = ", ".join(f"{name!r} is {shape}" for name, shape in shapes.items()) or "it has none"
        fact = f"its inputs have no first dimension in common that could be the batch: {found}"
        raise CompileError(name, fact, remedy=REMEDY)
    return int(firsts.pop()[0])


def _require_outputs(model: onnx.ModelProto, places: Mapping[str, ImageAxis], name: str) -> None:
    for value in model.graph.output:
        place = places.get(value.name)
        if place is None or place.axis or place.outer != 1:
            where = (
                "depends on no image" if place is None else f"does not have image after image in dimension 0: {place}"
            )
            raise CompileError(name, f"output {value.name!r} {where}", remedy=REMEDY)


# -- nodes -------------------------------------------------------------------------------------------------------------


@dataclass
class _BatchWalk:
    """Goes through a model's nodes in order: `places` in what it has seen, and nodes and constants of the result."""

    model: onnx.ModelProto
    images: int
    wanted: int
    places: dict[str, ImageAxis] = field(init=False)
    shapes: Mapping[str, Shape] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.places = {value.name: ImageAxis(0) for value in _inputs(self.model)}
        self.shapes = known_shapes(self.model)
        self._opset = opset_of(self.model)
        self._constants = Constants(self.model)
        self._makers = {name: node for node in graph.node for name in node.output}
        self._taken = {*self.shapes, *self._constants, *self._makers}
        self._nodes: list[onnx.NodeProto] = []
        self._new: dict[str, NDArray[Any]] = {}

    def take(self, node: onnx.NodeProto) -> None:
        """Find where images lie in a node's results, and what changes of its operands."""
        if not any(name in self.places for name in reads(node)):
            self._nodes.append(node)
            return
        seen = self._seen(node)
        rule = RULES.get(node.op_type) if node.domain in NAMES_OF_DEFAULT_DOMAIN else None
        rule = MICROSOFT.get(node.op_type) if node.domain == DOMAIN else rule
        if rule is None or not any(name in self.places for name in node.input):
            seen.refuse("nothing is known of what it does with several images")
        outcome = rule(seen)
        places = outcome.places * len(node.output) if len(outcome.places) == 1 else outcome.places
        for position, (name, place) in enumerate(zip(node.output, places, strict=True)):
            if name:
                if seen.result(position)[place.axis] != place.size(self.images):
                    seen.refuse(f"its result {name!r} does not hold {self.images} images in dimension {place.axis}")
                self.places[name] = place
        self._nodes.append(self._changed(node, seen, outcome))

    def changed(self, shapes: Mapping[str, Shape]) -> onnx.ModelProto:
        """The model for the wanted number of images, without the shapes of what nodes make."""
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        graph = made.graph
        for field_name in ("node", "value_info"):
            graph.ClearField(field_name)
        graph.node.extend(self._nodes)
        graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in self._new.items())
        for value in (*_inputs(made), *graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = shapes[value.name][0]
        return made

    def _seen(self, node: onnx.NodeProto) -> Batched:
        if node.domain in NAMES_OF_DEFAULT_DOMAIN:
            own = node_of(node.name, node, self._opset, self.shapes, self._constants)
        else:
            given = attributes_of(node)
            ends = tuple(node.input), tuple(node.output)
            own = ModelNode(node.name, node.op_type, *ends, given, frozenset(given), self.shapes, self._constants)
        return Batched(own, self.places, self.images, self.wanted, self._opset)

    def _changed(self, node: onnx.NodeProto, seen: Batched, outcome: BatchedNode) -> onnx.NodeProto:
        if self.images == self.wanted or not (outcome.constants or outcome.repeats):
            return node
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        for position, values in outcome.constants.items():
            changed.input[position] = self._constant(node.input[position], values)
        for position, place in outcome.repeats.items():
            changed.input[position] = self._repeated(node.input[position], place, seen)
        return changed

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        made = fresh_name(f"{name}.batch", self._taken)
        self._taken.add(made)
        self._new[made] = values
        return made

    def _repeated(self, name: str, place: ImageAxis, seen: Batched) -> str:
        """A constant for the wanted number of images, or what dequantises one."""
        if name in self._constants:
            values = repeated(self._constants[name], place, self.images, self.wanted)
            if values is None:
                seen.refuse(f"its constant operand {name!r} is not the same for each image")
            return self._constant(name, values)
        maker = self._makers.get(name)
        is_plain = maker is not None and maker.op_type == "DequantizeLinear"
        if maker is None or not is_plain or np.size(self._constants[maker.input[1]]) != 1:
            seen.refuse(f"its operand {name!r} is no constant of the file")
        again = onnx.NodeProto()
        again.CopyFrom(maker)
        again.input[0] = self._repeated(maker.input[0], place, seen)
        again.output[0] = fresh_name(f"{name}.batch", self._taken)
        again.name = fresh_name(f"{maker.name}.batch", {node.name for node in self._nodes})
        self._taken.add(again.output[0])
        self._nodes.append(again)
        return again.output[0]
