"""What the rounding of int8 weights alone costs the states of the LSTM denoiser, whatever the activations.

The float network runs with weights that are rounded to int8 and nothing else: no type of activations can do better.
Weights are rounded in three ways: to the nearest with a scale from each channel's largest weight; with the scale of the
least sum of squared differences; and so that later weights make up for earlier ones (GPTQ), on what the products read
in so many frames. `python -m tests.state_weights` prints the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.states import CALIBRATION_FRAMES, LSTM, STATES, in_floats, ratios, results, state_noise, stream
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.quantization.blocks import quantized_blocks
from tilewright.quantization.float_model import read_float_model
from tilewright.quantization.grids import IntegerGrid
from tilewright.quantization.tensors import Tensors

MANY_FRAMES = 1024

WANTED_DB = 12.0
"""By how much states of int16 should be better than those of int8."""

ROW = "| `{state}` | {int8:.1f} | {wanted:.1f} | {int16:.1f} | {0:.1f} | {1:.1f} | {2:.1f} | {3:.1f} |"

Matrix = NDArray[np.float64]


def rows() -> Iterator[str]:
    """Each state's ratio of signal to noise in dB: on the machines, what is wanted, and with rounded weights alone."""
    from programs.networks.registry import float_network

    plain = float_network(LSTM)
    network = read_float_model(plain).prepared
    exact = results(in_floats(plain))
    few, many = (moments(network, frames) for frames in (CALIBRATION_FRAMES, MANY_FRAMES))
    made = [
        with_weights(network, moments, is_nearest)
        for moments, is_nearest in (({}, True), ({}, False), (few, False), (many, False))
    ]
    found = [ratios(exact, results(in_floats(each))) for each in made]
    int8, int16 = (state_noise(activations)[0] for activations in ("int8", "int16"))
    for state in STATES:
        numbers = [each[state] for each in found]
        yield ROW.format(*numbers, state=state, int8=int8[state], wanted=int8[state] + WANTED_DB, int16=int16[state])


def with_weights(network: onnx.ModelProto, moments: dict[str, Matrix], is_nearest: bool) -> onnx.ModelProto:
    """The network with the constant matrices of its products rounded to int8, a scale for each column."""
    made = onnx.ModelProto.FromString(network.SerializeToString())
    constants = {tensor.name: tensor for tensor in made.graph.initializer}
    for node in products(made):
        held = constants[node.input[1]]
        real = matrix(node, numpy_helper.to_array(held).astype(np.float64))
        if is_nearest:
            scales = np.abs(real).max(axis=0) / DEFAULT_TYPE.values.interval.high
            rounded = np.rint(real / scales) * scales
        else:
            grid = IntegerGrid(DEFAULT_TYPE.values)
            codes, scale = quantized_blocks(real, len(real), grid, moments.get(node.input[0]))
            rounded = codes * scale
        back = rounded if is_upright(node) else rounded.T
        held.CopyFrom(numpy_helper.from_array(back.reshape(tuple(held.dims)).astype(np.float32), held.name))
    return made


def products(network: onnx.ModelProto) -> list[onnx.NodeProto]:
    constants = {tensor.name for tensor in network.graph.initializer}
    return [n for n in network.graph.node if n.op_type in ("Conv", "Gemm", "MatMul") and n.input[1] in constants]


def is_upright(node: onnx.NodeProto) -> bool:
    """Whether the rows of a product's constant are what it sums over."""
    return node.op_type != "Conv" and not any(each.name == "transB" and each.i for each in node.attribute)


def matrix(node: onnx.NodeProto, values: Matrix) -> Matrix:
    """A constant as [summed, results]; those of Conv have windows of one."""
    flat = values.reshape(values.shape[:2])
    return flat if is_upright(node) else flat.T


def moments(network: onnx.ModelProto, frames: int) -> dict[str, Matrix]:
    """The sum of xᵀx of what each product reads, over a stream of so many frames."""
    wanted = {node.input[0]: node.op_type == "Conv" for node in products(network)}
    tensors, found = Tensors(network, list(wanted), LSTM), dict[str, Matrix]()
    for inputs, _ in stream(in_floats(network), frames, seed=1):
        for name, value in tensors(inputs).items():
            rows = np.moveaxis(value, 1, -1) if wanted[name] else value
            rows = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
            found[name] = found.get(name, 0) + rows.T @ rows
    return found


if __name__ == "__main__":
    for line in rows():
        print(line, flush=True)
