"""Functions and sums that no QuantizeLinear separates, against ONNX Runtime: exact, or one step away and said so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import simplified
from tests.rings import slow_beyond
from tilewright.compiler.graph.graph import BETWEEN
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.program import Program

SHAPE = (1, 16, 14, 14)

EXACT = 0.001
"""The part of all integers that may be one away where there is one rounding: float32 is next to the middle of two."""

Build = Callable[..., str]
"""What makes the float result from dequantised tensors."""


def chain(build: Build, count: int, step: float, zero: int = 0, seed: int = 5) -> onnx.ModelProto:
    """Quantised inputs of different scales, what is between, and the quantised result."""
    made = ModelBuilder(np.random.default_rng(seed))
    given = []
    for position in range(count):
        x = made.input(f"x{position}", SHAPE)
        given.append(quantised(made, x, f"in{position}", 0.05 * (1 + 0.37 * position), 3 * position))
    result = build(made, *given)
    made.output(quantised(made, result, "out", step, zero))
    graph = onnx.helper.make_graph(made.nodes, "chain", made.inputs, made.outputs, made.initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def quantised(made: ModelBuilder, x: str, name: str, scale: float, zero: int) -> str:
    meaning = [made.constant(f"{name}.scale", np.float32(scale)), made.constant(f"{name}.zero", np.int8(zero))]
    integers = made.node("QuantizeLinear", [x, *meaning], name=f"{name}.quantize")
    return made.node("DequantizeLinear", [integers, *meaning], name=f"{name}.dequantize")


def number(made: ModelBuilder, value: float) -> str:
    return made.constant(f"number{len(made.initializers)}", np.float32(value))


def conv(made: ModelBuilder, x: str) -> str:
    weights = made.constant("w", made.rng.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8))
    scales = made.constant("w.scale", made.rng.uniform(0.004, 0.012, 16).astype(np.float32))
    real = made.node("DequantizeLinear", [weights, scales, made.constant("w.zero", np.zeros(16, np.int8))], axis=0)
    return made.node("Conv", [x, real], name="conv", pads=[1, 1, 1, 1])


def of_two(kind: str, *after: tuple[str, float]) -> Build:
    """An operator of two tensors, and others with a number."""

    def build(made: ModelBuilder, a: str, b: str) -> str:
        result = made.node(kind, [a, b], name="two")
        for each, value in after:
            result = made.node(each, [result, number(made, value)])
        return result

    return build


def function_of(kind: str, source: str, **attributes: Any) -> Build:
    """A function of a convolution, or of an operator of two tensors."""

    def build(made: ModelBuilder, *given: str) -> str:
        x = conv(made, *given) if source == "Conv" else made.node(source, given, name="two")
        return made.node(kind, [x], name="function", **attributes)

    return build


def silu(made: ModelBuilder, x: str) -> str:
    total = conv(made, x)
    return made.node("Mul", [total, made.node("Sigmoid", [total])])


def prelu(made: ModelBuilder, x: str) -> str:
    slopes = made.constant("slopes", made.rng.uniform(0.05, 0.4, (16, 1, 1)).astype(np.float32))
    return made.node("PRelu", [conv(made, x), slopes])


def sum_of_three(made: ModelBuilder, a: str, b: str, c: str) -> str:
    return made.node("Add", [made.node("Add", [a, b], name="first"), c])


def product_and_sum(made: ModelBuilder, a: str, b: str, c: str) -> str:
    return made.node("Sub", [c, made.node("Mul", [a, b], name="first")])


def residual(made: ModelBuilder, a: str, b: str) -> str:
    return made.node("Relu", [made.node("Add", [b, conv(made, a)])])


EXACT_FORMS: dict[str, tuple[Build, int, float, int]] = {
    "add, half": (of_two("Add", ("Mul", 0.5)), 2, 0.05, 0),
    "sub, third": (of_two("Sub", ("Div", 3.0)), 2, 0.06, 5),
    "mul, twice": (of_two("Mul", ("Mul", 0.4), ("Mul", 0.3)), 2, 0.05, 0),
    "leaky": (function_of("LeakyRelu", "Conv", alpha=0.1), 1, 0.05, -90),
    "prelu": (prelu, 1, 0.05, -60),
}

FORMS_WITH_STEPS: dict[str, tuple[Build, int, float, int]] = {
    "sigmoid": (function_of("Sigmoid", "Conv"), 1, 1 / 256, -128),
    "hard swish": (function_of("HardSwish", "Conv"), 1, 0.06, -110),
    "sum of three": (sum_of_three, 3, 0.12, 0),
    "residual": (residual, 2, 0.09, -128),
    "silu": (silu, 1, 0.06, -110),
    "product and sum": (product_and_sum, 3, 0.25, 0),
    "add, negative": (of_two("Add", ("Mul", -0.5)), 2, 0.06, 0),
    "add, offset": (of_two("Add", ("Mul", 0.5), ("Add", 0.3)), 2, 0.06, 0),
    "product, sigmoid": (function_of("Sigmoid", "Mul"), 2, 1 / 256, -128),
    "sum, elu": (function_of("Elu", "Add"), 2, 0.07, -100),
    "tanh": (function_of("Tanh", "Conv"), 1, 1 / 127, 0),
}


def integers_apart(
    build: Build, count: int, step: float, zero: int, isa: str = "base16"
) -> tuple[NDArray[np.int64], Program]:
    """How many steps each integer is from ONNX Runtime's, and the program, which runs nothing on the host."""
    model = chain(build, count, step, zero)
    program = tilewright.compile(model.SerializeToString(), isa, effort=0)
    assert not program.host_nodes
    found = []
    for seed in range(3):
        inputs = {name: 3 * value for name, value in random_inputs(model, np.random.default_rng(seed)).items()}
        expected, computed = run_onnx(model, inputs)["result"], program.run(inputs).outputs["result"]
        assert np.ptp(expected) > 60 * step
        found.append(np.rint((computed - expected) / step).astype(np.int64))
    return np.abs(np.stack(found)), program


