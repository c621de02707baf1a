"""Lowered networks against unoptimised ONNX Runtime, and what lowering refuses."""

import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.compiler.models import (
    ModelBuilder,
    conv_model,
    flatten_gemm_model,
    gemm_model,
    pool_model,
    rescaled,
    residual_model,
    run_onnx,
    small_cnn,
)
from tests.compiler.pipelines import DIGITS, base16, distances, lowered, simplified, simulated, steps_apart
from tests.stored_values import stored_values
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.text import parse_graph, print_graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.lowerings import LOWERINGS
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.interpreter import run_nest, run_nests
from tilewright.compiler.nest.nest import Affine
from tilewright.compiler.nest.space import products_of
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.simplify.kinds import NAMING
from tilewright.compiler.simplify.steps import simplify_graph
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op

ALL_SIDES = [1, 1, 1, 1]
AVERAGE = {
    "op_type": "AveragePool", "channels": 16, "size": 9, "kernel": 3, "stride": 2, "pads": ALL_SIDES,
    "same_scale": False,
}  # fmt: skip

# Inputs per model, its builder and its arguments; each gives tens of thousands of values. Scales of pools are not
# decimal fractions of each other: sums would often be just between two values, where float32's noise decides.
ONE_OPERATOR: dict[str, tuple[int, Any, dict[str, Any]]] = {
    "conv_3x3": (6, conv_model, {"channels_in": 16, "channels_out": 24, "size": 12, "pads": ALL_SIDES, "relu": True}),
    "conv_strided": (
        40, conv_model,
        {"channels_in": 8, "channels_out": 8, "size": [11, 17], "kernel": [3, 5], "stride": [2, 1],
         "pads": [0, 2, 1, 1], "dilations": [1, 2]},
    ),
    "conv_grouped": (
        20, conv_model,
        {"channels_in": 8, "channels_out": 12, "group": 4, "pads": ALL_SIDES, "bias": "float", "batch": 3},
    ),
    "conv_depthwise": (20, conv_model, {"channels_in": 16, "channels_out": 16, "group": 16, "pads": ALL_SIDES}),
    "conv_same_upper": (
        40, conv_model,
        {"channels_in": 4, "channels_out": 16, "size": 9, "stride": 2, "auto_pad": "SAME_UPPER", "bias": "none"},
    ),
    "conv_same_lower": (
        40, conv_model, {"channels_in": 4, "channels_out": 16, "size": [8, 9], "stride": 2, "auto_pad": "SAME_LOWER"}
    ),
    "conv_valid": (
        20, conv_model, {"channels_in": 4, "channels_out": 16, "size": 9, "auto_pad": "VALID", "per_channel": False}
    ),
    "max_pool": (20, pool_model, {"channels": 16, "kernel": 3, "stride": 2, "pads": ALL_SIDES}),
    "max_pool_ceil": (20, pool_model, {"channels": 16, "kernel": 3, "stride": 2, "ceil_mode": 1}),
    "max_pool_rescaled": (20, pool_model, {"channels": 16, "same_scale": False, "relu": True}),
    "global_max": (100, pool_model, {"op_type": "GlobalMaxPool", "channels": 32, "same_scale": False}),
    "average_pool": (30, pool_model, AVERAGE),
    "average_pool_padded": (30, pool_model, {**AVERAGE, "count_include_pad": 1}),
    "average_pool_ceil": (30, pool_model, {**AVERAGE, "size": 8, "ceil_mode": 1}),
    "global_average": (100, pool_model, {"op_type": "GlobalAveragePool", "channels": 64, "same_scale": False}),
    "gemm": (30, gemm_model, {"rows": 20, "outputs": 40}),
    "gemm_relu": (30, gemm_model, {"rows": 20, "outputs": 40, "relu": True, "bias": "float"}),
    "gemm_scaled": (30, gemm_model, {"rows": 20, "outputs": 40, "transB": 0, "alpha": 0.5, "beta": 2.0}),
    "matmul": (30, gemm_model, {"rows": 20, "outputs": 40, "op_type": "MatMul"}),
    "flatten": (300, flatten_gemm_model, {"outputs": 64}),
    "reshape": (300, flatten_gemm_model, {"outputs": 64, "layout": "Reshape"}),
}  # fmt: skip


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("name", ONE_OPERATOR)
def test_one_operator_is_within_one_step_and_nearly_always_equal(name: str, activation: type) -> None:
    count, build, arguments = ONE_OPERATOR[name]
    model = build(np.random.default_rng(11), **arguments, activation=activation)
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=count)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999, f"{(apart != 0).sum()} of {apart.size}"


