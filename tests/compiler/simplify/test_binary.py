"""Sub, Mul, Max and Min of two activations, with broadcasting, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, rescaled
from tests.compiler.pipelines import distances, lowered, simulated
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

FULL = (2, 20, 5, 3)
SHAPES: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = [
    (FULL, FULL),
    (FULL, (2, 20, 1, 1)),
    (FULL, (1, 20, 1, 3)),
    ((20, 1, 1), FULL),  # another rank
    (FULL, (2, 1, 5, 3)),  # one channel: spread over the lanes
    ((2, 20, 5, 1), (1, 1, 1, 3)),
    ((3, 7), (3, 7)),
]


def of_two(op_type: str, a: tuple[int, ...], b: tuple[int, ...], activation: type = np.int8) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(5), activation=activation)
    x, y = builder.input("x", a), builder.input("y", b)
    operands = [builder.quantize(x, 0.1), builder.quantize(y, 0.07)]
    builder.output(builder.quantize(builder.node(op_type, operands), 0.2))
    return rescaled(builder.build())


def assert_close(model: onnx.ModelProto, machine: str = "base16") -> None:
    nests = lowered(model)
    program = compile_model(model, load_machine(machine))
    for run in (lambda inputs: simulated(program, inputs), lambda inputs: run_nests(nests, inputs)):
        apart = distances(model, run, count=2)
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.99


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max", "Min"])
def test_computes_what_onnx_runtime_computes(op_type: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert_close(of_two(op_type, *shapes))


@pytest.mark.parametrize("op_type", ["Sub", "Mul", "Max"])
def test_of_unsigned_tensors_on_other_lanes(op_type: str) -> None:
    assert_close(of_two(op_type, FULL, (2, 1, 5, 1), np.uint8), "tiny8")


@pytest.mark.parametrize("op_type", ["Sum", "Mean"])
@pytest.mark.parametrize("constant", [False, True])
def test_a_sum_of_few_is_an_addition(op_type: str, constant: bool) -> None:
    builder = ModelBuilder(np.random.default_rng(5))
    operands = [builder.quantize(builder.input("x", FULL), 0.1)]
    if constant:
        operands.append(builder.constant("c", np.linspace(-2, 3, FULL[1], dtype=np.float32).reshape(1, -1, 1, 1)))
    elif op_type == "Sum":
        operands.append(builder.quantize(builder.input("y", FULL), 0.07))
    builder.output(builder.quantize(builder.node(op_type, operands), 0.2))
    assert_close(rescaled(builder.build()))


@pytest.mark.parametrize("op_type", ["Sum", "Mean"])
@pytest.mark.parametrize("count", [3, 4])
def test_a_sum_of_several_is_computed_in_steps(op_type: str, count: int) -> None:
    builder = ModelBuilder(np.random.default_rng(5))
    operands = [builder.quantize(builder.input(f"x{number}", FULL), 0.05 + 0.02 * number) for number in range(count)]
    builder.output(builder.quantize(builder.node(op_type, operands), 0.2))
    model = builder.build()
    program = compile_model(model, load_machine("base16"))
    assert distances(model, lambda inputs: simulated(program, inputs)).max() <= 1
    assert any("several instructions" in remark for remark in program.metadata.values())


def test_a_maximum_of_one_scale_is_exact() -> None:
    builder = ModelBuilder(np.random.default_rng(5))
    operands = [builder.quantize(builder.input(name, FULL), 0.1, zero=3) for name in "xyz"]
    builder.output(builder.quantize(builder.node("Max", operands), 0.1, zero=3))
    model = builder.build()
    program = compile_model(model, load_machine("base16"))
    assert distances(model, lambda inputs: simulated(program, inputs)).max() == 0
    assert {i.mnemonic for i in program.instructions if i.format.engine.name == "vec"} == {"maximum"}


@pytest.mark.parametrize("shape", [(1, 20, 4, 3), (3,), (4, 1), (20, 1, 3), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("op_type", ["Mul", "Add"])
def test_an_operand_may_be_a_quantised_constant(op_type: str, shape: tuple[int, ...]) -> None:
    builder = ModelBuilder(np.random.default_rng(5))
    x = builder.quantize(builder.input("x", (1, 20, 4, 3)), 0.1)
    scale, zero = builder.constant("c.scale", np.float32(0.05)), builder.constant("c.zero", np.int8(4))
    values = builder.constant("c", builder.rng.integers(-128, 128, shape).astype(np.int8))
    c = builder.node("DequantizeLinear", [values, scale, zero])
    builder.output(builder.quantize(builder.node(op_type, [x, c]), 0.2))
    assert_close(rescaled(builder.build()))
