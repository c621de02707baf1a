"""Writes LSTM, GRU and RNN nodes out as steps, so that they quantise as every other operator does.

What a step takes from its input is one product for the whole sequence, before the first step. Example: an LSTM with
X [20, 1, 8] and 16 hidden values becomes a Conv of 8 to 64 channels at 20 positions, and 20 times a MatMul [1, 16] x
[16, 64] with its sums, functions and products. Loop and Scan are not written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from tilewright.compiler.importers.shapes import known_shapes
from tilewright.quantization.recurrent.cells import STEPS, HiddenState, RecurrentCell, input_product
from tilewright.quantization.recurrent.fill import filled
from tilewright.quantization.recurrent.node import Recurrence, read_recurrence
from tilewright.quantization.recurrent.writer import RecurrenceStep, RecurrentWriter


@dataclass(frozen=True)
class WrittenOut:
    """A model without the nodes that were written out; tensors that are the same part of each step, by part."""

    model: onnx.ModelProto
    alike: dict[str, tuple[str, ...]]


def has_recurrent_nodes(model: onnx.ModelProto) -> bool:
    return any(node.op_type in STEPS for node in model.graph.node)


def write_out(model: onnx.ModelProto, kept: Set[str] = frozenset()) -> WrittenOut:
    """The same function in steps, but for `kept` nodes or operators; `layout` is 0, and shapes are inferred.

    Raises CompileError for a node that is wrong, or whose weights or lengths are computed.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    shapes = known_shapes(model)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    taken = {*shapes, *(n.name for n in graph.node), *(name for n in graph.node for name in n.output)}
    nodes: list[onnx.NodeProto] = []
    alike: dict[str, tuple[str, ...]] = {}
    for node in graph.node:
        if node.op_type not in STEPS or {node.name, node.op_type} & kept:
            nodes.append(node)
            continue
        writer = RecurrentWriter(node.name, taken)
        _write(read_recurrence(node, shapes, constants), writer)
        nodes += writer.nodes
        graph.initializer.extend(writer.constants)
        alike |= {f"{node.name}/{part}": tuple(tensors) for part, tensors in writer.alike.items()}
    del graph.node[:]
    graph.node.extend(nodes)
    return WrittenOut(made, alike)


def _write(given: Recurrence, writer: RecurrentWriter) -> None:
    node = filled(given)
    rows = writer.reshape("rows", node.source, (1, node.steps * node.batch, node.features))
    columns = writer.node("Transpose", "columns", [rows], perm=[0, 2, 1])  # steps are positions, not a batch
    initial = [
        _initial_states(writer, given, node.hidden, name, state)
        for name, state in (("h", node.initial_h), ("c", node.initial_c))
    ]
    sequences, lasts = [], []
    for index, direction in enumerate(node.directions):
        run = _DirectionRun(node, RecurrentCell(node, direction), writer, len(node.directions) > 1)
        sequence, last = run.write(columns, [states[index] for states in initial])
        sequences.append(sequence)
        lasts.append(last)
    _write_outputs(given, node.hidden, writer, sequences, lasts)


def _initial_states(writer: RecurrentWriter, node: Recurrence, hidden: int, name: str, state: str) -> list[str | None]:
    """The state [batch, H] of each direction, filled up to `hidden` values."""
    count = len(node.directions)
    if not state:
        return [None] * count
    pieces = writer.split(f"initial_{name}", state, [1] * count, axis=0)
    rows = [writer.reshape(f"initial_{name}.rows", piece, (node.batch, node.hidden)) for piece in pieces]
    more = hidden - node.hidden
    zeros = [writer.constant("zeros", np.zeros((node.batch, more)))] if more else []
    return [writer.concat(f"initial_{name}.filled", [row, *zeros], axis=1) for row in rows]


