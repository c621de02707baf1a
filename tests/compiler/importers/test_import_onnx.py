"""ONNX files to level 1: what is right comes out complete, what is not gets one message that says what to do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import OPSET, conv_model, gemm_model, run_onnx
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.simplify.steps import simplify_graph


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return conv_model(np.random.default_rng(1))


def changed(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], object]) -> bytes:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy.SerializeToString()


def refusal(content: bytes) -> str:
    with pytest.raises(CompileError) as caught:
        import_onnx(content)
    return str(caught.value)


def test_reads_operators_types_and_constants(model: onnx.ModelProto) -> None:
    graph = import_onnx(model.SerializeToString())
    conv = next(operator for operator in graph.operators if operator.kind == "onnx.Conv")
    assert (conv.name, conv.nodes, conv.attributes["kernel_shape"]) == ("conv", ("conv",), (3, 3))
    assert graph.tensors[conv.outputs[0]].shape == (1, 5, 6, 6)
    assert (graph.inputs, graph.outputs, graph.opset) == (("x",), {"result": "result"}, 17)
    assert graph.constants["conv.weight"].dtype == np.int8


def test_reads_a_path(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    assert len(import_onnx(path).operators) == len(model.graph.node)


def test_reads_weights_from_another_file(model: onnx.ModelProto, tmp_path: Path) -> None:
    options = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    onnx.save_model(copy, tmp_path / "net.onnx", **options)
    graph = import_onnx(tmp_path / "net.onnx")
    expected = next(t for t in model.graph.initializer if t.name == "conv.weight")
    assert np.array_equal(graph.constants["conv.weight"], numpy_helper.to_array(expected))
    assert "keeps weights in other files" in refusal((tmp_path / "net.onnx").read_bytes())
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(CompileError, match="weights in another file cannot be read"):
        import_onnx(tmp_path / "net.onnx")


def test_constant_nodes_become_constants(model: onnx.ModelProto) -> None:
    def add_constant(copy: onnx.ModelProto) -> None:
        value = numpy_helper.from_array(np.float32(0.25), "value")
        copy.graph.node.insert(0, helper.make_node("Constant", [], ["c"], name="c", value=value))

    graph = import_onnx(changed(model, add_constant))
    assert graph.constants["c"] == np.float32(0.25)
    assert all(operator.name != "c" for operator in graph.operators)


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        import_onnx("no/such/net.onnx")
    assert str(caught.value) == "no/such/net.onnx: cannot be read: No such file or directory"


def test_a_truncated_file_is_refused_at_every_length(model: onnx.ModelProto) -> None:
    content = model.SerializeToString()
    for length in range(0, len(content) - 8, max(1, len(content) // 150)):
        with pytest.raises(CompileError):
            import_onnx(content[:length])


def test_a_text_is_no_onnx_file() -> None:
    assert refusal(b"not an onnx file") == (
        "the ONNX model: not an ONNX file, or a truncated or damaged one (16 bytes)"
    )


@pytest.mark.parametrize("opset", [7, OPSET])
def test_flipped_bits_never_end_in_a_traceback(opset: int, model: onnx.ModelProto) -> None:
    network = model if opset == OPSET else old_network(opset)
    content, rng = network.SerializeToString(), np.random.default_rng(5)
    for _ in range(300):
        damaged = bytearray(content)
        for position in rng.integers(len(content), size=3):
            damaged[position] ^= 1 << int(rng.integers(8))
        try:
            import_onnx(bytes(damaged))
        except CompileError as error:
            assert "\n" not in str(error)


def test_an_unknown_operator_is_named(model: onnx.ModelProto) -> None:
    content = changed(model, lambda copy: setattr(copy.graph.node[-1], "op_type", "Frobnicate"))
    assert refusal(content) == "node 'conv.q.dequantize': unknown operator Frobnicate; opset 17 has none of that name"


def test_an_operator_of_another_domain_is_named(model: onnx.ModelProto) -> None:
    content = changed(model, lambda copy: setattr(copy.graph.node[-1], "domain", "com.example"))
    assert refusal(content) == (
        "node 'conv.q.dequantize': unknown operator DequantizeLinear of the domain 'com.example'; "
        "expected operators of ONNX"
    )


def test_an_unknown_attribute_is_named(model: onnx.ModelProto) -> None:
    def add_attribute(copy: onnx.ModelProto) -> None:
        conv = next(node for node in copy.graph.node if node.op_type == "Conv")
        conv.attribute.append(helper.make_attribute("colour", 3))

    assert refusal(changed(model, add_attribute)) == (
        "node 'conv' (Conv): unknown attribute 'colour'; "
        "it has: auto_pad, dilations, group, kernel_shape, pads, strides"
    )


@pytest.mark.parametrize(("dimension", "shown"), [("batch", "batch"), ("", "?")])
def test_an_open_shape_is_refused(model: onnx.ModelProto, dimension: str, shown: str) -> None:
    def make_dynamic(copy: onnx.ModelProto) -> None:
        size = copy.graph.input[0].type.tensor_type.shape.dim[0]
        size.Clear()
        if dimension:
            size.dim_param = dimension

    assert refusal(changed(model, make_dynamic)) == (
        f"the ONNX model: input 'x' has the open shape [{shown}, 3, 8, 8]; expected numbers. "
        "Say them, as in --shape x=1x3x8x8"
    )


@pytest.mark.parametrize("version", [6, 99])
def test_an_opset_that_is_too_old_or_new_is_refused(model: onnx.ModelProto, version: int) -> None:
    message = refusal(changed(model, lambda copy: setattr(copy.opset_import[0], "version", version)))
    newest = onnx.defs.onnx_opset_version()
    assert message == (
        f"the ONNX model: uses opset {version}; expected 7 to {newest}. Export the model anew with one of these"
    )


def old_network(opset: int) -> onnx.ModelProto:
    """Operators whose form changed with opset 11, on floats; weights are inputs too, as IR version 3 asks."""
    rng = np.random.default_rng(2)
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)), "gamma": rng.normal(size=4), "beta": rng.normal(size=4),
        "mean": rng.normal(size=4), "variance": rng.uniform(1, 2, size=4), "dense": rng.normal(size=(36, 5)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Pad", ["x"], ["padded"], name="pad", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.25),
        helper.make_node("Conv", ["padded", "w"], ["c"], name="conv", strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"], name="norm"),
        helper.make_node("Clip", ["n"], ["k"], name="clip", min=0.0, max=6.0),
        helper.make_node("Dropout", ["k"], ["d"], name="dropout", ratio=0.3),
        helper.make_node("Squeeze", ["d"], ["s"], name="squeeze", axes=[0]),
        helper.make_node("Unsqueeze", ["s"], ["u"], name="unsqueeze", axes=[0]),
        helper.make_node("Flatten", ["u"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "dense"], ["y"], name="dense"),
    ]
    values = {name: numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, tensor.dims) for name, tensor in values.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])
    graph = helper.make_graph(nodes, "old", inputs, [y], list(values.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_an_old_opset_is_converted_and_means_the_same(opset: int) -> None:
    old = old_network(opset)
    graph = import_onnx(old.SerializeToString())
    assert {"pad", "conv", "norm", "clip"} <= {operator.name for operator in graph.operators}
    inputs = {"x": np.random.default_rng(4).normal(size=(1, 3, 6, 6)).astype(np.float32)}
    assert np.allclose(run_graph(graph, inputs)["y"], run_onnx(old, inputs)["y"], rtol=1e-4, atol=1e-5)


def test_a_quantised_model_of_opset_10_is_the_same_network() -> None:
    new = gemm_model(np.random.default_rng(1), op_type="MatMul")
    for node in new.graph.node:
        if node.name == "gemm.weight_dq":
            del node.attribute[:]  # opset 10 has no axis; its default is this one
    old = onnx.ModelProto()
    old.CopyFrom(new)
    old.opset_import[0].version = 10
    old.ir_version = 5
    before, after = (simplify_graph(import_onnx(model.SerializeToString())) for model in (new, old))
    assert [(o.kind, o.name, o.inputs) for o in before.operators] == [
        (o.kind, o.name, o.inputs) for o in after.operators
    ]


def test_shapes_that_contradict_are_refused() -> None:
    model = gemm_model(np.random.default_rng(1), inputs=20)
    content = changed(model, lambda copy: setattr(copy.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", 21))
    assert refusal(content).startswith("the ONNX model: shapes do not fit: ")


def test_a_result_whose_shape_depends_on_data_is_refused(model: onnx.ModelProto) -> None:
    def add_nonzero(copy: onnx.ModelProto) -> None:
        copy.graph.node.append(helper.make_node("NonZero", ["x"], ["places"], name="nonzero"))
        copy.graph.output.append(helper.make_tensor_value_info("places", TensorProto.INT64, [4, "count"]))

    assert "depends on data; expected fixed sizes" in refusal(changed(model, add_nonzero))


def test_a_declared_shape_may_be_open_where_inference_knows_it(model: onnx.ModelProto) -> None:
    def open_output(copy: onnx.ModelProto) -> None:
        copy.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"

    assert import_onnx(changed(model, open_output)).tensors["result"].shape == (1, 5, 6, 6)


def test_control_flow_is_refused(model: onnx.ModelProto) -> None:
    def add_branch(copy: onnx.ModelProto) -> None:
        branch = helper.make_graph([], "branch", [], [])
        node = helper.make_node("If", ["x"], ["y"], name="if", then_branch=branch, else_branch=branch)
        copy.graph.node.append(node)

    assert refusal(changed(model, add_branch)) == "node 'if' (If): control flow has no lowering; unroll or remove it"


def test_nodes_without_names_get_one_each(model: onnx.ModelProto) -> None:
    def remove_names(copy: onnx.ModelProto) -> None:
        for node in copy.graph.node:
            node.name = ""

    names = [operator.name for operator in import_onnx(changed(model, remove_names)).operators]
    assert len(set(names)) == len(model.graph.node)
    assert "Conv_4" in names