def add_model(rng: np.random.Generator, activation: type) -> onnx.ModelProto:
    builder = ModelBuilder(rng, activation=activation)
    a = builder.quantize(builder.input("a", [1, 16, 10, 10]), 0.0912345, name="a.q")
    b = builder.quantize(builder.input("b", [1, 16, 10, 10]), 0.0367891, name="b.q")
    builder.output(builder.quantize(builder.node("Add", [a, b], name="add"), 0.1123581, name="y.q"))
    return builder.build()


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
def test_add_is_within_one_step_and_nearly_always_equal(activation: type) -> None:
    model = add_model(np.random.default_rng(2), activation)
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=30)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


@pytest.mark.parametrize("build", [residual_model, small_cnn])
def test_networks_stay_close(build: Any) -> None:
    model = build(np.random.default_rng(5))
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=8)
    assert apart.max() <= 2
    assert (apart == 0).mean() >= 0.9


@pytest.fixture(scope="module")
def digits() -> onnx.ModelProto:
    return onnx.load(DIGITS / "digits_int8.onnx")


def test_every_layer_of_digits_is_within_one_step_and_nearly_always_equal(digits: onnx.ModelProto) -> None:
    """Each nest from ONNX Runtime's own inputs of that layer, over 40 images."""
    program = lowered(digits)
    quantized = {"image": "image_QuantizeLinear_Output", "logits": "logits_QuantizeLinear_Output"}
    quantized["maxpool.out.integers"] = "maxpool.out_QuantizeLinear_Output"
    tensors = {name: quantized.get(name, name) for name in program.buffers}
    probe = onnx.ModelProto()
    probe.CopyFrom(digits)
    probe.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.INT8, None) for n in tensors.values())
    different = dict.fromkeys((nest.name for nest in program.nests), 0)
    total = dict(different)
    for image in np.load(DIGITS / "images.npz")["images"][:40]:
        values = run_onnx(probe, {"image": image[None]})
        buffers = {n: stored_values(values[t], program, program.buffers[n]) for n, t in tensors.items()}
        for nest in program.nests:
            computed = np.zeros_like(buffers[nest.result.tensor])
            run_nest(nest, {**program.constants, **buffers}, computed)
            apart = np.abs(computed - buffers[nest.result.tensor])
            assert apart.max() <= 1
            different[nest.name] += int((apart != 0).sum())
            total[nest.name] += apart.size
    assert all(different[name] <= total[name] * 0.001 for name in total), (different, total)


def test_digits_says_what_onnx_runtime_says(digits: onnx.ModelProto) -> None:
    program = fuse(lowered(digits))
    for image in np.load(DIGITS / "images.npz")["images"][:60]:
        expected = run_onnx(digits, {"image": image[None]})["logits"]
        computed = run_nests(program, {"image": image[None]})["logits"]
        assert computed.argmax() == expected.argmax()
        assert steps_apart(computed, expected, program.outputs[0]).max() <= 2


def test_digits_is_quick() -> None:
    """A bound of ten times what is usual, so that only a change of the order of growth fails it."""
    machine = base16()
    start = time.perf_counter()
    lower(simplify_graph(import_onnx(DIGITS / "digits_int8.onnx")), machine)
    assert time.perf_counter() - start < 0.5


# -- form --------------------------------------------------------------------------------------------------------------


def test_expressions_have_the_form_of_the_machines_statements() -> None:
    program = lowered(add_model(np.random.default_rng(2), np.int8))
    statement = base16().format("add").statement.expr
    (nest,) = program.nests

    def shape(expr: Any) -> Any:
        return expr.op.value, tuple(shape(arg) if arg.args else "leaf" for arg in expr.args)

    assert shape(nest.expr) == shape(statement)


