"""Per-channel scales and offsets folded into convolutions; ONNX Runtime says what a BatchNormalization means."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import base16, distances, lowered, simulated
from tests.compiler.simplify.graphs import GraphBuilder, kinds, only, rewritten
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.simplify.affine import affine_to_conv, fold_affine_into_conv, integers_of_one
from tilewright.compiler.simplify.steps import simplify_graph

SCALE = np.array([1.5, -0.3, 0.0, 2.0])


def affine(builder: GraphBuilder, x: str, scale: np.ndarray) -> str:
    offset = np.random.default_rng(2).normal(size=scale.shape)
    return builder.add("a", "affine", x, builder.constant("scale", scale), builder.constant("offset", offset))


def test_is_folded_into_the_convolution_before() -> None:
    builder = GraphBuilder()
    y = affine(builder, builder.conv("c", builder.pair("p", "x")), SCALE)
    after = rewritten(builder.graph(y), {"affine": (fold_affine_into_conv,)}, tolerance=1e-3)
    assert "affine" not in kinds(after)
    assert only(after, "conv").nodes == ("c", "a")


def test_is_a_convolution_of_each_channel_on_its_own() -> None:
    builder = GraphBuilder()
    y = affine(builder, builder.pair("p", "x"), SCALE[:3])
    after = rewritten(builder.graph(y), {"affine": (affine_to_conv,)}, tolerance=1e-4)
    conv = only(after, "conv")
    assert conv.attributes["group"] == 3
    weights = next(value for name, value in after.constants.items() if value.ndim == 4)
    assert np.sign(weights).ravel().tolist() == [1, -1, 0]
    assert all(64 <= abs(weight) <= 127 for weight in weights.ravel()[:2].tolist())


def test_the_weight_is_one_of_whose_steps_the_offset_is_a_multiple() -> None:
    # 0.3 is 36 steps of 1/120, and no whole number of steps of 1/121 to 1/127; 0 is one of all.
    integers = integers_of_one(np.array([1.0, 1.0, -2.0, 0.0]), np.array([0.3, 0.0, 0.6, 0.3]))
    assert integers.tolist() == [120, 127, 120, 127]


def test_stays_where_the_convolution_has_another_reader() -> None:
    builder = GraphBuilder()
    conv = builder.conv("c", builder.pair("p", "x"))
    after = rewritten(builder.graph(affine(builder, conv, SCALE), conv), {"affine": (fold_affine_into_conv,)})
    assert "affine" in kinds(after)


def test_a_weight_whose_sign_cannot_change_is_refused() -> None:
    builder = GraphBuilder()
    y = affine(builder, builder.conv("c", builder.pair("p", "x")), SCALE)
    builder.constants["c.weight"][1, 0, 0, 0] = -128
    with pytest.raises(CompileError) as caught:
        rewritten(builder.graph(y), {"affine": (fold_affine_into_conv,)})
    assert str(caught.value) == (
        "node 'a' (affine): its negative scale turns the weight -128 into 128; quantise weights to -127 … 127"
    )


def channel_model(op_type: str, after_conv: bool, constants: list[Any], **attributes: Any) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", [1, 4, 20, 20]), 0.1, name="x.q")
    if after_conv:
        weight, _ = builder.weights("conv", [4, 4, 1, 1])
        x = builder.node("Conv", [x, weight], name="conv", kernel_shape=[1, 1])
    names = [builder.constant(f"c{position}", np.asarray(c, np.float32)) for position, c in enumerate(constants)]
    builder.output(builder.quantize(builder.node(op_type, [x, *names], name="op", **attributes), 0.317, 3, name="y.q"))
    return builder.build()


COLUMN = np.array([1.7, -0.4, 0.9, 2.2]).reshape(1, 4, 1, 1)
NORMALIZATION = [[1.1, 0.8, -0.7, 1.3], [0.1, -2, 3, 0], [0.5, -1, 2, 0.2], [0.5, 1.5, 0.9, 2]]


@pytest.mark.parametrize("after_conv", [True, False])
@pytest.mark.parametrize(
    ("op_type", "constants"),
    [
        ("BatchNormalization", NORMALIZATION),
        ("Mul", [COLUMN]),
        ("Add", [COLUMN]),
        ("Sub", [COLUMN[0]]),
        ("Div", [COLUMN]),
        ("Mul", [0.37]),
    ],
)
def test_operators_with_constants_mean_what_onnx_runtime_says(
    op_type: str, constants: list[Any], after_conv: bool
) -> None:
    model = channel_model(op_type, after_conv, constants)
    program = lowered(model)
    assert len(program.nests) == 1
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=20)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.998  # the offset is rounded to a whole product, up to 1/100 of a step here


def test_a_bias_that_is_added_after_a_product_is_its_bias() -> None:
    """MatMul → Add, as exporters write a dense layer; the quantiser leaves the constant behind a DequantizeLinear."""
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", [3, 20]), 0.1, name="x.q")
    weight, _ = builder.weights("w", [20, 50], axis=1)
    bias = builder.quantize(builder.constant("b", np.linspace(-3, 3, 50).astype(np.float32)), 0.03, 0, name="b.q")
    y = builder.node("Add", [bias, builder.node("MatMul", [x, weight], name="matmul")], name="add")
    builder.output(builder.quantize(y, 0.317, 3, name="y.q"))
    model = builder.build()
    program = lowered(model)
    assert [nest.nodes for nest in program.nests] == [("matmul", "add")]
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=20)
    assert apart.max() <= 1


def test_a_normalization_for_training_is_refused() -> None:
    graph = import_onnx(channel_model("BatchNormalization", True, NORMALIZATION).SerializeToString())
    normalization = only(graph, "onnx.BatchNormalization")
    object.__setattr__(normalization, "attributes", {"training_mode": 1})
    with pytest.raises(CompileError) as caught:
        simplify_graph(graph)
    assert str(caught.value) == "node 'op' (BatchNormalization): training_mode = 1 has no lowering; expected 0"


@pytest.mark.parametrize(
    ("op_type", "constants"),
    [
        ("BatchNormalization", [*NORMALIZATION[:3], [0.5, -1.5, 0.9, 2]]),
        ("Add", [COLUMN * [[[[np.inf]]]]]),
    ],
)
def test_a_factor_or_an_offset_that_is_not_finite_is_refused(op_type: str, constants: list[Any]) -> None:
    with pytest.raises(CompileError) as caught:
        lowered(channel_model(op_type, False, constants))
    assert str(caught.value) == (
        f"node 'op' ({op_type}): its constants give a channel a factor or an offset that is not finite"
    )


def test_a_constant_may_have_more_channels_than_its_operand() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 1, 6, 6]), 0.1, name="x.q")
    factors = builder.constant("factors", np.linspace(0.5, 1.5, 8, dtype=np.float32).reshape(1, 8, 1, 1))
    builder.output(builder.quantize(builder.node("Mul", [x, factors], name="scaled"), 0.1, name="y.q"))
    model = builder.build()
    inputs = random_inputs(model, np.random.default_rng(1))

    found = simulated(compile_model(model, base16()), inputs)["result"]

    assert found.shape == (1, 8, 6, 6)
    assert np.abs(found - run_onnx(model, inputs)["result"]).max() < 0.11  # one step; half of a value is a tie
