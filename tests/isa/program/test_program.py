"""Regions lie one after the other on 4 KiB boundaries, and the DRAM image holds what they hold."""

import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Tensor, dram_bytes, dram_image, place_regions

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
