"""Host values: ONNX Runtime's QuantizeLinear and DequantizeLinear say what is right."""

import numpy as np
import pytest
from onnx import TensorProto

from tests.compiler.models import ModelBuilder, run_onnx
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.host_values import from_host, to_host
from tilewright.host.tensors import pack, unpack
from tilewright.isa.program.program import Scales, Tensor


def tensor(dtype: str, scale: float = 0.1, zero_point: int = -3) -> Tensor:
    return Tensor("x", (2, 3), (2, 3, 1, 1), dtype, scale, zero_point, 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_quantises_as_onnx_runtime(seed: int) -> None:
    rng = np.random.default_rng(seed)
    builder = ModelBuilder(rng)
    scale, zero = np.float32(rng.uniform(0.01, 1)), int(rng.integers(-128, 128))
    x = builder.input("x", [1, 4000])
    y = builder.node("QuantizeLinear", [x, builder.constant("s", scale), builder.constant("z", np.int8(zero))])
    builder.output(y, element=TensorProto.INT8)
    values = (rng.integers(-600, 600, size=(1, 4000)) * (scale / 4)).astype(np.float32)
    expected = run_onnx(builder.build(), {"x": values})["result"]
    given = Tensor("x", (1, 4000), (1, 4000, 1, 1), "float32", float(scale), zero, 0, 0)
    assert np.array_equal(from_host(values, given).reshape(1, 4000), expected)


def test_dequantises() -> None:
    stored = np.array([[-3, -2, -128], [127, 0, 7]], np.int8).reshape(2, 3, 1, 1)
    expected = np.array([[0, 1, -125], [130, 3, 10]], np.float32) * np.float32(0.1)
    assert np.array_equal(to_host(stored, tensor("float32")), expected)


def test_uint8_is_shifted_by_128() -> None:
    values = np.array([[0, 1, 128], [255, 127, 200]], np.uint8)
    stored = from_host(values, tensor("uint8"))
    assert stored.ravel().tolist() == [-128, -127, 0, 127, -1, 72]
    assert np.array_equal(to_host(stored, tensor("uint8")), values)


def test_int8_is_stored_as_it_is() -> None:
    values = np.array([[0, 1, -128], [127, -1, 72]], np.int8)
    assert np.array_equal(to_host(from_host(values, tensor("int8")), tensor("int8")), values)


@pytest.mark.parametrize("integers", ["int8", "uint4", "int16", "uint16"])
def test_scales_of_parts_are_those_of_the_host(integers: str) -> None:
    """The same as the run's conversion, which is written apart."""
    rng = np.random.default_rng(7)
    scales = Scales((1, 1, 2, 2), tuple(map(float, rng.uniform(0.1, 2, 6).astype(np.float32))), (0, 1, 2, 3, 4, 5))
    given = Tensor("x", (1, 3, 2, 4), (1, 3, 2, 4), "float32", 1.0, 0, 0, 3, integers=integers, scales=scales)
    values = rng.normal(0, 30, (1, 3, 2, 4)).astype(np.float32)
    stored = from_host(values, given)
    assert np.array_equal(stored.transpose(0, 2, 3, 1).ravel(), pack(given, values).ravel())
    assert np.array_equal(to_host(stored, given), unpack(given, pack(given, values).reshape(-1).view(np.uint8)))


def test_another_shape_or_type_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        from_host(np.zeros((3, 2), np.float64), tensor("float32"))
    assert str(caught.value) == "input 'x': expected float32 [2, 3], got float64 [3, 2]"


def test_codes_of_uint8_are_not_below_zero() -> None:
    tensor = Tensor("x", (1, 1, 1, 3), (1, 1, 1, 3), "float32", 0.5, 198, 0, 0, integers="uint8", held="uint8")
    stored = from_host(np.array([[[[0.0, 20.0, -200.0]]]], np.float32), tensor)
    assert stored.ravel().tolist() == [198, 238, 0]
    assert to_host(stored, tensor).ravel().tolist() == [0.0, 20.0, -99.0]
