"""Networks with what files have at their ends: inputs handed on, results left out, scales along an odd axis.

In each, a convolution of int8 values is for the machine. Scales are powers of two, so that values are equal in every
bit to those of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

CHANNELS, SIZE = 4, 5
IMAGE = (1, CHANNELS, SIZE, SIZE)

SCALE = 2.0**-4

Inputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Network:
    """A model and inputs for it."""

    model: onnx.ModelProto
    inputs: Inputs


class Nodes:
    """Collects a model; constants and results are named by their number."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: Inputs = {}
        self.outputs: list[str] = []

    def input(self, name: str, value: NDArray[Any]) -> str:
        self.inputs[name] = value
        return name

    def image(self, name: str, dtype: type[Any]) -> str:
        return self.input(name, self.rng.integers(-128, 128, IMAGE).astype(dtype))

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.named(kind, inputs, [f"t{len(self.nodes)}"], **attributes)

    def named(self, kind: str, inputs: Sequence[str], results: Sequence[str], **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, results, f"n{len(self.nodes)}", **attributes))
        return results[0]

    def quantized(self, x: str) -> str:
        return self.node("QuantizeLinear", x, self.constant(np.float32(SCALE)), self.constant(np.int8(0)))

    def dequantized(self, x: str) -> str:
        return self.node("DequantizeLinear", x, self.constant(np.float32(SCALE)), self.constant(np.int8(0)))

    def weights(self, shape: Sequence[int], axis: int = 0) -> str:
        """Random int8 weights with scales of powers of two along an axis."""
        count = shape[axis]
        scales = self.constant((2.0 ** -self.rng.integers(6, 9, count)).astype(np.float32))
        values = self.constant(self.rng.integers(-100, 101, shape).astype(np.int8))
        zeros = self.constant(np.zeros(count, np.int8))
        return self.node("DequantizeLinear", values, scales, zeros, axis=axis)

    def conv(self, x: str) -> str:
        """The layer of the machine, dequantised."""
        product = self.node("Conv", self.dequantized(x), self.weights((CHANNELS, CHANNELS, 1, 1)))
        return self.dequantized(self.quantized(product))

    def output(self, x: str, name: str = "") -> None:
        """An output that is this tensor, or an Identity of it."""
        self.outputs.append(self.named("Identity", [x], [name]) if name else x)

    def network(self, opset: int = 17) -> Network:
        def typed(name: str, value: NDArray[Any]) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

        inputs = {name: typed(name, value) for name, value in self.inputs.items()}
        graph = helper.make_graph(self.nodes, "ends", list(inputs.values()), [], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
        known = inputs | {value.name: value for value in inferred.value_info}
        graph.output.extend(known[name] for name in self.outputs)
        model.graph.output.extend(graph.output)
        return Network(model, self.inputs)


# -- inputs that are outputs -------------------------------------------------------------------------------------------

STEPS: dict[str, tuple[Any, ...]] = {
    "Identity": (),
    "Reshape": (np.array([-1]),),
    "Flatten": (),
    "Unsqueeze": (np.array([0]),),
    "Slice": (np.array([0]), np.array([1]), np.array([0])),
    "Transpose": (),
    "Cast": (),
    "Add": (np.float32(1),),
}
"""What an input may pass on its way to an output, and constant operands."""

OTHERS = (np.array([7]), np.array([True]), np.ones((2, 3), np.float32), np.arange(6, dtype=np.int8), np.array(3))


def handed_on(which: str, value: NDArray[Any] | type[Any], steps: Sequence[str]) -> Network:
    """An image goes through the machine; an input `which`, that image or another one, goes to an output."""
    n = Nodes()
    if isinstance(value, np.ndarray):
        n.output(n.conv(n.image("x", np.int8)))
        n.input(which, value)
    else:
        image = n.image(which, value)
        n.output(n.conv(image if value is np.int8 else n.quantized(image)))
    x = which
    for step in steps:
        attributes = {"to": onnx.TensorProto.DOUBLE} if step == "Cast" else {"axis": 0} if step == "Flatten" else {}
        x = n.node(step, x, *map(n.constant, STEPS[step]), **attributes)
    n.output(x)
    return n.network()


def handed_on_networks() -> Iterator[tuple[str, Network]]:
    for steps in ((), *((step,) for step in STEPS), ("Identity", "Identity"), ("Cast", "Transpose")):
        for value in OTHERS:
            if not (steps[:1] == ("Slice",) and not value.ndim) and not ("Add" in steps and value.dtype != np.float32):
                yield f"{value.dtype}{list(value.shape)} {' '.join(steps)}", handed_on("k", value, steps)
        for of in (np.int8, np.float32):
            if "Add" not in steps or of is np.float32:
                yield f"image {of.__name__} {' '.join(steps)}", handed_on("x", of, steps)


# -- results that are left out -----------------------------------------------------------------------------------------


def recurrent(kind: str, gates: int, results: Sequence[str]) -> Network:
    """A recurrent node of floats behind a layer of the machine."""
    n, hidden = Nodes(), 4
    steps = n.node("Reshape", n.conv(n.image("x", np.int8)), n.constant(np.array([SIZE, 1, CHANNELS * SIZE])))
    of_input = n.constant(n.rng.normal(0, 0.1, (1, gates * hidden, CHANNELS * SIZE)).astype(np.float32))
    again = n.constant(n.rng.normal(0, 0.1, (1, gates * hidden, hidden)).astype(np.float32))
    n.named(kind, [steps, of_input, again], results, hidden_size=hidden)
    n.outputs += [name for name in results if name]
    return n.network()


def of_several_results(kind: str, results: Sequence[str], *constants: Any, **attributes: Any) -> Network:
    n = Nodes()
    n.named(kind, [n.conv(n.image("x", np.int8)), *map(n.constant, constants)], results, **attributes)
    n.outputs += [name for name in results if name]
    return n.network()


def omitted_networks() -> Iterator[tuple[str, Network]]:
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for results in (["", "y"], ["y", ""], *([["", "", "y"], ["y", "", "z"]] if kind == "LSTM" else [])):
            yield f"{kind} {results}", recurrent(kind, gates, results)
    norm = np.ones(SIZE, np.float32)
    for results in (["y", "", "z"], ["y", "", ""]):
        yield f"LayerNormalization {results}", of_several_results("LayerNormalization", results, norm)
    yield "MaxPool", of_several_results("MaxPool", ["y", ""], kernel_shape=[2, 2])
    yield "Dropout", of_several_results("Dropout", ["y", ""])


# -- scales ------------------------------------------------------------------------------------------------------------


def odd_axis(shape: Sequence[int], axis: int, has_layer: bool, kind: str = "Conv", group: int = 1) -> Network:
    """A convolution whose weights have scales along an axis, as the only layer or after another."""
    n = Nodes()
    x = n.image("x", np.int8)
    x = n.conv(x) if has_layer else n.dequantized(x)
    n.output(n.quantized(n.node(kind, x, n.weights(shape, axis), group=group)))
    return n.network()


def odd_axis_networks() -> Iterator[tuple[str, Network]]:
    for axis in (1, 2, 3, -1, -3):
        yield f"Conv {axis}", odd_axis((16, CHANNELS, 3, 3), axis, True)
    for axis in (0, 2, 3):
        yield f"ConvTranspose {axis}", odd_axis((CHANNELS, 16, 3, 3), axis, True, "ConvTranspose")
    yield "as many scales as outputs", odd_axis((CHANNELS, CHANNELS, 3, 3), 1, True)
    yield "depthwise 2", odd_axis((CHANNELS, 1, 3, 3), 2, True, group=CHANNELS)
    yield "grouped 1", odd_axis((16, 2, 3, 3), 1, True, group=2)


# -- parts of a concatenation ------------------------------------------------------------------------------------------


def split_concat(channels: int, parts: int, axis: int) -> Network:
    """Two inputs of different scales, side by side, quantised alike and taken apart again: the parts are outputs."""
    n = Nodes()
    shape = (1, channels, 3, 6)
    images = [n.input(name, n.rng.integers(-128, 128, shape).astype(np.int8)) for name in "ab"]
    second = n.node("DequantizeLinear", images[1], n.constant(np.float32(SCALE / 2)), n.constant(np.int8(0)))
    both = n.dequantized(n.quantized(n.node("Concat", n.dequantized(images[0]), second, axis=axis)))
    names = [f"part{number}" for number in range(parts)]
    n.named("Split", [both], names, axis=axis)
    n.outputs += names
    return n.network()


def split_networks() -> Iterator[tuple[str, Network]]:
    for channels in (1, 2, 3, 8, 20):
        for parts in (2, 3):
            for axis in (1, 3):
                if axis == 3 or 2 * channels % parts == 0:
                    yield f"{channels} channels, {parts} parts, axis {axis}", split_concat(channels, parts, axis)


KINDS: dict[str, Callable[[], Iterator[tuple[str, Network]]]] = {
    "inputs handed on": handed_on_networks,
    "results left out": omitted_networks,
    "scales along an odd axis": odd_axis_networks,
    "parts of a concatenation": split_networks,
}
