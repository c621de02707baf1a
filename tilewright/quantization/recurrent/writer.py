"""Collects the nodes and constants that a recurrent node becomes, and which tensors of its steps are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.simplify.rewrite import fresh_name


class RecurrentWriter:
    """Nodes in order, with names that begin with that of the node they come from.

    `alike` holds, for each part of a step, the tensors that are this part in each of the steps.
    """

    def __init__(self, prefix: str, taken: set[str]) -> None:
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.alike: dict[str, list[str]] = {}
        self._taken = taken
        self._known: dict[tuple[Any, ...], str] = {}

    def node(self, kind: str, name: str, inputs: Sequence[str], *, output: str = "", **attributes: Any) -> str:
        """Add a node with one result, which is called `output` or like the node; the result's name."""
        named = self._fresh(name)
        self.nodes.append(helper.make_node(kind, list(inputs), [output or named], named, **attributes))
        return output or named

    def split(self, name: str, source: str, sizes: Sequence[int], axis: int) -> list[str]:
        """The pieces of a tensor; the tensor itself if it is one piece."""
        if len(sizes) == 1:
            return [source]
        named = self._fresh(name)
        pieces = [self._fresh(f"{name}/{index}") for index in range(len(sizes))]
        counts = self.constant("sizes", np.array(sizes, np.int64))
        self.nodes.append(helper.make_node("Split", [source, counts], pieces, named, axis=axis))
        return pieces

    def first(self, name: str, source: str, count: int) -> str:
        """The first features of each row."""
        ends = [self.constant(part, np.array([at], np.int64)) for part, at in (("from", 0), ("to", count), ("axis", 1))]
        return self.node("Slice", name, [source, *ends])

    def concat(self, name: str, sources: Sequence[str], axis: int) -> str:
        """The tensors joined; the tensor itself if there is one."""
        return sources[0] if len(sources) == 1 else self.node("Concat", name, sources, axis=axis)

    def reshape(self, name: str, source: str, shape: Sequence[int], output: str = "") -> str:
        sizes = self.constant("shape", np.array(shape, np.int64))
        return self.node("Reshape", name, [source, sizes], output=output)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A constant, float32 unless it counts something; equal ones are one."""
        array = value if value.dtype == np.int64 else value.astype(np.float32)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self._fresh(name)
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), self._known[key]))
        return self._known[key]

    def mark_alike(self, part: str, tensor: str) -> None:
        self.alike.setdefault(part, []).append(tensor)

    def _fresh(self, name: str) -> str:
        made = fresh_name(f"{self.prefix}/{name}", self._taken)
        self._taken.add(made)
        return made


@dataclass(frozen=True)
class RecurrenceStep:
    """One step of a recurrence: what it writes is called by `place` and part, and is alike in all steps of `role`."""

    writer: RecurrentWriter
    role: str
    place: str

    def node(self, kind: str, part: str, inputs: Sequence[str], **attributes: Any) -> str:
        made = self.writer.node(kind, f"{self.place}/{part}", inputs, **attributes)
        self.writer.mark_alike(f"{self.role}/{part}", made)
        return made

    def split(self, part: str, source: str, sizes: Sequence[int]) -> list[str]:
        """Pieces along the features."""
        pieces = self.writer.split(f"{self.place}/{part}", source, sizes, axis=1)
        for index, piece in enumerate(pieces):
            if piece != source:
                self.writer.mark_alike(f"{self.role}/{part}/{index}", piece)
        return pieces

    def constant(self, name: str, value: NDArray[Any]) -> str:
        return self.writer.constant(name, value)
