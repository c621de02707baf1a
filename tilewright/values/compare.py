"""Compares every tensor of a compiled network with ONNX Runtime: each layer on the right inputs, and all in a row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.columns.elements import with_columns_apart
from tilewright.compiler.stripes.cut import name_uncut
from tilewright.host.model import HostModel
from tilewright.host.tensors import dram_image
from tilewright.isa.program.partitioned import HostSegment, Partitioned
from tilewright.program import Program
from tilewright.values.compiled import Compiled
from tilewright.values.culprit import Culprit, culprit
from tilewright.values.limits import TensorLimits
from tilewright.values.places import from_words, in_words
from tilewright.values.reference import Arrays, Expected, expected, reference_tensors
from tilewright.values.watch import Watch, Write


@dataclass(frozen=True, slots=True)
class Distance:
    """How many values differ, and by how many steps the furthest does."""

    unequal: int
    furthest: int


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """`isolated`: its layer on ONNX Runtime's own tensors; `accumulated`: after all the machine's layers before it.

    `limit`: how many steps its layer may be away by itself.
    """

    tensor: str
    layer: str
    values: int
    limit: int
    isolated: Distance
    accumulated: Distance


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element, in the order of instructions, that is further away than allowed."""

    tensor: str
    index: tuple[int, ...]
    machine: int
    expected: int
    program: int  # position among the network's programs
    layer: str
    lane: int
    culprit: Culprit


@dataclass(frozen=True)
class ValueComparison:
    """`skipped`: tensors of the machine that are not compared, and why; `host_nodes`: what the host computes."""

    tensors: tuple[TensorComparison, ...]
    first: Difference | None
    skipped: Mapping[str, str]
    unseen: tuple[str, ...]  # quantised tensors of the model that no memory of the machine holds
    host_nodes: tuple[str, ...]


def compare_values(
    model: onnx.ModelProto, network: Program, programs: Sequence[Compiled], inputs: Arrays
) -> ValueComparison:
    """Compare the tensors of a model, compiled to these programs, on these inputs. Raises InputError, MachineFault."""
    read = {tensor.name for each in programs for tensor in each.program.inputs}
    made = {nest.result.tensor for each in programs for nest in each.selection.program.nests}
    known = {name for node in model.graph.node for name in node.output}
    reference = {**inputs, **reference_tensors(model, inputs, sorted((read | made) & known))}
    parts = [
        _Part(number, each, reference, given, model)
        for number, (each, given) in enumerate(_given(network, programs, inputs))
    ]
    compared = {tensor.tensor for part in parts for tensor in part.tensors}
    skipped = {name: why for part in parts for name, why in part.skipped.items()}
    quantised = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return ValueComparison(
        tuple(tensor for part in parts for tensor in part.tensors),
        next((part.first for part in parts if part.first is not None), None),
        skipped,
        tuple(name for name in quantised if name not in compared and name not in skipped),
        tuple(f"{node.name} ({node.op_type})" for node in network.host_nodes),
    )


def machine_tensors(network: Program, programs: Sequence[Compiled], inputs: Arrays) -> dict[str, NDArray[Any]]:
    """Every tensor that lies whole in a memory in a run, in the machine's integers, [N, C, H, W] as in the model."""
    found: dict[str, NDArray[Any]] = {}
    for compiled, given in _given(network, programs, inputs):
        words: dict[str, NDArray[Any]] = {}
        buffers = compiled.selection.program.buffers
        for write in Watch(compiled).writes(dram_image(compiled.program, given)):
            name = write.place.tensor
            if name not in words:
                words[name] = in_words(np.zeros(buffers[name].shape, write.values.dtype), write.values.shape[1])
            words[name][write.positions] = write.values
        stored = {name: from_words(held, buffers[name].shape) for name, held in words.items()}
        found |= {name: with_columns_apart(values, compiled.joined.get(name, 1)) for name, values in stored.items()}
    return found


def _given(network: Program, programs: Sequence[Compiled], inputs: Arrays) -> Iterator[tuple[Compiled, Arrays]]:
    """Each program with the inputs that it gets when the network runs, parts of the host's included."""
    remaining, tensors = iter(programs), dict(inputs)
    if not isinstance(network.network, Partitioned):
        yield next(remaining), tensors
        return
    for segment in network.network.segments:
        given = {name: tensors[name] for name in segment.inputs}
        if isinstance(segment, HostSegment):
            tensors |= HostModel(segment.onnx).run(segment.outputs, given)
        else:
            yield next(remaining), given
            tensors |= Program(segment.program).run(given).outputs


