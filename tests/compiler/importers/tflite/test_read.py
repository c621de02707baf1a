"""The container: what a file says comes out as it is; what is damaged or outside of int8 networks is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tflite

from tests.compiler.importers.tflite.files import TfliteFile
from tests.compiler.importers.tflite.networks import mobilenet, resnet
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.importers.tflite.model import Quantized
from tilewright.compiler.importers.tflite.read import read_tflite

DAMAGED_FILES = 100

TABLES = 8_000
"""About how many bytes at a file's beginning are tables; the weights come after them."""

NETWORKS = [file.content(output) for file, output in (mobilenet(), resnet())]


def refused(content: bytes) -> str:
    with pytest.raises(CompileError) as error:
        read_tflite(content, "net")
    return str(error.value)


def relu_file(**extra: Any) -> bytes:
    """A file of one operator; `extra` are fields of its input tensor."""
    file = TfliteFile()
    x = file.input("x", extra.pop("shape", (2, 3)), 0.5, 7, extra.pop("dtype", np.int8), **extra)
    y = file.tensor("y", (2, 3))
    file.operator("RELU", [x], y)
    return file.content(y)


def test_tensors_and_operators() -> None:
    file = TfliteFile()
    x = file.input("x", (1, 4, 4, 2), 0.5, 7)
    values = np.arange(6, dtype=np.int8).reshape(3, 1, 1, 2)
    w = file.constant("w", values, [0.25, 0.5, 0.75], axis=0)
    y = file.tensor("y", (1, 2, 4, 3), 0.5, 7)
    file.operator("CONV_2D", [x, w, None], y, "Conv2DOptions", StrideH=2, StrideW=1, Padding=1)
    model = read_tflite(file.content(y), "net")
    assert (model.name, model.inputs, model.outputs) == ("test network", (0,), (2,))
    assert [(t.name, t.shape, t.dtype.name) for t in model.tensors] == [
        ("x", (1, 4, 4, 2), "int8"), ("w", (3, 1, 1, 2), "int8"), ("y", (1, 2, 4, 3), "int8"),
    ]  # fmt: skip
    assert model.tensors[0].quantized == Quantized((0.5,), (7,))
    assert model.tensors[1].quantized == Quantized((0.25, 0.5, 0.75), (0, 0, 0), 0)
    np.testing.assert_array_equal(model.tensors[1].value, values)
    (operator,) = model.operators
    assert (operator.kind, operator.inputs, operator.outputs) == ("CONV_2D", (0, 1, None), (2,))
    assert operator.options == {
        "table": "Conv2DOptions", "padding": 1, "stride_w": 1, "stride_h": 2, "fused_activation_function": 0,
        "dilation_w_factor": 1, "dilation_h_factor": 1, "quantized_bias_type": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (relu_file(shape=(2, -1)), "net: tensor 0 'x': has the shape [2, -1]; expected fixed, positive sizes"),
        (b"\xff\0\0\0TFL3", "net: a truncated or damaged TFLite file (8 bytes): its header cannot be read"),
        (b"", "net: not a TFLite file (0 bytes): bytes 4 to 8 are not b'TFL3'"),
    ],
)
def test_refuses(content: bytes, message: str) -> None:
    assert refused(content) == message


def test_refuses_types_below_a_byte() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator("RELU", [x], y)
    content = bytearray(file.content(y))
    table = tflite.Model.GetRootAs(content, 0).Subgraphs(0).Tensors(0)._tab
    content[table.Pos + table.Offset(6)] = tflite.TensorType.INT4
    expected = "INT8, UINT8, INT16, UINT16"
    assert refused(bytes(content)) == f"net: tensor 0 'x': element type INT4 has no lowering; expected {expected}"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 2, "net: uses version 2 of the TFLite schema; expected 3"),
    ],
)
def test_refuses_other_files(field: str, value: int, message: str) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator("RELU", [x], y)
    setattr(file, field, value)
    assert refused(file.content(y)) == message