@pytest.mark.parametrize("isa", slow_beyond(1, ("base16", "tiny8", "vector16")))
@pytest.mark.parametrize("name", EXACT_FORMS)
def test_is_exact_where_one_rounding_is_left(name: str, isa: str) -> None:
    apart, program = integers_apart(*EXACT_FORMS[name], isa)
    assert apart.max() <= 1 and (apart > 0).mean() <= EXACT
    assert not any(about.startswith("steps of") for about in remarks(program))


@pytest.mark.parametrize("isa", slow_beyond(1, ("base16", "tiny8", "vector16")))
@pytest.mark.parametrize("name", slow_beyond(5, FORMS_WITH_STEPS))
def test_is_one_step_off_at_most_and_says_so(name: str, isa: str) -> None:
    apart, program = integers_apart(*FORMS_WITH_STEPS[name], isa)
    assert apart.max() <= 1
    assert any("where the model rounds once" in text for text in remarks(program).values())


def remarks(program: Program) -> dict[str, str]:
    return {about: text for each in program.programs for about, text in each.metadata.items()}


@pytest.mark.parametrize("name", ["leaky", "sigmoid", "sum of three"])
def test_the_simplified_graph_means_the_same(name: str) -> None:
    build, count, step, zero = (EXACT_FORMS | FORMS_WITH_STEPS)[name]
    model = chain(build, count, step, zero)
    graph = simplified(model)
    inputs = random_inputs(model, np.random.default_rng(1))
    apart = np.abs(run_graph(graph, inputs)["result"] - run_onnx(model, inputs)["result"]) / step
    assert apart.max() <= 1.01


@pytest.mark.parametrize("name", FORMS_WITH_STEPS)
def test_the_bound_that_it_says_holds(name: str) -> None:
    """Without the last rounding, the result is as far off as the remark says, and not much less."""
    build, count, step, zero = FORMS_WITH_STEPS[name]
    model = chain(build, count, step, zero)
    graph = simplified(model)
    off = max(operator.attributes.get(BETWEEN, 0.0) for operator in graph.operators)
    assert 0 < off <= 0.99
    inputs = {name: 3 * value for name, value in random_inputs(model, np.random.default_rng(1)).items()}
    (unrounded,) = (node.input[0] for node in model.graph.node if node.name == "out.quantize")
    model.graph.output.append(onnx.helper.make_tensor_value_info(unrounded, onnx.TensorProto.FLOAT, SHAPE))
    exact = np.clip(run_onnx(model, inputs)[unrounded] / step, -128 - zero, 127 - zero)
    integers = run_graph(graph, inputs)["result"] / step
    assert np.abs(integers - exact).max() <= off + 0.5 + 1e-3


def test_what_would_be_further_off_stays_on_the_host() -> None:
    """A product of large numbers with a fine result: a tensor between of 8 bits would be many steps off."""
    model = chain(product_and_sum, 3, 0.02, 0)
    program = tilewright.compile(model.SerializeToString(), "base16", effort=0)
    assert [node.name for node in program.host_nodes] == ["first", "sub8"]
    assert program.host_nodes[0].reason == "its result is float; expected a QuantizeLinear after it"
    inputs = random_inputs(model, np.random.default_rng(1))
    assert np.array_equal(program.run(inputs).outputs["result"], run_onnx(model, inputs)["result"])