def test_the_sum_has_the_bound_that_the_weights_give() -> None:
    program = lowered(conv_model(np.random.default_rng(1)))
    weights = program.constants["conv.weight"]
    (total,) = (node for node in walk(program.nests[0].expr) if node.op is Op.SUM)
    high = max(sum(127 * w if w > 0 else -128 * w for w in map(int, channel.ravel())) for channel in weights)
    low = min(sum(-128 * w if w > 0 else 127 * w for w in map(int, channel.ravel())) for channel in weights)
    assert total.range == Interval(low, high)


def test_macs_count_the_operators_products() -> None:
    program = lowered(conv_model(np.random.default_rng(1), 8, 12, 10, group=4, pads=ALL_SIDES, batch=2))
    assert program.nests[0].macs == 2 * 12 * 10 * 10 * (8 // 4) * 3 * 3
    assert lowered(pool_model(np.random.default_rng(1), "GlobalAveragePool")).nests[0].macs == 0


def test_grouped_weights_are_block_diagonal() -> None:
    program = lowered(conv_model(np.random.default_rng(1), 4, 6, group=2))
    weights = program.constants["conv.weight"]
    assert weights.shape == (6, 4, 3, 3)
    assert not weights[:3, 2:].any() and not weights[3:, :2].any()
    assert weights[:3, :2].any() and weights[3:, 2:].any()


def test_a_convolution_without_padding_never_reads_outside() -> None:
    (nest,) = lowered(conv_model(np.random.default_rng(1))).nests
    assert nest.reads["x"].outside is None


def test_an_average_over_fewer_elements_at_the_edges_is_several_parts() -> None:
    """5 windows of 3 along 9 elements, one of padding: 2, 3, 3, 3, 2 elements count, so 3 × 3 boxes."""
    model = pool_model(np.random.default_rng(1), "AveragePool", size=9, kernel=3, stride=2, pads=ALL_SIDES)
    program = lowered(model)
    assert len(program.nests) == 9
    written = np.zeros((5, 5), int)
    for nest in program.nests:
        trips = {loop.name: loop.trip for loop in nest.loops}
        y, x = nest.result.index[2].constant, nest.result.index[3].constant
        written[y : y + trips["y"], x : x + trips["x"]] += 1
    assert (written == 1).all()


def test_one_dimensional_convolutions_are_rows() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [2, 4, 30]), 0.1, name="x.q")
    weight, _ = builder.weights("conv", [6, 4, 5])
    y = builder.node("Conv", [x, weight], name="conv", kernel_shape=[5], pads=[1, 2], strides=[2], dilations=[2])
    y = builder.node("MaxPool", [builder.quantize(y, 5.0, name="c")], name="pool", kernel_shape=[2], strides=[2])
    builder.output(y)
    model = builder.build()
    program = lowered(model)
    assert program.inputs[0].stored == (2, 4, 1, 30) and program.outputs[0].shape == (2, 6, 6)
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


def test_a_flattened_output_is_only_described_otherwise() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    y = builder.quantize(builder.node("GlobalAveragePool", [x]), 0.05)
    builder.output(builder.node("Flatten", [y], name="flatten"))
    (output,) = lowered(builder.build()).outputs
    assert (output.shape, output.stored) == ((1, 3), (1, 3, 1, 1))


@pytest.mark.parametrize(("element", "dtype"), [(TensorProto.INT8, np.int8), (TensorProto.UINT8, np.uint8)])
def test_integer_inputs_and_outputs(element: int, dtype: type) -> None:
    builder = ModelBuilder(np.random.default_rng(3), activation=dtype)
    scale, zero = builder.constant("s", np.float32(0.1)), builder.constant("z", np.array(7, dtype))
    x = builder.node("DequantizeLinear", [builder.input("x", [1, 3, 6, 6], element), scale, zero])
    y = builder.node("MaxPool", [x], kernel_shape=[2, 2])
    scale, zero = builder.constant("s2", np.float32(0.13)), builder.constant("z2", np.array(30, dtype))
    builder.output(builder.node("QuantizeLinear", [y, scale, zero]), element=element)
    model = builder.build()
    program = lowered(model)
    assert program.inputs[0].dtype == program.outputs[0].dtype == np.dtype(dtype).name
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