# -- one program -------------------------------------------------------------------------------------------------------


class _Part:
    """The comparison of one program, on its right inputs and on those that it gets."""

    def __init__(
        self, number: int, compiled: Compiled, reference: Arrays, given: Arrays, model: onnx.ModelProto
    ) -> None:
        self._number, self._watch = number, Watch(compiled)
        self._nests = compiled.selection.program
        self._right: dict[str, Expected] = {}
        self.skipped: dict[str, str] = {}
        self._sort_out(reference, {name for node in model.graph.node for name in node.output})
        limits = TensorLimits(model, {*self._right, *(tensor.name for tensor in compiled.program.inputs)})
        self._limit = {name: limits.of(name) for name in self._right}
        self.first: Difference | None = None
        right = {name: each.values for name, each in self._right.items()}
        inputs = {tensor.name: reference[tensor.name] for tensor in compiled.program.inputs}
        isolated = self._distances(dram_image(compiled.program, inputs), right)
        accumulated = self._distances(dram_image(compiled.program, given), {})
        layers = {nest.result.tensor: nest.layer or nest.name for nest in reversed(self._nests.nests)}
        self.tensors = [
            TensorComparison(name, layers[name], right[name].size, self._limit[name], isolated[name], accumulated[name])
            for name in isolated
        ]

    def _sort_out(self, reference: Arrays, known: Collection[str]) -> None:
        """What each tensor should be, or why that is not known; `known` are the tensors of the model."""
        hosts = {tensor.name: tensor for tensor in self._nests.outputs}
        held = {place.tensor for place in self._watch.places.values()}
        for name in dict.fromkeys(nest.result.tensor for nest in self._nests.nests):
            if name not in reference and name_uncut(name) in known:
                self.skipped[name_uncut(name)] = "no memory holds all of it: it passes through its layers in stripes"
            elif name not in reference:
                self.skipped[name] = "the model has no tensor of this name: the compiler made it"
            elif name not in held:
                self.skipped[name] = "no memory holds all of it"
            else:
                joined = self._watch.compiled.joined.get(name, 1)
                found = expected(self._nests.buffers[name], reference[name], hosts.get(name), joined)
                if isinstance(found, str):
                    self.skipped[name] = found
                else:
                    self._right[name] = found

    def _distances(self, image: NDArray[np.uint8], right: Mapping[str, NDArray[Any]]) -> dict[str, Distance]:
        """The distance of each tensor that is written; where `right` values go on, the first difference is kept."""
        lanes = self._watch.compiled.program.machine.lanes
        steps = {name: np.zeros_like(in_words(each.values, lanes)) for name, each in self._right.items()}
        wanted = {name: in_words(each.values, lanes) for name, each in self._right.items()}
        is_element = {name: in_words(np.ones(each.values.shape, bool), lanes) for name, each in self._right.items()}
        written = dict[str, None]()
        for write in self._watch.writes(image, right):
            name, at = write.place.tensor, write.positions
            if name not in steps:
                continue
            written[name] = None
            away = write.place.apart(write.values, wanted[name][at]) * is_element[name][at]
            steps[name][at] = np.maximum(steps[name][at], away)
            if right and self.first is None and away.max() > self._limit[name]:
                self.first = self._difference(write, away, image, right)
        return {name: Distance(int((steps[name] > 0).sum()), int(steps[name].max(initial=0))) for name in written}

    def _difference(
        self, write: Write, away: NDArray[Any], image: NDArray[np.uint8], right: Mapping[str, NDArray[Any]]
    ) -> Difference:
        """The first element of a write that is too far away, and who computed it."""
        word, lane = (int(i) for i in np.argwhere(away > self._limit[write.place.tensor])[0])
        name, position = write.place.tensor, int(write.positions[word])
        batches, channels, height, width = self._nests.buffers[name].shape
        blocks = -(-channels // write.values.shape[1])
        batch, block, row, column = (int(i) for i in np.unravel_index(position, (batches, blocks, height, width)))
        stored = (batch, block * write.values.shape[1] + lane, row, column)
        compiled, right_one = self._watch.compiled, self._right[name]
        other = Watch(compiled)  # with memories of its own: this run is not at its end
        who = culprit(other, image, right, write.instruction, write.place.address(position))
        layer = compiled.program.layers[compiled.program.provenance[who.instruction]].name
        return Difference(
            name, right_one.index(stored), int(write.values[word, lane]), int(right_one.values[stored]), self._number,
            layer, lane, who,
        )  # fmt: skip
