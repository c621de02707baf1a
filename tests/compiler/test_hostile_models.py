"""Models that are wrong: an error that names node, tensor and remedy; never a traceback, a hang or a wrong program."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.compiler.models import random_inputs, residual_model, run_onnx, small_cnn
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

Change = Callable[[onnx.ModelProto], None]

CORRUPTED = 100


def model() -> onnx.ModelProto:
    return small_cnn(np.random.default_rng(1))


def initializer(of: onnx.ModelProto, ending: str) -> TensorProto:
    return next(tensor for tensor in of.graph.initializer if tensor.name.endswith(ending))


def set_value(of: onnx.ModelProto, ending: str, value: np.ndarray) -> None:
    tensor = initializer(of, ending)
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def without_weights(of: onnx.ModelProto) -> None:
    of.graph.initializer.remove(initializer(of, "weight"))


def in_a_cycle(of: onnx.ModelProto) -> None:
    of.graph.node[3].input[0] = of.graph.node[-1].output[0]


def out_of_order(of: onnx.ModelProto) -> None:
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in of.graph.node]
    del of.graph.node[:]
    of.graph.node.extend(reversed(nodes))


def shape_of_data(of: onnx.ModelProto) -> None:
    """A shape that depends on what the values are."""
    result = of.graph.output[0].name
    of.graph.node.extend(
        [
            helper.make_node("NonZero", [result], ["places"], name="places"),
            helper.make_node("Shape", ["places"], ["size"], name="size"),
            helper.make_node("Expand", [result, "size"], ["expanded"], name="expand"),
        ]
    )
    del of.graph.output[:]
    of.graph.output.append(helper.make_tensor_value_info("expanded", TensorProto.FLOAT, ["a", "b"]))


def turned_wrongly(of: onnx.ModelProto) -> None:
    """A Transpose of three dimensions, before a node that reads four."""
    conv = next(node for node in of.graph.node if node.op_type == "Conv")
    turn = helper.make_node("Transpose", [conv.input[0]], ["turned"], name="turn", perm=[0, 2, 1])
    conv.input[0] = "turned"
    of.graph.node.insert(list(of.graph.node).index(conv), turn)


def with_choice(of: onnx.ModelProto, branches: int) -> None:
    """An If whose branches give nothing but a constant, or that lacks the second of them, or both."""
    value = numpy_helper.from_array(np.float32(1), "one")
    result = helper.make_tensor_value_info("one", TensorProto.FLOAT, [])
    branch = helper.make_graph([], "branch", [], [result], [value])
    given = dict.fromkeys(("then_branch", "else_branch")[:branches], branch)
    of.graph.input.append(helper.make_tensor_value_info("wanted", TensorProto.BOOL, []))
    of.graph.output.append(helper.make_tensor_value_info("chosen", TensorProto.FLOAT, []))
    of.graph.node.append(helper.make_node("If", ["wanted"], ["chosen"], name="choice", **given))


def with_choice_and_wrong_type(of: onnx.ModelProto) -> None:
    with_choice(of, 2)
    set_value(of, "bias", np.zeros(8, np.int64))


WRONG: dict[str, tuple[Change, str]] = {
    "missing weights": (without_weights, r"node 'conv1.weight_dq'.*'conv1.weight', which no node.*export"),
    "cycle": (in_a_cycle, r"node 'conv1.bias_dq'.*reads 'logits'.*a cycle; export it anew"),
    "order": (out_of_order, r"reads '.*', the result of node .*comes later; sort the nodes"),
    "NaN scale": (lambda m: set_value(m, "scale", np.float32(np.nan)), r"'image.q.scale', which holds NaN.*1 of 1"),
    "zero scale": (lambda m: set_value(m, "scale", np.float32(0)), r"'image.q.quantize'.*scale is 0.0; expected"),
    "negative scale": (lambda m: set_value(m, "scale", np.float32(-1)), r"'image.q.quantize'.*scale is -1.0; expected"),
    "infinite bias": (lambda m: set_value(m, "bias", np.full(8, np.inf, np.float32)), r"'conv1.bias'.*8 of 8 places"),
    "Transpose of another rank": (
        turned_wrongly,
        r"'turn' \(Transpose\): perm = \[0, 2, 1\]; expected each of 0 to 3 once",
    ),
    "If without a branch": (lambda m: with_choice(m, 1), r"'choice' \(If\): has no attribute 'else_branch'; expected"),
    "If without branches": (
        lambda m: with_choice(m, 0),
        r"no attribute 'else_branch'; expected else_branch and then_br",
    ),
    "fault beside an If": (with_choice_and_wrong_type, r"conv1.bias_dq"),
    "wrong type": (lambda m: set_value(m, "bias", np.zeros(8, np.int64)), r"conv1.bias_dq"),
}


@pytest.mark.parametrize("name", WRONG)
def test_names_node_and_tensor_and_what_to_do(name: str) -> None:
    change, message = WRONG[name]
    of = model()
    change(of)
    with pytest.raises(CompileError) as caught:
        tilewright.compile(of.SerializeToString(), "base16")
    assert re.search(message, str(caught.value)), str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


def test_a_shape_that_depends_on_data_is_the_hosts() -> None:
    of = model()
    shape_of_data(of)
    with pytest.raises(CompileError, match=r"'places'|'size'|'expand'|places_shape|expanded"):
        compile_model(of, load_machine("base16"))
    program = tilewright.compile(of.SerializeToString(), "base16")
    assert {"places", "size", "expand"} <= {node.name for node in program.host_nodes}
    inputs = random_inputs(of, np.random.default_rng(1))
    assert program.run(inputs).outputs["expanded"].shape == run_onnx(of, inputs)["expanded"].shape


def test_an_accumulator_that_could_overflow_is_never_computed_wrongly() -> None:
    """Biases of the order of 2**62 fit no accumulator: the layer runs on the host, or the model is refused."""
    of = model()
    scales = numpy_helper.to_array(initializer(of, "conv1.weight_scale")) * np.float32(1e-30)
    set_value(of, "conv1.weight_scale", scales)
    program = tilewright.compile(of.SerializeToString(), "base16")
    assert [node.name for node in program.host_nodes if "bias" in node.reason]
    inputs = random_inputs(of, np.random.default_rng(1))
    result, expected = program.run(inputs).outputs, run_onnx(of, inputs)
    for name, values in expected.items():
        assert np.abs(result[name] - values).max() <= 2 * numpy_helper.to_array(initializer(of, "logits.q.scale"))


def test_weights_in_a_file_that_is_absent(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(model(), path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(CompileError, match=r"model.onnx: weights in another file cannot be read.*weights.bin"):
        tilewright.compile(path, "base16")


def corrupted(content: bytes, seed: int) -> bytes:
    """A file with some bytes changed, or cut off at some byte."""
    rng = random.Random(seed)
    if seed % 4 == 0:
        return content[: rng.randrange(len(content))]
    damaged = bytearray(content)
    for _ in range(rng.choice((1, 2, 8))):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


@pytest.mark.slow
@pytest.mark.parametrize("build", [small_cnn, residual_model])
def test_corrupted_files_never_become_a_wrong_program(build: Callable[..., onnx.ModelProto]) -> None:
    """Refused with an error of ours; or, where ONNX Runtime can run what is left, the same results."""
    content = build(np.random.default_rng(1)).SerializeToString()
    refused = 0
    for seed in range(CORRUPTED):
        damaged = corrupted(content, seed)
        try:
            program = tilewright.compile(damaged, "base16")
        except (CompileError, IsaError) as error:
            refused += 1
            assert str(error) and len(str(error).splitlines()) <= 3, f"seed {seed}: {error}"
            continue
        left = onnx.ModelProto.FromString(damaged)
        inputs = random_inputs(left, np.random.default_rng(seed))
        try:
            expected = run_onnx(left, inputs)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            continue
        computed = program.run(inputs).outputs
        for name, values in expected.items():
            step = max((t.scale for t in program.outputs if t.name == name), default=1.0)
            apart = np.abs(np.nan_to_num(computed[name]) - np.nan_to_num(values)) / step
            assert np.quantile(apart, 0.9) <= 2, f"seed {seed}: {name} is {apart.max()} steps away"
    assert refused >= CORRUPTED // 4