def test_an_output_that_is_an_input_too_is_copied() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    builder.output(x)
    model = builder.build()
    program = lowered(model)
    assert [str(nest.expr) for nest in program.nests] == ["a"]
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() == 0


def test_two_outputs_of_one_tensor_and_a_use_inside() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    y = builder.quantize(builder.node("MaxPool", [x], kernel_shape=[2, 2]), 0.2, name="y.q")
    again = builder.node("Identity", [y], name="again")
    z = builder.quantize(builder.node("GlobalAveragePool", [y]), 0.05, name="z.q")
    for tensor, name in ((again, "first"), (y, "second"), (z, "third")):
        builder.output(tensor, name)
    model = builder.build()
    program = lowered(model)
    assert [tensor.name for tensor in program.outputs] == ["first", "second", "third"]
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


def test_an_operand_that_is_broadcast_stays_put() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    mean = builder.quantize(builder.node("GlobalAveragePool", [x]), 0.05, name="m.q")
    builder.output(builder.quantize(builder.node("Add", [x, mean], name="add"), 0.2, name="y.q"))
    model = builder.build()
    program = lowered(model)
    assert program.nests[-1].reads["b"].index[2:] == (Affine(()), Affine(()))
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


# -- numbers at their ends ---------------------------------------------------------------------------------------------


