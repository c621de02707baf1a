"""The host's side: ONNX's quantisation, the blocked layout, and arrays that do not fit refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler.tile_programs import WORDS, TileBuilder
from tilewright.errors import InputError
from tilewright.host.tensors import dram_image, host_dtype, pack, quantize, read_outputs, unpack
from tilewright.isa.program.program import Scales, Tensor, place_regions

IMAGE = Tensor("image", (1, 3, 2, 2), (1, 3, 2, 2), "float32", 0.5, -3, 0, 4)


def test_blocks_channels_by_lanes_and_fills_with_the_zero_point() -> None:
    # Pixel (0, 0) holds 0, 2 and 4 in its three channels: stored as real / 0.5 - 3; the fourth lane is the zero point.
    image = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2) / 2
    packed = pack(IMAGE, image)
    assert packed.shape == (1, 1, 2, 2, 4)
    assert packed[0, 0, 0, 0].tolist() == [-3, 1, 5, -3]
    assert packed[0, 0, 1, 1].tolist() == [0, 4, 8, -3]


def test_more_channels_than_lanes_take_several_blocks() -> None:
    tensor = Tensor("x", (1, 6), (1, 6, 1, 1), "int8", 1.0, 7, 0, 4)
    packed = pack(tensor, np.array([[1, 2, 3, 4, 5, 6]], np.int8))
    assert packed.reshape(-1).tolist() == [1, 2, 3, 4, 5, 6, 7, 7]


@pytest.mark.parametrize(
    ("x", "stored"),
    [
        (0.25, -3),  # 0.5 goes to the even 0
        (0.75, -1),  # 1.5 goes to the even 2
        (-0.25, -3),
        (1000.0, 127),
        (-1000.0, -128),
        (np.inf, 127),
        (-np.inf, -128),
        (3.0e38, 127),
    ],
)
def test_quantizes_ties_to_even_and_saturates(x: float, stored: int) -> None:
    assert quantize(np.array([x], np.float32), np.array(0.5, np.float32), -3).tolist() == [stored]


def test_quantizes_like_onnx_runtime() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    x = np.random.default_rng(5).normal(0, 3, 4096).astype(np.float32)
    scale, zero = np.float32(0.037), 11
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4096])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [4096])],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [scale]),
            helper.make_tensor("z", TensorProto.INT8, [], [zero]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    assert np.array_equal(quantize(x, np.array(scale, np.float32), zero), expected)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 4), ("uint8", -2), ("float32", -3)])
def test_unpack_undoes_pack(dtype: str, zero: int) -> None:
    tensor = replace(IMAGE, dtype=dtype, zero_point=zero)
    stored = np.random.default_rng(1).integers(-128, 128, tensor.shape)
    array: NDArray[Any]
    match dtype:
        case "uint8":
            array = (stored + 128).astype(np.uint8)
        case "int8":
            array = stored.astype(np.int8)
        case _:
            array = ((stored - zero) * 0.5).astype(np.float32)
    back = unpack(tensor, pack(tensor, array).reshape(-1).view(np.uint8))
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_outputs_come_back_in_the_models_shape() -> None:
    tensor = Tensor("y", (2, 3), (2, 3, 1, 1), "uint8", 1.0, -128, 0, 4)
    content = np.array([-128, -127, -126, 99, 0, 1, 2, 99], np.int8).view(np.uint8)
    assert unpack(tensor, content).tolist() == [[0, 1, 2], [128, 129, 130]]


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "int16", "uint16", "int32"])
def test_other_integers_are_stored_as_they_are(name: str) -> None:
    tensor = Tensor("x", (2, 3), (2, 3, 1, 1), name, 1.0, 0, 0, 4)
    low, high = tensor.element.interval.low, tensor.element.interval.high
    array = np.array([[low, high, 0], [1, low, high]], np.int64).astype(host_dtype(name))
    packed = pack(tensor, array)
    assert packed.itemsize == (4 if "16" in name or "32" in name else 1)
    assert packed.reshape(2, 4)[:, :3].tolist() == [[low, high, 0], [1, low, high]]
    back = unpack(tensor, packed.reshape(-1).view(np.uint8))
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


@pytest.mark.parametrize(
    ("integers", "zero", "stored"),
    [
        ("int4", -2, [-8, -2, 7, -1]),
        ("uint4", 9, [0, 9, 15, 10]),
        ("int2", 0, [-2, 0, 1, 1]),
        ("int16", -300, [-32768, -300, 32767, -299]),
        ("uint16", 65535, [0, 65535, 65535, 65535]),
    ],
)
def test_quantizes_to_the_tensors_integers(integers: str, zero: int, stored: list[int]) -> None:
    tensor = Tensor("x", (4,), (4, 1, 1, 1), "float32", 2.0, zero, 0, 1, integers=integers)
    packed = pack(tensor, np.array([-1e9, 0.9, 1e9, 2.1], np.float32))
    assert packed.ravel().tolist() == stored
    real = unpack(tensor, packed.reshape(-1).view(np.uint8))
    assert real.tolist() == [2.0 * (value - zero) for value in stored]


def test_a_scale_for_each_channel() -> None:
    """Channel 0 counts halves from 1, channel 1 tenths from -3."""
    scales = Scales((1, 1, 2), (0.5, 0.1), (1, -3))
    tensor = Tensor("x", (1, 2, 2), (1, 2, 1, 2), "float32", 1.0, 0, 0, 2, scales=scales)
    packed = pack(tensor, np.array([[[1.0, -2.0], [1.0, -2.0]]], np.float32))
    assert packed.ravel().tolist() == [3, 7, -3, -23]  # pixels of two channels
    real = unpack(tensor, packed.reshape(-1).view(np.uint8))
    tenth = np.float32(0.1)
    assert np.array_equal(real, np.array([[[1.0, -2.0], [10 * tenth, -20 * tenth]]], np.float32))


def test_bytes_may_stand_for_integers_of_four_bits() -> None:
    tensor = Tensor("x", (3,), (3, 1, 1, 1), "uint4", 1.0, 0, 0, 1)
    assert pack(tensor, np.array([0, 7, 15], np.uint8)).ravel().tolist() == [0, 7, 15]
    for array in (np.array([0, 7, 16], np.uint8), np.array([-1, 0, 1], np.int8), np.array([0, 1, 2], np.int16)):
        with pytest.raises(InputError, match=f"^input 'x' is {array.dtype.name}; the model takes uint4: convert it$"):
            pack(tensor, array)


# -- whole images ------------------------------------------------------------------------------------------------------


def small_program() -> Any:
    from tilewright.compiler.emission.allocate import allocate
    from tilewright.compiler.emission.emit import emit
    from tilewright.compiler.emission.waits import waits
    from tilewright.isa.files.loader import load_machine

    builder = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    builder.store(builder.load_input())
    return emit(waits(allocate(builder.program())))


def test_outputs_of_int32_take_four_bytes_each() -> None:
    """Six channels in words of four: 1, -2, 3, 4 and then 5, 70000 and two lanes of anything, little endian."""
    tensor = Tensor("y", (1, 6), (1, 6, 1, 1), "int32", 1.0, 0, 0, 4)
    content = np.array([1, -2, 3, 4, 5, 70_000, 9, 9], "<i4").view(np.uint8)
    assert tensor.bytes == len(content) == 32
    result = unpack(tensor, np.concatenate([content, content]))
    assert result.dtype == np.int32
    assert result.tolist() == [[1, -2, 3, 4, 5, 70_000]]


def test_puts_every_region_at_its_base() -> None:
    program = small_program()
    bases = place_regions(program.limits)
    x = np.random.default_rng(3).integers(-128, 128, (1, 16, WORDS, 1)).astype(np.int8)
    image = dram_image(program, {"x": x})
    assert image[bases["program"] :][: len(program.text)].tobytes() == program.text
    assert image[bases["weights"] :][: len(program.weights)].tobytes() == program.weights
    assert np.array_equal(image[bases["inputs"] :][: x.size].view(np.int8).reshape(WORDS, 16), x[0, :, :, 0].T)


def test_reads_outputs_at_their_offset() -> None:
    program = small_program()
    dram = np.zeros(place_regions(program.limits)["outputs"] + program.output_bytes, np.uint8)
    dram[place_regions(program.limits)["outputs"] + 17] = 5
    assert read_outputs(program, dram)["out0"][0, 1, 1, 0] == 5


GOOD = np.zeros((1, 16, WORDS, 1), np.int8)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "missing input 'x'; the model takes: x; got: nothing"),
        ({"X": GOOD}, "missing input 'x'; the model takes: x; got: X"),
        ({"x": GOOD, "z": GOOD}, "unknown input 'z'; the model takes: x"),
        ({"x": GOOD.astype(np.float32)}, "input 'x' is float32; the model takes int8: convert it"),
        ({"x": GOOD[0]}, "input 'x' has shape [16, 6, 1]; the model takes [1, 16, 6, 1]: reshape it"),
    ],
)
def test_refuses_inputs_that_do_not_fit(inputs: dict[str, NDArray[Any]], message: str) -> None:
    with pytest.raises(InputError) as refused:
        dram_image(small_program(), inputs)
    assert str(refused.value) == message


@pytest.mark.parametrize(("region", "name"), [("inputs", "x"), ("outputs", "out0")])
@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"offset": 1}, "0x1 to 0x61"),
        ({"offset": 1 << 50}, "0x4000000000000 to 0x4000000000060"),
        ({"lanes": 1 << 39}, "0x0 to 0x30000000000"),
    ],
)
def test_refuses_a_tensor_outside_its_region(region: str, name: str, changes: dict[str, int], where: str) -> None:
    """Before memory is taken for it; the checker has the same to say, but a run may be unchecked."""
    program = small_program()
    (tensor,) = getattr(program, region)
    wrong = replace(program, **{region: (replace(tensor, **changes),)})
    with pytest.raises(InputError) as refused:
        dram_image(wrong, {"x": GOOD})
    assert str(refused.value) == (
        f"'{name}' takes bytes {where} of the region {region}, which holds 0x60: "
        "such a program cannot run, not even unchecked"
    )


def test_refuses_nan() -> None:
    with pytest.raises(InputError) as refused:
        pack(IMAGE, np.full(IMAGE.shape, np.nan, np.float32))
    assert str(refused.value) == "input 'image' holds NaN, which has no quantised value"
