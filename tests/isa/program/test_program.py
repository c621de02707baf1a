"""Regions lie one after the other on 4 KiB boundaries, and the DRAM image holds what they hold."""

import numpy as np
import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Scales, Tensor, dram_bytes, dram_image, place_regions

PROGRAM = assemble(
    ".workspace 5000\n.inputs 4\n.outputs 10\n.int8 1, 2, 3\nfill y=act[0] value=5", load_machine("base16")
)


def test_places_regions_on_boundaries() -> None:
    assert place_regions(PROGRAM.limits) == {
        "program": 0,
        "weights": 4096,
        "workspace": 8192,
        "inputs": 16384,
        "outputs": 20480,
    }
    assert dram_bytes(PROGRAM.limits) == 20480 + 10


@pytest.mark.parametrize(("dtype", "element_bytes"), [("int8", 1), ("uint8", 1), ("int32", 4)])
def test_a_tensor_takes_whole_words_of_channels(dtype: str, element_bytes: int) -> None:
    """20 channels are two words of 16, for each of 3 × 5 pixels of 2 images."""
    tensor = Tensor("x", (2, 20, 3, 5), (2, 20, 3, 5), dtype, 1.0, 0, 0, 16)
    assert tensor.bytes == 2 * 2 * 3 * 5 * 16 * element_bytes


def test_image_holds_text_weights_and_inputs() -> None:
    image = dram_image(PROGRAM, b"\x09\x08")
    text = PROGRAM.text
    assert image.size == dram_bytes(PROGRAM.limits)
    assert image[: len(text)].tobytes() == text
    assert image[4096:4100].tolist() == [1, 2, 3, 0]
    assert image[16384:16388].tolist() == [9, 8, 0, 0]
    assert image.sum() == sum(text) + 6 + 17


def test_refuses_more_inputs_than_there_is_room_for() -> None:
    with pytest.raises(IsaError) as error:
        dram_image(PROGRAM, bytes(5))
    assert str(error.value) == "got 5 input bytes; the inputs region holds 4"


def test_a_scale_for_each_channel() -> None:
    scales, zeros = Scales((2, 1, 2), (0.5, 0.25, 4.0), (1, 2, 3)).spread((2, 3, 2))
    assert scales.dtype == np.float32
    assert np.broadcast_to(scales, (2, 3, 2))[1].tolist() == [[0.5, 0.5], [0.25, 0.25], [4.0, 4.0]]
    assert np.broadcast_to(zeros, (2, 3, 2))[0].tolist() == [[1, 1], [2, 2], [3, 3]]


def test_blocks_along_a_dimension_of_which_the_last_is_shorter() -> None:
    scales, zeros = Scales((1, 2), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), (0, 1, 2, 3, 4, 5)).spread((2, 5))
    assert scales.tolist() == [[1, 1, 2, 2, 3], [4, 4, 5, 5, 6]]
    assert zeros.tolist() == [[0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]


def test_boxes_along_two_dimensions() -> None:
    scales, _ = Scales((2, 2), (1.0, 2.0, 3.0, 4.0), (0,) * 4).spread((3, 4))
    assert scales.tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4]]


@pytest.mark.parametrize("shape", [(), (3,), (0, 3), (2, 3, 4)])
def test_one_box_is_the_whole_tensor(shape: tuple[int, ...]) -> None:
    scales, zeros = Scales(shape, (0.5,), (7,)).spread(shape)
    assert scales.ravel().tolist() == [0.5]
    assert np.broadcast_to(zeros, shape).shape == shape


@pytest.mark.parametrize(
    ("scales", "boxes"),
    [
        (Scales((1, 2), (1.0,) * 5, (0,) * 6), 6),
        (Scales((1, 2), (1.0,) * 6, (0,) * 5), 6),
        (Scales((2, 5, 1), (1.0,), (0,)), 0),
        (Scales((1, 2), (1.0,) * 4, (0,) * 4), 6),
    ],
)
def test_as_many_as_there_are_boxes(scales: Scales, boxes: int) -> None:
    Scales((1, 2), (1.0,) * 6, (0,) * 6).require_fit((2, 5))
    with pytest.raises(IsaError, match=f"for each of {boxes} boxes, got"):
        scales.require_fit((2, 5))


def test_a_box_has_elements() -> None:
    with pytest.raises(IsaError, match="boxes"):
        Scales((0, 5), (1.0, 1.0), (0, 0)).require_fit((2, 5))
