"""Random networks with much that a program may leave out: weights of zero, shared ones, results that nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.random_networks import conv, random_network

Weights = NDArray[np.generic]

MORE = 20
"""So many more convolutions than steps of another kind."""


def _no_outputs(values: Weights, zero: int, rng: Generator) -> None:
    values[rng.random(values.shape[0]) < 0.5] = zero


def _no_inputs(values: Weights, zero: int, rng: Generator) -> None:
    values[:, rng.random(values.shape[1]) < 0.6] = zero


def _no_taps(values: Weights, zero: int, rng: Generator) -> None:
    values[..., : int(rng.integers(values.shape[-1]))] = zero


def _few(values: Weights, zero: int, rng: Generator) -> None:
    values[rng.random(values.shape) < 0.9] = zero


def _blocks(values: Weights, zero: int, rng: Generator) -> None:
    """As one prunes for an array: 4 outputs at a time."""
    for first in range(0, values.shape[0], 4):
        values[first : first + 4, rng.random(values.shape[1]) < 0.5] = zero


def _all(values: Weights, zero: int, rng: Generator) -> None:
    values[:] = zero


def _equal(values: Weights, zero: int, rng: Generator) -> None:
    values[:] = values.flat[0]


def _repeated(values: Weights, zero: int, rng: Generator) -> None:
    """Channels that compute the same."""
    values[:] = values[rng.integers(0, 2, values.shape[0]) % values.shape[0]]


def _as_it_is(values: Weights, zero: int, rng: Generator) -> None:
    return


WEARS: tuple[Callable[[Weights, int, Generator], None], ...] = (
    _no_outputs, _no_inputs, _no_taps, _few, _blocks, _all, _equal, _repeated, _as_it_is, _as_it_is,
)  # fmt: skip


def worn_network(seed: int) -> onnx.ModelProto:
    """The random network of a seed, worn in other ways for each of its convolutions; some of its outputs are gone."""
    model = random_network(seed, beside=(conv,) * MORE)
    rng = np.random.default_rng([seed, 0xB0B])
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for name in [name for name in tensors if name.endswith(".weight")]:
        values = numpy_helper.to_array(tensors[name]).copy()
        WEARS[int(rng.integers(len(WEARS)))](values, 0, rng)
        tensors[name].CopyFrom(numpy_helper.from_array(values, name))
        if rng.random() < 0.2:
            _make_unsigned(name, tensors, rng)
    _share(tensors, rng)
    if len(graph.output) > 1:
        kept = [value for value in graph.output if rng.random() < 0.6] or [graph.output[0]]
        del graph.output[:]
        graph.output.extend(kept)
    return model


def _make_unsigned(name: str, tensors: Mapping[str, onnx.TensorProto], rng: Generator) -> None:
    """The same weights as uint8 with zero points; some of these are not in the middle, so that weights are wider."""
    zeros_name = f"{name}_zero"
    values, zeros = (numpy_helper.to_array(tensors[each]).astype(np.int64) for each in (name, zeros_name))
    zero = int(rng.choice([128, 128, 60, 200]))
    tensors[name].CopyFrom(numpy_helper.from_array(np.clip(values + zero, 0, 255).astype(np.uint8), name))
    tensors[zeros_name].CopyFrom(numpy_helper.from_array(np.full_like(zeros, zero).astype(np.uint8), zeros_name))


def _share(tensors: Mapping[str, onnx.TensorProto], rng: Generator) -> None:
    """Give convolutions the weights of others of that shape."""
    by_shape: dict[tuple[int, ...], list[str]] = {}
    for name, tensor in tensors.items():
        if name.endswith(".weight"):
            by_shape.setdefault((tensor.data_type, *tensor.dims), []).append(name)
    for names in by_shape.values():
        for name in names[1:]:
            if rng.random() < 0.5:
                tensors[name].raw_data = tensors[names[0]].raw_data