@dataclass(frozen=True)
class _DirectionRun:
    """One direction of a node. Sequences of different lengths take their steps one after the other."""

    node: Recurrence
    cell: RecurrentCell
    writer: RecurrentWriter
    is_named: bool  # by its direction, because there is another

    @property
    def role(self) -> str:
        return self.cell.direction.name if self.is_named else "step"

    def write(self, columns: str, initial: Sequence[str | None]) -> tuple[str, HiddenState]:
        """Write the steps: all hidden values [steps · batch, H], and the last state [batch, H]."""
        node, writer = self.node, self.writer
        weights, bias = input_product(self.cell)
        name = f"{self.role}.input" if self.is_named else "input"
        operands = [columns, writer.constant("W", weights[:, :, None]), writer.constant("Wb", bias)]
        product = writer.node("Conv", name, operands)
        product = writer.node("Transpose", f"{name}.turned", [product], perm=[0, 2, 1])
        product = writer.reshape(f"{name}.rows", product, (node.steps * node.batch, len(bias)))
        each = node.batch if len(set(node.lengths)) == 1 else 1
        groups = node.batch // each
        x = writer.split(f"{name}.split", product, [each] * (node.steps * groups), axis=0)
        for piece in x:
            writer.mark_alike(f"{name}.split", piece)
        starts = [
            [None] * groups if state is None else writer.split(f"{name}.state", state, [each] * groups, axis=0)
            for state in initial
        ]
        zeros = writer.constant("zeros", np.zeros((each, node.hidden)))
        hidden = [[zeros] * groups for _ in range(node.steps)]
        lasts = []
        for group, length in enumerate(node.lengths[::each]):
            state = HiddenState(starts[0][group], starts[1][group])
            self._mark(state)
            for time in self._times(length):
                place = f"{self.role}{time}" if groups == 1 else f"{self.role}{time}.{group}"
                state = STEPS[node.kind](
                    self.cell, RecurrenceStep(writer, self.role, place), x[time * groups + group], state
                )
                assert state.h is not None
                hidden[time][group] = state.h
            lasts.append(state)
        joined = writer.concat(f"{name}.all", [h for row in hidden for h in row], axis=0) if node.outputs[0] else ""
        return joined, self._last(lasts)

    def _times(self, length: int) -> Iterator[int]:
        times = range(length)
        return iter(times) if self.cell.direction.name == "forward" else reversed(times)

    def _mark(self, state: HiddenState) -> None:
        """Let the first state be as all others: a stream's next run begins with the last state of this one."""
        for part, tensor in (("hidden", state.h), ("cell", state.c)):
            if tensor is not None:
                self.writer.mark_alike(f"{self.role}/{part}", tensor)

    def _last(self, states: Sequence[HiddenState]) -> HiddenState:
        h, c = ([state.h for state in states], [state.c for state in states])
        joined = [
            self.writer.concat(f"{self.role}.last_{name}", [each for each in parts if each is not None], axis=0)
            for name, parts in (("h", h), ("c", c))
            if parts[0] is not None
        ]
        return HiddenState(joined[0], joined[1] if len(joined) > 1 else None)


def _write_outputs(
    node: Recurrence, hidden: int, writer: RecurrentWriter, sequences: Sequence[str], lasts: Sequence[HiddenState]
) -> None:
    """Y [steps, directions, batch, H], and Y_h and Y_c [directions, batch, H]: those that are wanted.

    The node's own values are the first of `hidden`.
    """
    all_states, *states = node.outputs
    count, sizes = len(node.directions), (node.steps, node.batch, node.hidden)

    def own(name: str, values: Sequence[str | None]) -> list[str]:
        found = [each for each in values if each is not None]
        return found if hidden == node.hidden else [writer.first(f"{name}.own", each, node.hidden) for each in found]

    if all_states and count == 1:
        writer.reshape("Y", own("Y", sequences)[0], (sizes[0], 1, *sizes[1:]), output=all_states)
    elif all_states:
        both = writer.concat("both", own("Y", sequences), axis=1)
        split = writer.reshape("both.split", both, (sizes[0], sizes[1], count, sizes[2]))
        writer.node("Transpose", "Y", [split], output=all_states, perm=[0, 2, 1, 3])
    for name, output, found in zip(("Y_h", "Y_c"), states, ([s.h for s in lasts], [s.c for s in lasts]), strict=True):
        if output:
            last = writer.concat(f"{name}.both", own(name, found), axis=0)
            writer.reshape(name, last, (count, *sizes[1:]), output=output)
