"""Which ONNX operators a TFLite operator becomes: a file with one operator of each kind is translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tilewright.compiler.importers.tflite.fold import FOLDED_ONLY
from tilewright.compiler.importers.tflite.read import CUSTOM
from tilewright.compiler.importers.tflite.translate import ROWS, translate_tflite

IMAGE = (1, 4, 4, 8)
MATRIX = (2, 6)

LAYOUT = {"Transpose", "Reshape", "Cast", "Squeeze", "Unsqueeze"}
"""Operators that bring elements into order, around those that are meant."""

BORDER = {"QuantizeLinear", "DequantizeLinear"}


class _Sample:
    """A file with one operator, float unless its operator is on other values."""

    def __init__(self) -> None:
        self.file = TfliteFile()
        self.outputs: list[Tensor] = []

    def input(self, *shape: int, dtype: Any = np.float32) -> Tensor:
        return self.file.input(f"x{len(self.file.inputs)}", shape, None, dtype=dtype)

    def floats(self, *shape: int) -> Tensor:
        """A constant."""
        return self.file.constant(f"c{len(self.file.tensors)}", np.ones(shape, np.float32))

    def state(self, *shape: int) -> Tensor:
        """A variable."""
        return self.file.tensor(f"c{len(self.file.tensors)}", shape, None, dtype=np.float32, IsVariable=True)

    def integers(self, numbers: Any) -> Tensor:
        """A constant: a number, a list, or a list of lists."""
        return self.file.constant(f"c{len(self.file.tensors)}", np.array(numbers, np.int32))

    def output(self, *shape: int, dtype: Any = np.float32) -> Tensor:
        self.outputs.append(self.file.tensor(f"y{len(self.outputs)}", shape, None, dtype=dtype))
        return self.outputs[-1]


Made = Callable[[_Sample], tuple[list[Tensor | None], dict[str, Any]]]
"""Makes inputs and outputs of an operator; returns the inputs and the fields of its options."""


def _same(
    count: int = 1, source: Any = np.float32, result: Any = np.float32, shape: tuple[int, ...] = MATRIX, **options: Any
) -> Made:
    """So many operands of one shape, which is the result's."""

    def made(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
        s.output(*shape, dtype=result)
        return [s.input(*shape, dtype=source) for _ in range(count)], options

    return made


def _with(
    result: tuple[int, ...], *numbers: Any, of: tuple[int, ...] = IMAGE, dtype: Any = np.float32, **options: Any
) -> Made:
    """One operand, and constant integers after it."""

    def made(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
        s.output(*result, dtype=dtype)
        return [s.input(*of), *(s.integers(n) for n in numbers)], options

    return made


def _product(weights: tuple[int, ...], result: tuple[int, ...], of: tuple[int, ...] = IMAGE, **options: Any) -> Made:
    def made(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
        s.output(*result)
        return [s.input(*of), s.floats(*weights), s.floats(result[-1])], options

    return made


def _transposed(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(1, 8, 8, 5)
    return [s.integers([1, 8, 8, 5]), s.floats(5, 2, 2, 8), s.input(*IMAGE)], {"StrideH": 2, "StrideW": 2}


def _matrices(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(2, 6, 4)
    return [s.input(2, 6, 5), s.input(2, 5, 4)], {}


def _prelu(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(*IMAGE)
    return [s.input(*IMAGE), s.floats(1, 1, 8)], {}


def _choice(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(*IMAGE)
    return [s.input(*IMAGE, dtype=np.bool_), s.input(*IMAGE), s.input(*IMAGE)], {}


def _split(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    for _ in range(2):
        s.output(1, 4, 4, 4)
    return [s.integers(3), s.input(*IMAGE)], {"NumSplits": 2}


def _split_v(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    for channels in (3, 5):
        s.output(1, 4, 4, channels)
    return [s.input(*IMAGE), s.integers([3, 5]), s.integers(3)], {"NumSplits": 2}


def _concatenation(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(1, 4, 4, 16)
    return [s.input(*IMAGE), s.input(*IMAGE)], {"Axis": 3}


def _padding(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(1, 6, 6, 8)
    return [s.input(*IMAGE), s.integers([[0, 0], [1, 1], [1, 1], [0, 0]])], {}


def _padding_with(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    inputs, options = _padding(s)
    return [*inputs, s.floats(1)], options


def _packed(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(2, 3, 5)
    return [s.input(3, 5), s.input(3, 5)], {"ValuesCount": 2}


def _unpacked(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    for _ in range(2):
        s.output(3, 5)
    return [s.input(2, 3, 5)], {"Num": 2}


def _largest(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(2, 3)
    s.output(2, 3, dtype=np.int32)
    return [s.input(2, 6), s.integers(3)], {}


def _quantised(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.outputs.append(s.file.tensor("y", MATRIX, 0.05))
    return [s.input(*MATRIX)], {}


def _real(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(*MATRIX)
    return [s.file.input("x", MATRIX, 0.05)], {}


POOL = {"StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
NORM = {"Radius": 2, "Bias": 1.0, "Alpha": 0.1, "Beta": 0.5}


def _svdf(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(2, 5)
    return [s.input(2, 6), s.floats(5, 6), s.floats(5, 3), s.floats(5), s.state(2, 15)], {"Rank": 1}


def _lstm(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    s.output(2, 3, 5)
    weights = [*(s.floats(5, 6) for _ in range(4)), *(s.floats(5, 5) for _ in range(4))]
    biases = [s.floats(5) for _ in range(4)]
    states = [s.state(2, 5), s.state(2, 5)]
    return [s.input(2, 3, 6), *weights, None, None, None, *biases, None, None, *states], {"FusedActivationFunction": 4}


def _detections(s: _Sample) -> tuple[list[Tensor | None], dict[str, Any]]:
    for shape in ((1, 7, 4), (1, 7), (1, 7), (1,)):
        s.output(*shape)
    builder = flexbuffers.Builder()
    with builder.Map():
        for name in ("max_classes_per_detection", "num_classes"):
            builder.Int(name, 1)
        builder.Int("max_detections", 7)
        builder.Float("nms_iou_threshold", 0.5)
    options = np.frombuffer(bytes(builder.Finish()), np.uint8)
    return [s.input(1, 9, 4), s.input(1, 9, 1), s.floats(9, 4)], {"fields": {"CustomOptions": options}}


SAMPLES: Mapping[str, Made] = {
    "CONV_2D": _product((5, 1, 1, 8), (1, 4, 4, 5), StrideH=1, StrideW=1),
    "DEPTHWISE_CONV_2D": _product((1, 1, 1, 8), IMAGE, StrideH=1, StrideW=1, DepthMultiplier=1),
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _product((7, 20), (2, 7), (2, 20)),
    "BATCH_MATMUL": _matrices,
    "AVERAGE_POOL_2D": _with((1, 2, 2, 8), **POOL),
    "MAX_POOL_2D": _with((1, 2, 2, 8), **POOL),
    **{k: _with((1, 8), [1, 2]) for k in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MIN", "REDUCE_MAX")},
    **{k: _same(2) for k in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "POW", "SQUARED_DIFFERENCE", "ADD_N")},
    **{k: _same(2, result=np.bool_) for k in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")},
    **{k: _same(2, np.bool_, np.bool_) for k in ("LOGICAL_AND", "LOGICAL_OR")},
    "LOGICAL_NOT": _same(1, np.bool_, np.bool_),
    "CAST": _same(1, np.int32),
    "PRELU": _prelu,
    "LEAKY_RELU": _same(Alpha=0.1),
    "SOFTMAX": _same(Beta=1.0),
    "LOCAL_RESPONSE_NORMALIZATION": _same(shape=IMAGE, **NORM),
    "QUANTIZE": _quantised,
    "DEQUANTIZE": _real,
    "SELECT": _choice,
    "SELECT_V2": _choice,
    "RESHAPE": _with((1, 128), [1, 128]),
    "SQUEEZE": _with((4, 8), of=(1, 4, 8), SqueezeDims=[0]),
    "EXPAND_DIMS": _with((1, 4, 8), 0, of=(4, 8)),
    "TRANSPOSE": _with((8, 4), [1, 0], of=(4, 8)),
    "SLICE": _with((2, 8), [1, 0], [2, 8], of=(4, 8)),
    "STRIDED_SLICE": _with((2, 8), [0, 0], [4, 8], [2, 1], of=(4, 8)),
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "CONCATENATION": _concatenation,
    "PAD": _padding,
    "PADV2": _padding_with,
    "SPACE_TO_DEPTH": _with((1, 2, 2, 32), BlockSize=2),
    "DEPTH_TO_SPACE": _with((1, 8, 8, 2), BlockSize=2),
    "SPACE_TO_BATCH_ND": _with((4, 2, 2, 8), [2, 2], [[0, 0], [0, 0]]),
    "BATCH_TO_SPACE_ND": _with((1, 8, 8, 8), [2, 2], [[0, 0], [0, 0]], of=(4, 4, 4, 8)),
    "RESIZE_NEAREST_NEIGHBOR": _with((1, 8, 8, 8), [8, 8]),
    "RESIZE_BILINEAR": _with((1, 8, 8, 8), [8, 8]),
    "ARG_MAX": _with((2,), 1, of=(2, 6), dtype=np.int32, OutputType=2),
    "ARG_MIN": _with((2,), 1, of=(2, 6), dtype=np.int32, OutputType=2),
    "BROADCAST_TO": _with((2, 6), [2, 6], of=(1, 6)),
    "CUMSUM": _with((2, 6), 1, of=(2, 6)),
    "GATHER": _with((2, 6), [1, 0], of=(3, 6)),
    "GATHER_ND": _with((2, 6), [[1], [0]], of=(3, 6)),
    "PACK": _packed,
    "UNPACK": _unpacked,
    "REVERSE_V2": _with((2, 6), [1], of=(2, 6)),
    "TILE": _with((2, 6), [2, 1], of=(1, 6)),
    "TOPK_V2": _largest,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "custom TFLite_Detection_PostProcess": _detections,
}
"""An operator of each kind but of those on one tensor without options, which all look the same."""


def onnx_operators(kind: str) -> tuple[str, ...]:
    """The ONNX operators that a TFLite operator becomes, in their order, each once."""
    sample = _Sample()
    inputs, options = SAMPLES.get(kind, _same())(sample)
    table = ROWS[kind].options
    written = kind.replace(CUSTOM, "CUSTOM ")
    sample.file.operator(written, inputs, sample.outputs, None if table == "NONE" else table, **options)
    model = translate_tflite(sample.file.content(*sample.outputs), kind)
    found = dict.fromkeys(node.op_type for node in model.graph.node)
    for less in (BORDER | LAYOUT, BORDER, set[str]()):
        if left := tuple(op for op in found if op not in less):
            return left
    raise AssertionError(f"{kind} becomes nothing")


def tflite_names() -> dict[str, list[str]]:
    """By ONNX operator, the TFLite operators that become it, alone or with others."""
    names: dict[str, list[str]] = {}
    for kind in sorted(set(ROWS) - set(FOLDED_ONLY)):
        for operator in onnx_operators(kind):
            names.setdefault(operator, []).append(kind.removeprefix(CUSTOM))
    return names
