"""Images with few channels lie as windows of rows: fewer vectors, and the same results as ONNX Runtime's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder, add_conv, conv_model, rescaled
from tests.compiler.pipelines import distances, lowered, simulated
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.windows import Windows

CASES: Mapping[str, dict[str, Any]] = {
    # name: of conv_model; in the names: kernel, stride
    "7x7/2": {"kernel": 7, "stride": 2, "pads": [3, 3, 3, 3], "size": (21, 22)},
    "7x7/2 odd padding": {"kernel": 7, "stride": 2, "pads": [2, 1, 3, 4], "size": (20, 19)},
    "3x3/1": {"pads": [1, 1, 1, 1]},
    "3x3/2 no padding": {"stride": 2, "size": 11},
    "3x3/3x2 rows unread at the end": {"stride": (3, 2), "size": (12, 13), "pads": [1, 0, 0, 1]},
    "5x4/4x1 one channel": {"kernel": (5, 4), "stride": (4, 1), "channels_in": 1, "size": (17, 9)},
    "10x4/2 one channel, two images": {
        "kernel": (10, 4), "stride": 2, "channels_in": 1, "size": (25, 10), "pads": [4, 1, 5, 1], "batch": 2,
    },
    "uint8": {"activation": np.uint8, "pads": [1, 1, 1, 1]},
    "patches": {"kernel": 4, "stride": 4, "size": 16, "channels_out": 20},
}  # fmt: skip


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("name", CASES)
def test_computes_what_onnx_runtime_computes(name: str, machine: str) -> None:
    model = conv_model(np.random.default_rng(1), **CASES[name])
    program = compile_model(model, load_machine(machine))
    apart = distances(model, lambda inputs: simulated(program, inputs), count=2)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99
    assert lowered(model).inputs[0].windows is not None


@pytest.mark.parametrize("name", CASES)
def test_nests_read_the_same_windows(name: str) -> None:
    model = conv_model(np.random.default_rng(2), **CASES[name])
    program = lowered(model)
    assert distances(model, lambda inputs: run_nests(program, inputs), count=2).max() <= 1


def vectors(**conv: Any) -> int:
    """Words of sixteen channels that one window of the lowered convolution reads."""
    nest = lowered(conv_model(np.random.default_rng(1), **conv)).nests[0]
    trips = {loop.name: loop.trip for loop in nest.loops if loop.is_reduce}
    return math.ceil(trips["i"] / 16) * trips["r"] * trips["s"]


def test_a_window_takes_few_vectors() -> None:
    assert vectors(**CASES["7x7/2"]) == 10  # 147 bytes of seven rows
    assert vectors(**CASES["3x3/1"]) == 2  # 27 bytes of three rows
    assert vectors(stride=2, size=11) == 2
    assert vectors(kernel=(9, 3), pads=[4, 1, 4, 1]) == 9  # nine rows together would be nine times the image
    assert vectors(kernel=4, stride=4, size=16) == 3  # all 48 bytes of four rows together


def test_its_work_is_the_convolutions() -> None:
    nest = lowered(conv_model(np.random.default_rng(1), **CASES["7x7/2"])).nests[0]
    assert nest.macs == 5 * 3 * 7 * 7 * 11 * 11  # 21×22 pixels with stride 2


def test_only_an_input_that_one_convolution_reads_is_stored_so() -> None:
    many = conv_model(np.random.default_rng(1), channels_in=16)
    grouped = conv_model(np.random.default_rng(1), channels_in=4, channels_out=4, group=4)
    dilated = conv_model(np.random.default_rng(1), dilations=2)
    assert all(lowered(model).inputs[0].windows is None for model in (many, grouped, dilated))
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", [1, 3, 8, 8]), 0.1)
    left, right = (add_conv(builder, x, 3, 4, 3, name=name) for name in ("left", "right"))
    builder.output(builder.quantize(builder.node("Add", [left, right]), 1.0))
    assert lowered(rescaled(builder.build())).inputs[0].windows is None


def test_images_with_channels_last_are_windows_too() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.node("Transpose", [builder.input("x", [2, 9, 10, 3])], perm=[0, 3, 1, 2])
    builder.output(add_conv(builder, builder.quantize(x, 0.1), 3, 5, 3, pads=[1, 1, 1, 1]))
    model = rescaled(builder.build())
    (tensor,) = lowered(model).inputs
    assert tensor.axes == (0, 3, 1, 2)
    assert tensor.windows is not None
    program = compile_model(model, load_machine("base16"))
    assert distances(model, lambda inputs: simulated(program, inputs)).max() <= 1


def test_the_assembler_reads_them_back() -> None:
    program = compile_model(conv_model(np.random.default_rng(1), **CASES["7x7/2"]), load_machine("base16"))
    again = assemble(disassemble(program), program.machine)
    assert to_bytes(again) == to_bytes(program)


def test_windows_stand_apart_where_that_takes_little_memory() -> None:
    (image,) = lowered(conv_model(np.random.default_rng(1), stride=2, size=33)).inputs
    assert image.windows is not None
    assert image.windows.apart  # 32 bytes for each 2 × 2 pixels of 3 bytes
    (image,) = lowered(conv_model(np.random.default_rng(1), size=33)).inputs
    assert image.windows is not None
    assert not image.windows.apart  # they would be 32 bytes for each pixel


@pytest.mark.parametrize("numbers", [(3, 8, 8, 0, 0, 3, 9), (3, 8, 8, 0, 0, 3, 9, 2, 2, 2)])
def test_refuses_other_numbers(numbers: tuple[int, ...]) -> None:
    with pytest.raises(IsaError) as error:
        Windows.from_numbers(numbers)
    assert str(error.value) == (
        f"windows({', '.join(map(str, numbers))}): expected 8 to 10 numbers: channels, height, width, top, left, fold, "
        "columns, step, down, 1 for windows apart; only top and left may be 0"
    )


def test_refuses_windows_beyond_their_row() -> None:
    windows = Windows.from_numbers((3, 8, 8, 0, 0, 3, 9, 2, 2, 1))
    windows.require_inside((1, 27, 4, 4))
    with pytest.raises(IsaError, match="windows reach to byte 99 of a row of 81"):
        windows.require_inside((1, 27, 4, 5))