def with_bias(bias: int, channel_scale: float = 2**-7, zero: int = -128) -> onnx.ModelProto:
    """A 1×1 convolution with one weight of 1 and one bias; the input's scale is 1/8."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 1, 4, 4]), 0.125, zero, name="x.q")
    s = builder.constant("ws", np.float32(channel_scale))
    weight = builder.constant("w", np.full((1, 1, 1, 1), 100, np.int8))
    w = builder.node("DequantizeLinear", [weight, s, builder.constant("wz", np.int8(0))], name="w.dq")
    inputs = [
        builder.constant("b", np.array([bias], np.int32)),
        builder.constant("bs", np.float32(0.125 * channel_scale)),
    ]
    b = builder.node("DequantizeLinear", [*inputs, builder.constant("bz", np.int32(0))], name="b.dq")
    y = builder.node("Conv", [x, w, b], name="conv", kernel_shape=[1, 1])
    builder.output(builder.quantize(y, 0.1, 0, name="y.q"))
    return builder.build()


def test_the_zero_point_is_folded_into_the_bias() -> None:
    program = lowered(with_bias(5000))
    assert program.constants["conv.bias"].tolist() == [5000 + 128 * 100]


@pytest.mark.parametrize(("bias", "zero"), [(2**31 - 1, -128), (-(2**31), 127)])
def test_a_bias_beyond_the_width_that_saturates_anyway_is_kept_at_the_end(bias: int, zero: int) -> None:
    """A dead channel: 2**31 - 1 + 128 · 100 does not fit; with any input the result is 127, before and after."""
    model = with_bias(bias, zero=zero)
    program = lowered(model)
    assert program.constants["conv.bias"].tolist() == [bias]
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() == 0


@pytest.mark.parametrize(
    ("bias", "zero", "folded"), [(2**31 - 1, -128, 2**31 - 1 + 128 * 100), (-(2**31), 127, -(2**31) - 127 * 100)]
)
def test_a_bias_that_would_overflow_is_refused(bias: int, zero: int, folded: int) -> None:
    """With a weight scale of 2**-33 the same bias is only a small value, so it cannot be cut off."""
    with pytest.raises(CompileError) as caught:
        lowered(with_bias(bias, channel_scale=2**-33, zero=zero))
    assert str(caught.value) == (
        f"node 'conv' (conv): the bias of channel 0 with the input's zero point folded in is {folded}; "
        "expected -2147483648 to 2147483647"
    )


@pytest.mark.parametrize(
    ("bias", "zero", "nearest", "kept", "refused"),
    [(2**31 - 1, -128, -128, 128.5, 127.5), (-(2**31), 127, 127, -129.5, -128.5)],
)
def test_a_bias_is_cut_off_only_where_no_sum_comes_within_a_step_of_the_limits(
    bias: int, zero: int, nearest: int, kept: float, refused: float
) -> None:
    """The input `nearest`, times the weight 100, makes the sum that comes nearest to the limits; it is `kept` steps."""
    channel_scales = (0.8 * steps / (bias + 100 * nearest) for steps in (kept, refused))
    outside, inside = (with_bias(bias, scale, zero) for scale in channel_scales)
    assert lowered(outside).constants["conv.bias"].tolist() == [bias]
    with pytest.raises(CompileError, match="with the input's zero point folded in"):
        lowered(inside)


def test_narrower_multipliers_are_used_where_the_machine_has_them() -> None:
    model = conv_model(np.random.default_rng(1), 16, 16)
    narrow = load_machine("base16", ["memories.par.element.scale=uint12"])
    scales = lower(simplified(model), narrow).constants["conv.scale"]
    assert scales.min() >= 1 << 11 and scales.max() < 1 << 12


def asymmetric(values: range, zero: int, dtype: type, outputs: int = 5) -> onnx.ModelProto:
    """A convolution with weights of these values and one zero point."""
    model = conv_model(np.random.default_rng(1), 3, outputs, per_channel=False)
    weights = np.random.default_rng(2).choice(np.array(values), size=(outputs, 3, 3, 3)).astype(dtype)
    weights.flat[:2] = values[0], values[-1]
    changed = {"conv.weight": weights, "conv.weight_zero": np.array(zero, dtype)}
    for tensor in model.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(onnx.numpy_helper.from_array(changed[tensor.name], tensor.name))
    del model.graph.value_info[:]
    return rescaled(model)


@pytest.mark.parametrize(
    ("values", "zero", "dtype"),
    [(range(3, 256), 128, np.uint8), (range(0, 228), 101, np.uint8), (range(-128, 103), -25, np.int8)],
)
def test_asymmetric_weights_that_fit_once_centred(values: range, zero: int, dtype: type) -> None:
    model = asymmetric(values, zero, dtype)
    program = lowered(model)
    weights = program.constants["conv.weight"]
    assert (weights.min(), weights.max()) == (values[0] - zero, values[-1] - zero)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=100)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


@pytest.mark.parametrize(
    ("values", "zero", "dtype", "numbers"),
    [(range(256), 131, np.uint8, [-3]), (range(256), 100, np.uint8, [28]), (range(256), 0, np.uint8, [127, 1])],
)
def test_asymmetric_weights_that_do_not_fit_share_a_number(
    values: range, zero: int, dtype: type, numbers: list[int]
) -> None:
    model = asymmetric(values, zero, dtype, outputs=40)
    nests, program = lowered(model), compile_model(model, base16())
    weights = nests.constants["conv.weight"]
    assert (weights.shape[0], weights.min(), weights.max()) == (40, -128, 127)
    total = next(node for node in walk(nests.nests[0].expr) if node.op is Op.SUM)
    products = products_of(total.args[0])
    assert products is not None and [number for _, number in products.numbers] == numbers
    for run in (lambda inputs: run_nests(nests, inputs), lambda inputs: simulated(program, inputs)):
        apart = distances(model, run)
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.99


def test_few_asymmetric_weights_that_do_not_fit_are_a_second_term() -> None:
    model = asymmetric(range(255), 127, np.uint8)
    for tensor in model.graph.initializer:
        if tensor.name == "conv.weight":
            values = onnx.numpy_helper.to_array(tensor).copy()
            values[2, 1, 0, 2] = 255
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    nests = lowered(model)
    excess = nests.constants["conv.weight"][:, :, 1]
    assert (np.count_nonzero(excess), excess.sum()) == (1, 1)
    assert distances(model, lambda inputs: run_nests(nests, inputs)).max() <= 1


def test_asymmetric_weights_are_one_sum_on_a_machine_that_cannot_add_to_sums() -> None:
    plain = load_machine("base16", ["instructions.mma.flags=[]", "instructions.mma_transposed.flags=[]"])
    model = asymmetric(range(256), 100, np.uint8)
    program = compile_model(model, plain)
    assert distances(model, lambda inputs: simulated(program, inputs)).max() <= 1


def test_weights_of_groups_that_do_not_fit_become_a_sum_of_parts() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [1, 8, 6, 6]), 0.05)
    values = np.random.default_rng(2).integers(0, 256, (8, 4, 3, 3)).astype(np.uint8)
    constants = builder.constant("w", values), builder.constant("s", np.float32(0.01))
    zero = builder.constant("z", np.array(100, np.uint8))
    weights = builder.node("DequantizeLinear", [*constants, zero], name="w.dq")
    builder.output(builder.quantize(builder.node("Conv", [x, weights], name="conv", group=2), 1.0))
    model = rescaled(builder.build())
    nests = lowered(model)
    assert next(loop.trip for loop in nests.nests[0].loops if loop.name == "t") == 2
    assert distances(model, lambda inputs: run_nests(nests, inputs)).max() <= 1


def reshape_in_the_middle() -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 4, 8, 8]), 0.1, name="x.q")
    x = builder.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    shape = builder.constant("shape", np.array([1, 16, 2, 2], np.int64))
    y = builder.node("Reshape", [x, shape], name="reshape")
    builder.output(builder.quantize(builder.node("GlobalAveragePool", [y]), 0.1))
    return builder.build()


def test_a_reshape_in_the_middle_moves_elements() -> None:
    model = reshape_in_the_middle()
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1


def test_a_text_in_which_a_reshape_moves_elements_is_refused() -> None:
    text = print_graph(simplified(reshape_in_the_middle())).replace('"graph.permute"', '"graph.reshape"')
    with pytest.raises(CompileError) as caught:
        lower(parse_graph(text), base16())
    assert str(caught.value) == (
        "node 'reshape' (reshape): the result [1, 16, 2, 2] is laid out otherwise than [1, 4, 4, 4]; expected a "
        "reshape that keeps [N, C, H, W], or one before a product with constant weights (Gemm, MatMul)"
    )


def test_a_reshape_at_the_ends_is_the_hosts() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [4, 4, 8]), 0.0912345, name="x.q")
    x = builder.node("Reshape", [x, builder.constant("inner", np.array([1, 8, 4, 4], np.int64))], name="first")
    pooled = builder.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    y = builder.quantize(pooled, 0.0812347)
    builder.output(builder.node("Reshape", [y, builder.constant("outer", np.array([2, 16], np.int64))], name="last"))
    model = builder.build()
    program = lowered(model)
    assert (program.inputs[0].stored, program.outputs[0].stored) == ((1, 8, 4, 4), (1, 8, 2, 2))
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=20)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99


def test_a_graph_that_is_not_simplified_is_refused() -> None:
    graph = import_onnx(conv_model(np.random.default_rng(1)).SerializeToString())
    with pytest.raises(CompileError) as caught:
        lower(graph, base16())
    known = ", ".join((*LOWERINGS, *NAMING))
    assert str(caught.value) == f"node 'x.q.quantize' (QuantizeLinear): expected a simplified graph, of {known}"


def test_an_input_that_is_quantised_twice_is_refused() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.input("x", [1, 4, 4, 4])
    a, b = builder.quantize(x, 0.1, name="a.q"), builder.quantize(x, 0.2, name="b.q")
    builder.output(builder.quantize(builder.node("Add", [a, b]), 0.2))
    with pytest.raises(CompileError, match="input 'x' is quantised in 2 ways; expected one scale and zero point"):
        lowered(builder.build())


def test_an_input_that_nothing_depends_on_is_refused() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    builder.input("unused", [1])
    builder.output(builder.quantize(builder.input("x", [1, 4, 4, 4]), 0.1))
    with pytest.raises(CompileError) as caught:
        lowered(builder.build())
    assert str(caught.value) == "input 'unused' does not reach an output; remove it from the model"
