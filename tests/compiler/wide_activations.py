"""Models with activations of sixteen bits, as ONNX has them since opset 21, and what such a file means in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from tests.compiler.narrow_weights import VERSIONS

FINER = 256
"""How many steps one of eight bits becomes."""


def with_wide_activations(model: onnx.ModelProto, element: str = "int16") -> onnx.ModelProto:
    """A QDQ model of eight bits whose activations have as large a range in sixteen; its weights and biases stay."""
    wide = onnx.ModelProto.FromString(model.SerializeToString())
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in wide.graph.initializer}
    least = np.iinfo(element).min
    for scale, zero in {tuple(node.input[1:3]) for node in wide.graph.node if node.op_type == "QuantizeLinear"}:
        below = values[zero].astype(np.int64) - np.iinfo(values[zero].dtype).min
        values[scale] = (values[scale] / FINER).astype(np.float32)
        values[zero] = (below * FINER + least).astype(element)
    del wide.graph.initializer[:]
    wide.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in values.items())
    wide.opset_import[0].version, wide.ir_version = VERSIONS[4]
    del wide.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(wide, strict_mode=True)


def meaning(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
    """The outputs by the definitions of ONNX's operators, each real number a float64.

    Products of 16 by 8 bits do not fit float32, so what ONNX Runtime computes in that is a step off now and then.
    """
    evaluator = ReferenceEvaluator(model, new_ops=[DequantizeLinear, QuantizeLinear])
    names = [output.name for output in model.graph.output]
    return dict(zip(names, map(np.asarray, evaluator.run(names, dict(inputs))), strict=True))


class DequantizeLinear(OpRun):  # type: ignore[misc]
    """y = (x - zero point) · scale, in float64."""

    op_domain = ""

    def _run(self, x: Any, scale: Any, zero: Any = None, axis: int = 1, **_: Any) -> tuple[NDArray[np.float64]]:
        scale, zero = (_spread(each, np.shape(x), axis) for each in (scale, 0 if zero is None else zero))
        return (((np.asarray(x, np.float64) - zero) * scale),)


class QuantizeLinear(OpRun):  # type: ignore[misc]
    """y = x / scale, rounded to even, plus the zero point, saturated to its type.

    An input of the model is a float32, which is divided as such: the host does that.
    """

    op_domain = ""

    def _run(self, x: Any, scale: Any, zero: Any = None, axis: int = 1, **_: Any) -> tuple[NDArray[Any]]:
        limits = np.iinfo(zero.dtype)
        divided = np.asarray(x) / (scale if x.dtype == np.float32 else _spread(scale, np.shape(x), axis))
        return (np.clip(np.rint(divided) + zero.astype(np.float64), limits.min, limits.max).astype(zero.dtype),)


def _spread(of: Any, shape: tuple[int, ...], axis: int) -> NDArray[np.float64]:
    """Numbers for all, or for each index of an axis, as they broadcast against a shape."""
    numbers = np.asarray(of, np.float64)
    if numbers.size == 1:
        return numbers.reshape(())
    return numbers.reshape([size if place == axis % len(shape) else 1 for place, size in enumerate(shape)])
