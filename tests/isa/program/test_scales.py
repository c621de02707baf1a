"""Scales of parts of a tensor: which element has which, written out by hand."""

import numpy as np
import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.program.scales import Scales


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
