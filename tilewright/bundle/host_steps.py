"""What a network in parts does, in order: programs of the machine, and nodes of the host with their operands.

Tensors are known by a key: their name where they pass between parts, and the part's number before it where they are
inside one, since each part of the host's has its own copies of some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.bundle.nodes.code import C_TYPES, NoCode
from tilewright.compiler.importers.constants import follows_from_operands
from tilewright.compiler.importers.shapes import infer_shapes, known_shapes
from tilewright.host.check import parse_host_model
from tilewright.host.model import HostModel
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned
from tilewright.isa.program.program import Program


@dataclass(frozen=True, slots=True)
class TensorKind:
    """A tensor's element type, by numpy's name, and its shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A run of the machine: its program, and the keys of the tensors that it reads and writes."""

    number: int  # among the programs
    program: Program
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeStep:
    """A node of the host; `operands` are keys, constants, or None for what is left out."""

    node: onnx.NodeProto
    opset: int
    operands: tuple[str | NDArray[Any] | None, ...]
    writes: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(each for each in self.operands if isinstance(each, str))


Step = ProgramStep | NodeStep


@dataclass(frozen=True)
class HostSteps:
    """All steps, the kind of each tensor by key, and the nodes of which the kind of a tensor is not known."""

    steps: tuple[Step, ...]
    kinds: Mapping[str, TensorKind]
    refused: tuple[tuple[onnx.NodeProto, NoCode], ...]


def steps_of(network: Partitioned) -> HostSteps:
    """What the network does, in order."""
    steps: list[Step] = []
    kinds: dict[str, TensorKind] = {}
    refused: list[tuple[onnx.NodeProto, NoCode]] = []
    programs = 0
    for number, segment in enumerate(network.segments):
        if isinstance(segment, NpuSegment):
            steps.append(ProgramStep(programs, segment.program, segment.inputs, segment.outputs))
            tensors = (*segment.program.inputs, *segment.program.outputs)
            kinds |= {tensor.name: TensorKind(tensor.dtype, tensor.shape) for tensor in tensors}
            programs += 1
            continue
        part = _HostPart(segment, number)
        for step in part.steps():
            try:
                kinds |= part.kinds_of(step)
            except NoCode as error:
                refused.append((step.node, error))
            steps.append(step)
    return HostSteps(tuple(steps), kinds, tuple(refused))


class _HostPart:
    """A part of the host's, with what of it is constant."""

    def __init__(self, segment: HostSegment, number: int) -> None:
        self._model = parse_host_model(segment.onnx)
        self._ends, self._number = {*segment.inputs, *segment.outputs}, number
        self._constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in self._model.graph.initializer}
        inferred = infer_shapes(self._model, strict=False)
        self._shapes = known_shapes(inferred)
        values = (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
        self._types = {value.name: value.type.tensor_type.elem_type for value in values}
        domains = {opset.domain: opset.version for opset in self._model.opset_import}
        self._opset = domains.get("", domains.get("ai.onnx", 0))

    def steps(self) -> Iterator[NodeStep]:
        """The nodes that are computed in each run; what follows from constants alone is one."""
        for node in self._model.graph.node:
            outputs = [name for name in node.output if name]
            is_known = follows_from_operands(node) and all(name in self._constants for name in node.input if name)
            if is_known and not set(outputs) & self._ends:
                self._constants |= self._computed(node, outputs)
                continue
            operands = tuple(self._operand(name) for name in node.input)
            yield NodeStep(node, self._opset, operands, tuple(self._key(name) for name in outputs))

    def kinds_of(self, step: NodeStep) -> dict[str, TensorKind]:
        """The kinds of what a node reads and writes. Raises NoCode for one that is not known, or that C has not."""
        found = {}
        names = [*(name for name in step.node.input if name), *(name for name in step.node.output if name)]
        for name in names:
            if name in self._constants:
                continue
            if name not in self._shapes:
                raise NoCode(f"the shape of {name!r} depends on data")
            kind = self._types.get(name, onnx.TensorProto.UNDEFINED)
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)).name if kind else "of no known type"
            if dtype not in C_TYPES:
                raise NoCode(f"{name!r} is {dtype}")
            found[self._key(name)] = TensorKind(dtype, self._shapes[name])
        return found

    def _key(self, name: str) -> str:
        return name if name in self._ends else f"{self._number} {name}"

    def _operand(self, name: str) -> str | NDArray[Any] | None:
        if not name:
            return None
        return self._constants[name] if name in self._constants else self._key(name)

    def _computed(self, node: onnx.NodeProto, outputs: list[str]) -> dict[str, NDArray[Any]]:
        """What a node gives whose operands are constant."""
        given = [onnx.numpy_helper.from_array(self._constants[name], name) for name in node.input if name]
        ends = [onnx.helper.make_tensor_value_info(name, self._types.get(name, 0), None) for name in outputs]
        graph = onnx.helper.make_graph([node], "constant", [], ends, given)
        model = onnx.helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        made = HostModel(model.SerializeToString()).run(outputs, {})
        return {name: np.asarray(value) for name, value in made.items()}
