"""A node as the rules of batches see it, and what a rule says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.importers.batches.place import ImageAxis
from tilewright.compiler.importers.preconditions.node import ModelNode, Shape

REMEDY = "compile it without --batch: `run` takes any number of images, one after another"


@dataclass(frozen=True, slots=True)
class BatchedNode:
    """Where images lie in a node's results, and which of its constant operands are others for another number of images.

    `constants` are new values by position. `repeats` are the operands that hold the same for each image, by position,
    with where their images lie: they are repeated for more.
    """

    places: tuple[ImageAxis, ...]  # of each result; a single one is that of all
    constants: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    repeats: Mapping[int, ImageAxis] = field(default_factory=dict)


@dataclass(frozen=True)
class Batched:
    """A node of a model for `images` images. `places` are those of the tensors that depend on images, by name."""

    node: ModelNode
    places: Mapping[str, ImageAxis]
    images: int
    wanted: int
    opset: int

    def place(self, position: int) -> ImageAxis | None:
        """Where images lie in an operand; None for one that depends on none, or is left out."""
        return self.places.get(self.node.inputs[position]) if self.node.has(position) else None

    def shape(self, position: int) -> Shape:
        """The shape of an operand."""
        found = self.node.shape(position)
        return self.refuse("the shape of an operand depends on data") if found is None else found

    def result(self, position: int = 0) -> Shape:
        """The shape of a result."""
        found = self.node.shapes.get(self.node.outputs[position])
        return self.refuse("the shape of its result depends on data") if found is None else found

    def constant(self, position: int) -> NDArray[Any]:
        """The values of an operand that must be constant."""
        found = self.node.constant(position)
        return self.refuse(f"its operand {self.node.inputs[position]!r} is computed") if found is None else found

    def integers(self, position: int, name: str) -> tuple[int, ...] | None:
        """What is an operand in newer opsets and an attribute in older ones; None where it is neither."""
        if self.node.has(position):
            return tuple(map(int, self.constant(position).ravel()))
        return self.node.integers(name)

    def number(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        return int(self.node.attributes.get(name, default))

    @property
    def dependent(self) -> tuple[int, ...]:
        """The positions of the operands that depend on images."""
        return tuple(position for position in range(len(self.node.inputs)) if self.place(position) is not None)

    def only(self, position: int) -> ImageAxis:
        """Where images lie in the only operand that may depend on them."""
        if self.dependent != (position,):
            names = [self.node.inputs[other] for other in self.dependent if other != position]
            self.refuse(f"its operand {names[0]!r} is computed from the images, too")
        place = self.place(position)
        assert place is not None
        return place

    def require_apart(self, place: ImageAxis, axes: Iterable[int], what: str, rank: int) -> None:
        """Refuse a node that does something along the dimension in which images lie."""
        if place.axis in {axis % rank if rank else axis for axis in axes}:
            self.refuse(f"it {what} along dimension {place.axis}, in which the images lie")

    def refuse(self, fact: str) -> NoReturn:
        """Raise CompileError: nothing says that this node computes of an image what it computes of it alone."""
        place = NodeName(self.node.name, self.node.operator)
        error = CompileError(place, f"{fact}, so it takes no batch", remedy=REMEDY)
        error.nodes = (self.node.name,)
        raise error


def broadcast(batched: Batched, operands: Sequence[int]) -> BatchedNode:
    """Each element of the result from one element of each operand, aligned at the last dimension."""
    rank = len(batched.result())
    own = {position: batched.place(position) for position in operands}
    places = {
        place.at(place.axis + rank - len(batched.shape(position)))
        for position, place in own.items()
        if place is not None
    }
    if len(places) != 1:
        batched.refuse("images lie in different dimensions of its operands")
    place = places.pop()
    size = place.size(batched.images)
    if batched.result()[place.axis] != size:
        batched.refuse(f"an operand stretches dimension {place.axis}, in which the images lie")
    repeats = {}
    for position, known in own.items():
        if not batched.node.has(position):
            continue
        shape = batched.shape(position)
        axis = place.axis - (rank - len(shape))
        if known is None and axis >= 0 and shape[axis] > 1:
            repeats[position] = place.at(axis)
    return BatchedNode((place,), repeats=repeats)
