"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM, whose states are variables of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from tilewright.compiler.importers.tflite.biases import write_bias
from tilewright.compiler.importers.tflite.layout import DimensionOrder
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation

# -- SVDF --------------------------------------------------------------------------------------------------------------


def svdf(operation: TfliteOperation) -> None:
    """Inputs: [B, I], weights of features [F, I], of times [F, M], bias [F / rank], state [B, F · M].

    A filter's newest feature goes behind its M - 1 others, and their weighted sum is a result; so is that of `rank`
    filters that belong together.
    """
    writer, source, state = operation.writer, operation.input(0), operation.input(4)
    operation.ignore("asymmetric_quantize_inputs")  # of float inputs only
    batch, inputs = operation.require_rank(source, 2)
    filters, features = operation.require_rank(operation.input(1), 2)
    others, memory = operation.require_rank(operation.input(2), 2)
    rank = operation.positive("rank")
    if features != inputs or others != filters or filters % rank:
        shapes = [list(operation.shape(operation.input(position))) for position in (0, 1, 2)]
        raise operation.error(f"has the shapes {shapes} with rank = {rank}")
    if operation.shape(state) != (batch, filters * memory):
        raise operation.error(f"is {list(operation.shape(state))}", state, expected=f"{[batch, filters * memory]}")
    _require_weights_of(operation, source, (1, 2))
    operation.require_result((batch, filters // rank))
    _remark_of(operation, state)
    base = operation.tensor(state).name
    feature = writer.node("Gemm", writer.real(source, DimensionOrder.LAST), _weights(operation, 1), transB=1)
    newest = writer.reshape(writer.rounded(state, feature), (batch, filters, 1, 1), base)
    before = writer.reshape(writer.real(state, DimensionOrder.LAST), (batch, filters, 1, memory), base)
    if memory > 1:
        kept = writer.node("Slice", before, writer.int64([1]), writer.int64([memory]), writer.int64([3]))
        now = writer.node("Concat", kept, newest, axis=3)
    else:
        now = newest
    writer.update(state, writer.reshape(now, (batch, filters * memory), base))
    times = writer.reshape(_weights(operation, 2), (filters // rank, rank, 1, memory), base)
    scales = None if writer.is_real(source) else _scales(operation, 2)
    bias = write_bias(operation, state, scales, 3, filters // rank)
    total = writer.node("Conv", now, times, *bias, kernel_shape=(1, memory), group=filters // rank)
    operation.write_activated(writer.reshape(total, (batch, filters // rank), base), DimensionOrder.LAST)


# -- LSTM --------------------------------------------------------------------------------------------------------------

ACTIVATIONS = {"TANH": "Tanh", "RELU": "Relu"}
INPUT, FORGET, CELL, OUTPUT = range(4)
BIAS, PROJECTION, PROJECTION_BIAS, HIDDEN_STATE, CELL_STATE, NORMS = 12, 16, 17, 18, 19, 20
HIDDEN = 4
"""Which of the intermediates says how the hidden values are quantised before they are projected."""


@dataclass(frozen=True)
class _Gate:
    """What a gate multiplies, as ONNX values; None for what it does not have."""

    of_input: str
    of_hidden: str
    of_cell: str | None
    norm: str | None
    bias: str


@dataclass(frozen=True)
class _Cell:
    """One step of an LSTM."""

    operation: TfliteOperation
    gates: tuple[_Gate | None, ...]  # the input gate is None where it is what the forget gate leaves
    projection: tuple[str, ...]  # weights, and a bias if there is one
    activation: str
    cell_clip: float
    projection_clip: float

    def step(self, x: str, hidden: str, cell: str) -> tuple[str, str]:
        """The next hidden values and cell, each rounded to the file's integers."""
        operation, writer = self.operation, self.operation.writer
        forget = writer.node("Sigmoid", self._sum(FORGET, x, hidden, cell))
        candidate = writer.node(self.activation, self._sum(CELL, x, hidden, None))
        if self.gates[INPUT] is None:
            opened = writer.node("Sub", writer.number(1.0), forget)
        else:
            opened = writer.node("Sigmoid", self._sum(INPUT, x, hidden, cell))
        kept, added = writer.node("Mul", forget, cell), writer.node("Mul", opened, candidate)
        cell = self._clipped(writer.node("Add", kept, added), self.cell_clip)
        cell = writer.rounded(operation.input(CELL_STATE), cell)
        shown = writer.node("Sigmoid", self._sum(OUTPUT, x, hidden, cell))
        value = writer.node("Mul", shown, writer.node(self.activation, cell))
        if self.projection:
            if len(operation.operator.intermediates) > HIDDEN and not writer.is_real(operation.input(0)):
                value = writer.rounded(operation.operator.intermediates[HIDDEN], value)
            value = writer.node("Gemm", value, *self.projection, transB=1)
            value = self._clipped(value, self.projection_clip)
        return writer.rounded(operation.input(HIDDEN_STATE), value), cell

    def _sum(self, which: int, x: str, hidden: str, cell: str | None) -> str:
        gate, writer = self.gates[which], self.operation.writer
        assert gate is not None
        plain = () if gate.norm is not None else (gate.bias,)
        of_input = writer.node("Gemm", x, gate.of_input, *plain, transB=1)
        total = writer.node("Add", of_input, writer.node("Gemm", hidden, gate.of_hidden, transB=1))
        if gate.of_cell is not None and cell is not None:
            total = writer.node("Add", total, writer.node("Mul", cell, gate.of_cell))
        if gate.norm is not None:
            total = writer.node("LayerNormalization", total, gate.norm, gate.bias, axis=-1, epsilon=1e-8)
        return total

    def _clipped(self, value: str, most: float) -> str:
        writer = self.operation.writer
        return value if most == 0 else writer.node("Clip", value, writer.number(-most), writer.number(most))


def sequence_lstm(operation: TfliteOperation) -> None:
    """Inputs: a sequence; each gate's weights of it, of the hidden values and of the cell; biases; and the states.

    A float one becomes its steps, which can be quantised. The cell of a quantised one has 16 bits: it is one node whose
    graph is a step.
    """
    writer, source = operation.writer, operation.input(0)
    operation.ignore("asymmetric_quantize_inputs")  # of float inputs only
    operation.only("diagonal_recurrent_tensors", False)
    shape, axis = operation.require_rank(source, 3), 0 if operation.flag("time_major") else 1
    cell = _cell(operation)
    hidden_state, cell_state = operation.input(HIDDEN_STATE), operation.input(CELL_STATE)
    for state in (hidden_state, cell_state):
        if operation.require_rank(state, 2)[0] != shape[1 - axis]:
            raise operation.error(f"is {list(operation.shape(state))}", state, expected=f"{shape[1 - axis]} rows")
    operation.require_result((*shape[:2], operation.shape(hidden_state)[1]))
    _remark_of(operation, cell_state)
    x = writer.real(source, DimensionOrder.LAST)
    states = writer.real(hidden_state, DimensionOrder.LAST), writer.real(cell_state, DimensionOrder.LAST)
    steps = _unrolled if writer.is_real(source) else _scanned
    hidden, last, result = steps(cell, x, states, axis)
    writer.update(hidden_state, hidden)
    writer.update(cell_state, last)
    operation.write(result, DimensionOrder.LAST)


def _unrolled(cell: _Cell, x: str, states: tuple[str, str], axis: int) -> tuple[str, str, str]:
    writer, shape = cell.operation.writer, cell.operation.shape(cell.operation.input(0))
    base, count = cell.operation.tensor(cell.operation.input(0)).name, shape[axis]
    sizes = writer.int64([1] * count)
    pieces = writer.nodes_outputs("Split", (x, sizes), count, base, axis=axis) if count > 1 else [x]
    hidden, last = states
    shown = []
    for piece in pieces:
        hidden, last = cell.step(writer.reshape(piece, (shape[1 - axis], shape[2]), base), hidden, last)
        shown.append(writer.node("Unsqueeze", hidden, writer.int64([axis])))
    return hidden, last, writer.node("Concat", *shown, axis=axis) if count > 1 else shown[0]


def _scanned(cell: _Cell, x: str, states: tuple[str, str], axis: int) -> tuple[str, str, str]:
    operation, writer = cell.operation, cell.operation.writer
    shapes = [operation.shape(operation.input(position)) for position in (HIDDEN_STATE, CELL_STATE, 0)]
    shapes[2] = shapes[2][1 - axis], shapes[2][2]
    names = [writer.fresh(f"{operation.operator.kind}_{operation.operator.index}/{name}") for name in ("h", "c", "x")]
    with writer.body() as nodes:
        hidden, last = cell.step(names[2], names[0], names[1])
        results = [writer.node("Identity", value) for value in (hidden, last, hidden)]
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    shapes[2] = shapes[0]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(results, shapes, strict=True)]
    body = helper.make_graph(nodes, "step", given, made)
    axes = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    base = operation.tensor(operation.output).name
    outputs = writer.nodes_outputs("Scan", (*states, x), 3, base, body=body, num_scan_inputs=1, **axes)
    return outputs[0], outputs[1], outputs[2]


def _cell(operation: TfliteOperation) -> _Cell:
    activation = operation.name_of("fused_activation_function", "ActivationFunctionType")
    if activation not in ACTIVATIONS:
        raise operation.error(f"the activation {activation} has no lowering", expected=" or ".join(ACTIVATIONS))
    used = [position for position in (*range(1, 12), PROJECTION) if operation.optional(position) is not None]
    _require_weights_of(operation, operation.input(0), [position for position in used if position not in (9, 10, 11)])
    projection = [_weights(operation, PROJECTION)] if operation.optional(PROJECTION) is not None else []
    if projection and operation.optional(PROJECTION_BIAS) is not None:
        projection.append(_vector(operation, PROJECTION_BIAS))
    return _Cell(
        operation,
        tuple(_gate(operation, which) for which in range(4)),
        tuple(projection),
        ACTIVATIONS[activation],
        operation.number("cell_clip"),
        operation.number("proj_clip"),
    )


def _gate(operation: TfliteOperation, which: int) -> _Gate | None:
    if which == INPUT and operation.optional(1) is None:
        return None
    peephole = {INPUT: 9, FORGET: 10, OUTPUT: 11}.get(which)
    return _Gate(
        _weights(operation, 1 + which),
        _weights(operation, 5 + which),
        None if peephole is None or operation.optional(peephole) is None else _vector(operation, peephole),
        None if operation.optional(NORMS + which) is None else _vector(operation, NORMS + which),
        _vector(operation, BIAS + which),
    )


def _remark_of(operation: TfliteOperation, state: int) -> None:
    """Why the host computes what would be the machine's."""
    if operation.tensor(state).dtype == np.int16:
        operation.remark(
            "keeps 16 bits, with which no instruction computes, so that the host does it; `tilewright quantize` of the "
            "float network keeps 8 bits, which the machine computes with",
            state,
        )
        operation.writer.leave_to_host(f"{operation.tensor(state)} keeps 16 bits, with which no instruction computes")


# -- weights -----------------------------------------------------------------------------------------------------------


def _require_weights_of(operation: TfliteOperation, source: int, positions: Sequence[int]) -> None:
    """Float weights for a float input, quantised ones for a quantised input."""
    is_real = operation.writer.is_real(source)
    for index in map(operation.input, positions):
        values = operation.writer.value_of(index, "weights")
        if (values.dtype == np.float32) != is_real:
            raise operation.error(
                f"is {values.dtype.name}, but the input {operation.tensor(source).dtype.name}: computing with float "
                "inputs and integer weights has no lowering",
                index,
                remedy="quantise the activations too",
            )
        if not is_real and operation.tensor(index).quantized is None:
            raise operation.error(f"is {values.dtype.name} without a scale", index, expected="a quantised tensor")


def _weights(operation: TfliteOperation, position: int) -> str:
    """The real values of constant weights."""
    index, writer = operation.input(position), operation.writer
    info, values = operation.tensor(index), writer.value_of(index, "weights")
    name = writer.constant(info.name, np.ascontiguousarray(values))
    if info.quantized is None:
        return name
    return writer.dequantize(name, info.quantized, info.dtype, info.quantized.axis, info.name)


def _scales(operation: TfliteOperation, position: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    quantized = operation.tensor(operation.input(position)).quantized
    assert quantized is not None
    if quantized.axis is not None:
        raise operation.error("has several scales", operation.input(position), expected="one")
    return np.array(quantized.scales, np.float32)


def _vector(operation: TfliteOperation, position: int) -> str:
    """The real values of a constant list, written as floats; a bias has the scale that the file says."""
    index = operation.input(position)
    info, values = operation.tensor(index), operation.writer.value_of(index, "a bias")
    reals = values.astype(np.float32)
    if info.quantized is not None:
        scales, zeros = (
            np.array(numbers, np.float32) for numbers in (info.quantized.scales, info.quantized.zero_points)
        )
        reals = (reals - zeros) * scales
    elif values.dtype != np.float32:
        raise operation.error(f"is {values.dtype.name} without a scale", index, expected="a quantised tensor")
    return operation.writer.constant(f"{info.name}:real", reals.astype(np.float32))


RECURRENT = {
    "SVDF": OperatorRow(svdf, "SVDFOptions", (5, 5)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": OperatorRow(sequence_lstm, "UnidirectionalSequenceLSTMOptions", (20, 24)),
}