@pytest.mark.parametrize(
    ("scales", "zeros", "axis", "message"),
    [
        ([0.5, -1.0], [0, 0], 1, "has the scale -1.0; expected positive numbers"),
        ([0.5], [300], 0, "has a zero point outside -128 … 127, the range of int8"),
        (
            [0.5] * 4, [0] * 4, 1,
            "has 4 scales and 4 zero points along dimension 1 of [3, 2]; expected one of each, or one for each index "
            "of that dimension",
        ),
    ],
)  # fmt: skip
def test_refuses_scales(scales: list[float], zeros: list[int], axis: int, message: str) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.constant("w", np.zeros((3, 2), np.int8), scales, zeros, axis)
    file.operator("RELU", [x], y)
    assert refused(file.content(y)) == f"net: tensor 2 'w': {message}"


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (
            "RELU", {"MutatingVariableInputs": np.array([1], np.uint8)},
            "net: operator 0 (RELU): changes its inputs; expected that of SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM only",
        ),
        (
            "RELU", {"CustomOptions": np.array([1], np.uint8)},
            "net: operator 0 (RELU): has options of an operator outside TFLite's own; expected its own table",
        ),
    ],
)  # fmt: skip
def test_refuses_operators(kind: str, fields: dict[str, Any], message: str) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator(kind, [x], y, fields=fields)
    assert refused(file.content(y)) == message


def test_refuses_options_of_a_newer_schema() -> None:
    """A table of eight fields where the schema knows one: LeakyReluOptions written with Conv2DOptions' dilations."""
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator("LEAKY_RELU", [x], y, "Conv2DOptions", Padding=1, DilationHFactor=3)
    content = bytearray(file.content(y))
    table = tflite.Model.GetRootAs(content, 0).Subgraphs(0).Operators(0)._tab
    content[table.Pos + table.Offset(10)] = tflite.BuiltinOptions.LeakyReluOptions
    assert refused(bytes(content)) == (
        "net: operator 0 (LEAKY_RELU): its options have 6 fields; expected the 1 of LeakyReluOptions. Convert the "
        "network with an older converter"
    )


@pytest.mark.parametrize("is_cut", [False, True])
def test_data_behind_the_flatbuffer(is_cut: bool) -> None:
    """Files above 2 GB keep their weights there; a buffer then says offset and size."""
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    values = np.arange(6, dtype=np.int8).reshape(3, 2)
    w = file.constant("w", values, [0.5], is_outside=True)
    file.operator("RELU", [x], y)
    content = file.content(y)
    if is_cut:
        assert refused(content[:-1]) == (
            f"net: a truncated or damaged TFLite file ({len(content) - 1} bytes): tensor {w.index} cannot be read"
        )
    else:
        np.testing.assert_array_equal(read_tflite(content, "net").tensors[w.index].value, values)


def test_refuses_data_of_another_size() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    w = file.constant("w", np.zeros((3, 2), np.int8), [0.5])
    file.operator("RELU", [x], y)
    content = bytearray(file.content(y))
    shape = tflite.Model.GetRootAs(content, 0).Subgraphs(0).Tensors(w.index)._tab
    first = shape.Vector(shape.Offset(4))
    content[first] = 5
    assert refused(bytes(content)) == "net: tensor 2 'w': holds 6 bytes of data; [5, 2] of int8 needs 10"


def test_every_truncation_is_refused() -> None:
    """The file's tables begin near its end: nothing can be cut off unnoticed but padding."""
    file, output = resnet()
    content = file.content(output)
    for length in np.linspace(0, len(content) - 8, 60).astype(int):
        with pytest.raises(CompileError):
            import_onnx(content[:length] if length >= 8 else content[:length] + b"\0" * (8 - length))


@pytest.mark.parametrize("seed", range(DAMAGED_FILES))
def test_damaged_files_are_refused_or_whole(seed: int) -> None:
    """A few bytes of the tables, or anywhere, are wrong: an error of ours, or a network (weights have no checksum)."""
    rng = np.random.default_rng(seed)
    content = bytearray(NETWORKS[seed % 2])
    for _ in range(rng.integers(1, 12)):
        last = len(content) if rng.random() < 0.2 else TABLES
        content[rng.integers(8, last)] = rng.integers(0, 256)
    try:
        import_onnx(bytes(content))
    except CompileError as error:
        assert "\n" not in str(error)
