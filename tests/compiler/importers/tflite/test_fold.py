"""Shape arithmetic and float16 weights become constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.runs import random_inputs, reals, require_close, run, translate
from tilewright.compiler.errors import CompileError


def integers(file: TfliteFile, values: Any) -> Tensor:
    return file.constant(f"constant_{len(file.tensors)}", np.array(values, np.int32))


def computed(file: TfliteFile, shape: tuple[int, ...]) -> Tensor:
    return file.tensor(f"computed_{len(file.tensors)}", shape, None, dtype=np.int32)


def reshaped(file: TfliteFile, x: Tensor, shape: Tensor, result: tuple[int, ...]) -> None:
    """A reshape to a computed shape gives the elements of `x` in that shape."""
    y = file.tensor("y", result, x.scales[0], x.zeros[0])
    file.operator("RESHAPE", [x, shape], y, "ReshapeOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    require_close(y, run(translate(file, y), inputs)["y"], reals(file, inputs)[0].reshape(result))


def test_the_batch_out_of_a_shape() -> None:
    """SHAPE, STRIDED_SLICE with a shrunk axis, PACK: what converters write for a flatten."""
    file = TfliteFile()
    x = file.input("x", (2, 3, 4, 5))
    shape, batch, wanted = computed(file, (4,)), computed(file, ()), computed(file, (2,))
    file.operator("SHAPE", [x], shape, "ShapeOptions", OutType=2)
    lists = [integers(file, [i]) for i in (0, 1, 1)]
    file.operator("STRIDED_SLICE", [shape, *lists], batch, "StridedSliceOptions", ShrinkAxisMask=1)
    file.operator("PACK", [batch, integers(file, -1)], wanted, "PackOptions", ValuesCount=2)
    reshaped(file, x, wanted, (2, 60))


def test_products_of_sizes() -> None:
    """Height times width by REDUCE_PROD, by GATHER and MUL, put between batch and channels."""
    file = TfliteFile()
    x = file.input("x", (2, 3, 4, 5))
    shape, area, sizes = computed(file, (4,)), computed(file, (1,)), computed(file, (2,))
    file.operator("SHAPE", [x], shape, "ShapeOptions", OutType=2)
    file.operator("SLICE", [shape, integers(file, [1]), integers(file, [2])], sizes, "SliceOptions")
    file.operator("REDUCE_PROD", [sizes, integers(file, [0])], area, "ReducerOptions", KeepDims=True)
    batch, channels, doubled = computed(file, (1,)), computed(file, (1,)), computed(file, (1,))
    file.operator("GATHER", [shape, integers(file, [0])], batch, "GatherOptions")
    file.operator("GATHER", [shape, integers(file, [3])], channels, "GatherOptions")
    file.operator("MUL", [batch, area], doubled, "MulOptions")
    wanted = computed(file, (2,))
    file.operator("CONCATENATION", [doubled, channels], wanted, "ConcatenationOptions", Axis=0)
    reshaped(file, x, wanted, (24, 5))


def test_float16_weights() -> None:
    rng = np.random.default_rng(2)
    file = TfliteFile()
    x = file.input("x", (2, 6), None, dtype=np.float32)
    half = file.constant("half", rng.uniform(-1, 1, (3, 6)).astype(np.float16))
    w = file.tensor("w", (3, 6), None, dtype=np.float32)
    y = file.tensor("y", (2, 3), None, dtype=np.float32)
    file.operator("DEQUANTIZE", [half], w, "DequantizeOptions")
    file.operator("FULLY_CONNECTED", [x, w, None], y, "FullyConnectedOptions")
    inputs = random_inputs(file, rng)
    require_close(y, run(translate(file, y), inputs)["y"], inputs["x"] @ half.reals.T)


def test_refuses_what_does_not_fit_the_file() -> None:
    file = TfliteFile()
    x, shape, y = file.input("x", (2, 3)), computed(file, (3,)), file.tensor("y", (3, 2))
    file.operator("SHAPE", [x], shape, "ShapeOptions", OutType=2)
    file.operator("RESHAPE", [x, shape], y, "ReshapeOptions")
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (SHAPE): tensor 1 'computed_1': is [3] in the file, but [2] is computed"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (4, "tensor 1 'computed_1': out_type = INT64; expected INT32, the result's type"),
        (0, "tensor 1 'computed_1': out_type = FLOAT32; expected INT32, the result's type"),
        (125, "out_type = 125; expected FLOAT32 or FLOAT16 or INT32"),
    ],
)
def test_refuses_a_shape_of_another_element_type(kind: int, message: str) -> None:
    file = TfliteFile()
    x, shape, y = file.input("x", (2, 3)), computed(file, (2,)), file.tensor("y", (2, 3))
    file.operator("SHAPE", [x], shape, "ShapeOptions", OutType=kind)
    file.operator("RESHAPE", [x, shape], y, "ReshapeOptions")
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value).startswith(f"net: operator 0 (SHAPE): {message}")
