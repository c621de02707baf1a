"""Functions of one tensor as tables: exact, whatever operators they are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

from tests.compiler.machines import without
from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tests.compiler.pipelines import base16, distances, lowered, simplified, simulated
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.steps import simplify_graph
from tilewright.isa.files.loader import load_machine

Build = Callable[[ModelBuilder, str], str]
CHANNELS = 20
SLOPES = np.linspace(-1, 1, CHANNELS).astype(np.float32).reshape(CHANNELS, 1, 1)


def node(op_type: str, **attributes: float) -> Build:
    return lambda builder, x: builder.node(op_type, [x], **attributes)


def silu(builder: ModelBuilder, x: str) -> str:
    return builder.node("Mul", [x, builder.quantize(builder.node("Sigmoid", [x]), 1 / 256, zero=20)])


def silu_unrounded(builder: ModelBuilder, x: str) -> str:
    return builder.node("Mul", [builder.node("Sigmoid", [x]), x])


def hard_swish_of_five(builder: ModelBuilder, x: str) -> str:
    """x · clip(x + 3, 0, 6) / 6, as exporters of older opsets write it."""
    three, low, six = (builder.constant(f"c{value}", np.float32(value)) for value in (3, 0, 6))
    limited = builder.node("Clip", [builder.node("Add", [x, three]), low, six])
    return builder.node("Div", [builder.node("Mul", [x, limited]), six])


def prelu(builder: ModelBuilder, x: str) -> str:
    return builder.node("PRelu", [x, builder.constant("slope", SLOPES)])


FUNCTIONS: Mapping[str, Build] = {
    **{name: node(name) for name in ("Sigmoid", "Tanh", "HardSwish", "Elu", "Exp", "Softplus", "Erf", "Abs", "Neg")},
    "LeakyRelu": node("LeakyRelu", alpha=0.1),
    "HardSigmoid": node("HardSigmoid", alpha=0.25, beta=0.4),
    "silu": silu,
    "silu_unrounded": silu_unrounded,
    "hard_swish_of_five": hard_swish_of_five,
    "PRelu": prelu,
}


def model_of(build: Build, activation: type = np.int8) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(4), activation=activation)
    x = builder.quantize(builder.input("x", [2, CHANNELS, 5, 3]), 0.05)
    builder.output(builder.quantize(build(builder, x), 0.03))
    return rescaled(builder.build())


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_one_lookup_and_exact(name: str, activation: type) -> None:
    model = model_of(FUNCTIONS[name], activation)
    assert kinds(simplified(model)) == ["quantize", "lookup", "dequantize"]
    nests, program = lowered(model), compile_model(model, base16())
    for run in (lambda inputs: run_nests(nests, inputs), lambda inputs: simulated(program, inputs)):
        apart = distances(model, run)
        # The reference evaluator's transcendental functions and ONNX Runtime's differ in the last bit.
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.999


def test_lanes_have_tables_of_their_own() -> None:
    tables = lowered(model_of(prelu)).constants
    assert next(values.shape for values in tables.values() if values.ndim == 2) == (CHANNELS, 256)


def test_follows_a_product_on_chip() -> None:
    def build(builder: ModelBuilder, x: str) -> str:
        return builder.node("LeakyRelu", [add_conv(builder, x, CHANNELS, 6, 3)], alpha=0.1)

    model = model_of(build)
    program = compile_model(model, base16())
    assert distances(model, lambda inputs: simulated(program, inputs)).max() <= 1
    assert len(program.layers) == 1


@pytest.mark.parametrize("name", ["Tanh", "PRelu"])
def test_prints_and_parses(name: str) -> None:
    program = lowered(model_of(FUNCTIONS[name]))
    text = print_nests(program)
    assert "lut(t, a)" in text
    assert print_nests(parse_nests(text)) == text


def test_on_other_lanes() -> None:
    machine = load_machine("base16", ["lanes=8"])
    model = model_of(prelu)
    program = compile_model(model, machine)
    assert distances(model, lambda inputs: simulated(program, inputs)).max() <= 1
    nests = lower(simplified(model), machine)
    assert distances(model, lambda inputs: run_nests(nests, inputs)).max() <= 1


def test_a_machine_without_tables_says_what_is_missing() -> None:
    with pytest.raises(CompileError, match=r"Tanh.*no instruction of .* computes `lut\(t, a\)`"):
        compile_model(model_of(node("Tanh")), without(base16(), "lookup"))


def table_of(build: Build, zero: int = 0, session: Session | None = None) -> np.ndarray:
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", [2, CHANNELS, 5, 3]), 0.05)
    builder.output(builder.quantize(build(builder, x), 0.03, zero))
    graph = simplify_graph(import_onnx(builder.build().SerializeToString()), session=session)
    (lookup,) = [operator for operator in graph.operators if operator.kind == "lookup"]
    return lookup.attributes["table"]


def leaky(alpha: float) -> Build:
    return node("LeakyRelu", alpha=alpha)


def prelu_of(slope: float) -> Build:
    return lambda builder, x: builder.node("PRelu", [x, builder.constant("slope", np.float32(slope) * SLOPES)])


def test_the_same_function_is_worked_out_once() -> None:
    session = Session()
    assert table_of(leaky(0.1), session=session) is table_of(leaky(0.1), session=session)
    assert table_of(prelu_of(1), session=session) is table_of(prelu_of(1), session=session)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((leaky(0.1),), (leaky(0.2),)),
        ((leaky(0.1),), (leaky(0.1), 3)),
        ((prelu_of(1),), (prelu_of(2),)),
        ((node("Tanh"),), (node("Sigmoid"),)),
        ((lambda builder, x: builder.node("Sub", [builder.node("Exp", [x]), x]),),
         (lambda builder, x: builder.node("Sub", [x, builder.node("Exp", [x])]),)),
    ],
    ids=["attribute", "zero point", "constants", "operators", "order of operands"],
)  # fmt: skip
def test_other_functions_have_other_tables(one: tuple[Build, int], other: tuple[Build, int]) -> None:
    first, second = table_of(*one), table_of(*other)
    assert first.shape != second.shape or (first != second).any()
    assert (table_of(*one) == first).all()
