"""Names, layouts and element types at the ends of a translated model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.networks import NetworkBuilder
from tests.compiler.importers.tflite.runs import random_inputs, run, translate
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx


def ends(model: onnx.ModelProto) -> list[tuple[str, str, list[int]]]:
    values = (*model.graph.input, *model.graph.output)
    return [
        (v.name, onnx.TensorProto.DataType.Name(v.type.tensor_type.elem_type),
         [d.dim_value for d in v.type.tensor_type.shape.dim])
        for v in values
    ]  # fmt: skip


def refused(file: TfliteFile, *outputs: Tensor) -> str:
    with pytest.raises(CompileError) as error:
        translate(file, *outputs)
    return str(error.value)


def test_ends_are_those_of_the_file() -> None:
    net = NetworkBuilder((1, 6, 4, 3), 1)
    y = net.conv(net.x, 5, stride=2)
    model = translate(net.file, y)
    assert ends(model) == [("serving_default_input:0", "INT8", [1, 6, 4, 3]), (y.name, "INT8", [1, 3, 2, 5])]
    assert model.ir_version == 10
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 21)]


def test_transposes_stand_at_the_ends_only() -> None:
    net = NetworkBuilder((1, 8, 8, 3), 1)
    y = net.conv(net.x, 5)
    for _ in range(2):
        y = net.add(net.conv(y, 5), y)
    nodes = [node.op_type for node in translate(net.file, y).graph.node]
    assert nodes.count("Transpose") == 2
    assert nodes[-1] == "Transpose"


def test_an_output_that_is_read_again_keeps_its_name() -> None:
    net = NetworkBuilder((1, 6, 4, 3), 1)
    first = net.conv(net.x, 5)
    second = net.conv(first, 5)
    whole = translate(net.file, second, first)
    inputs = random_inputs(net.file, np.random.default_rng(1))
    came = run(whole, inputs)
    assert list(came) == [second.name, first.name]
    np.testing.assert_array_equal(came[first.name], run(translate(net.file, first), inputs)[first.name])


def test_the_same_floats_twice() -> None:
    file = TfliteFile()
    x = file.input("x", (2, 3))
    outputs = [file.tensor(name, (2, 3), None, dtype=np.float32) for name in ("a", "b")]
    for output in outputs:
        file.operator("DEQUANTIZE", [x], output, "DequantizeOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    came = run(translate(file, *outputs), inputs)
    np.testing.assert_array_equal(came["a"], came["b"])
    np.testing.assert_allclose(came["a"], x.real(inputs["x"]), rtol=1e-6)


def test_names_that_several_tensors_have() -> None:
    file = TfliteFile()
    x = file.input("same", (2, 3))
    middle, y = file.tensor("same", (2, 3)), file.tensor("y", (2, 3))
    file.operator("RELU", [x], middle)
    file.operator("RELU6", [middle], y)
    assert [name for name, *_ in ends(translate(file, y))] == ["same", "y"]


def test_refuses_an_input_and_an_output_of_one_name() -> None:
    file = TfliteFile()
    x, y = file.input("same", (2, 3)), file.tensor("same", (2, 3))
    file.operator("RELU", [x], y)
    assert refused(file, y) == "net: the graph: 'same' names several inputs or outputs; expected different names"


def test_refuses_a_tensor_that_nobody_computes() -> None:
    file = TfliteFile()
    file.input("x", (2, 3))
    ghost, y = file.tensor("ghost", (2, 3)), file.tensor("y", (2, 3))
    file.operator("RELU", [ghost], y)
    assert refused(file, y) == (
        "net: operator 0 (RELU): tensor 1 'ghost': is read before any operator has computed it"
    )  # fmt: skip


def test_refuses_an_output_that_nobody_computes() -> None:
    file = TfliteFile()
    x, ghost, y = file.input("x", (2, 3)), file.tensor("ghost", (2, 3)), file.tensor("y", (2, 3))
    file.operator("RELU", [x], y)
    assert (
        refused(file, ghost)
        == "net: the graph: tensor 1 'ghost': is an output of the graph, but no operator computes it"
    )


def test_refuses_a_tensor_computed_twice() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    for _ in range(2):
        file.operator("RELU", [x], y)
    assert refused(file, y) == (
        "net: operator 1 (RELU): tensor 1 'y': is computed here, but is constant, an input or computed before"
    )


def test_refuses_a_constant_output() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator("RELU", [x], y)
    constant = file.constant("constant", np.zeros((2, 3), np.int8), [0.5])
    assert refused(file, constant) == (
        "net: the graph: tensor 2 'constant': is an output of the graph, but constant; expected a computed one"
    )


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    net = NetworkBuilder((1, 6, 4, 3), 1)
    content = net.file.content(net.conv(net.x, 5))
    (tmp_path / "net.bin").write_bytes(content)
    assert import_onnx(tmp_path / "net.bin").inputs == ("serving_default_input:0",)
    assert import_onnx(content).inputs == ("serving_default_input:0",)


def test_a_file_that_says_tflite_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"no network")
    with pytest.raises(CompileError) as error:
        import_onnx(path)
    assert str(error.value) == f"{path}: not a TFLite file (10 bytes): bytes 4 to 8 are not b'TFL3'"


def test_a_constant_among_the_inputs_is_a_constant() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    by = file.constant("by", np.int8([1, 2, 3]), [0.5])
    file.inputs.append(by)
    file.operator("ADD", [x, by], y, "AddOptions")
    assert [value.name for value in translate(file, y).graph.input] == ["x"]


def test_all_operators_without_a_translation_are_named() -> None:
    file = TfliteFile()
    x = file.input("x", (2, 3))
    tensors = [file.tensor(f"t{i}", (2, 3)) for i in range(3)]
    file.operator("WHERE", [x], tensors[0])
    file.operator("RELU", [tensors[0]], tensors[1])
    file.operator("RELU", [x, x], tensors[2])
    with pytest.raises(CompileError) as error:
        translate(file, *tensors[1:])
    assert str(error.value) == (
        "net: 2 operators have no translation. operator 0 (WHERE): has no lowering. operator 2 (RELU): has 2 inputs; "
        "expected 1"
    )
