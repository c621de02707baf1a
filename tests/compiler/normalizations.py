"""Normalisations of rows as models write them: as one node, and as the chains of nodes of several exporters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from tests.compiler.models import ModelBuilder

Form = Callable[[ModelBuilder, str, tuple[int, ...]], str]
"""Adds nodes that normalise a tensor of a shape along its last dimension; returns the result."""

EPSILON = 1e-3


def parameters(builder: ModelBuilder, shape: tuple[int, ...]) -> tuple[str, str]:
    """Random scales of both signs, with a zero among them, and biases."""
    scale = builder.rng.normal(1, 0.5, shape[-1:]).astype(np.float32)
    scale[:2] = 0, -1.5
    bias = builder.rng.normal(0, 0.3, shape[-1:]).astype(np.float32)
    return builder.constant("gamma", scale), builder.constant("beta", bias)


def layer_node(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    return builder.node("LayerNormalization", [x, *parameters(builder, shape)], epsilon=EPSILON)


def without_bias(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    return builder.node("LayerNormalization", [x, parameters(builder, shape)[0]], epsilon=EPSILON)


def lp_node(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    return builder.node("LpNormalization", [x], axis=-1)


def _mean(builder: ModelBuilder, x: str) -> str:
    return builder.node("ReduceMean", [x], axes=[-1], keepdims=1)


def _stable(builder: ModelBuilder, square: str) -> str:
    return builder.node("Add", [_mean(builder, square), builder.constant("epsilon", np.float32(EPSILON))])


def _affine(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    gamma, beta = parameters(builder, shape)
    return builder.node("Add", [builder.node("Mul", [x, gamma]), beta])


def divided(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    """As PyTorch writes it: ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add."""
    apart = builder.node("Sub", [x, _mean(builder, x)])
    square = builder.node("Pow", [apart, builder.constant("two", np.float32(2))])
    root = builder.node("Sqrt", [_stable(builder, square)])
    return _affine(builder, builder.node("Div", [apart, root]), shape)


def with_reciprocal(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    """The square as a product, and the reciprocal of the root; the scale comes first."""
    apart = builder.node("Sub", [x, _mean(builder, x)])
    square = builder.node("Mul", [apart, apart])
    root = builder.node("Reciprocal", [builder.node("Sqrt", [_stable(builder, square)])])
    gamma, beta = parameters(builder, shape)
    scaled = builder.node("Mul", [gamma, builder.node("Mul", [root, apart])])
    return builder.node("Add", [beta, scaled])


def with_power(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    apart = builder.node("Sub", [x, _mean(builder, x)])
    square = builder.node("Mul", [apart, apart])
    root = builder.node("Pow", [_stable(builder, square), builder.constant("power", np.float32(-0.5))])
    return _affine(builder, builder.node("Mul", [apart, root]), shape)


def root_mean_square(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    """As Llama's: x times the reciprocal root of its mean square, times the scale."""
    square = builder.node("Pow", [x, builder.constant("two", np.float32(2))])
    gamma, _ = parameters(builder, shape)
    one, root = builder.constant("one", np.float32(1)), builder.node("Sqrt", [_stable(builder, square)])
    return builder.node("Mul", [gamma, builder.node("Mul", [x, builder.node("Div", [one, root])])])


def over_length(builder: ModelBuilder, x: str, shape: tuple[int, ...]) -> str:
    return builder.node("Div", [x, builder.node("ReduceL2", [x], axes=[-1], keepdims=1)])


FORMS: Mapping[str, Form] = {
    "one node": layer_node,
    "one node without bias": without_bias,
    "LpNormalization": lp_node,
    "divided": divided,
    "with a reciprocal": with_reciprocal,
    "with a power": with_power,
    "root mean square": root_mean_square,
    "over the length": over_length,
}

LENGTHS = ("LpNormalization", "over the length")
"""Results of these are between -1 and 1."""


def normalizing_model(form: str, shape: Sequence[int], seed: int = 0, activation: type = np.int8) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(seed), activation=activation)
    x = builder.quantize(builder.input("x", shape), 0.05, name="x.q")
    y = FORMS[form](builder, x, tuple(shape))
    builder.output(builder.quantize(y, 1 / 127 if form in LENGTHS else 0.03, name="y.q"))
    return builder.build("normalize")
