from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tilewright.compiler.importers.batches.place import ImageAxis, repeated, reshaped

IMAGES = 3


def labels(place: ImageAxis, shape: tuple[int, ...]) -> np.ndarray:
    """Of which image each element of a tensor of this shape is, by the definition of a place."""
    indices = np.arange(shape[place.axis])
    image = indices // place.inner % IMAGES
    beside = [-1 if axis == place.axis else 1 for axis in range(len(shape))]
    return np.broadcast_to(image.reshape(beside), shape)


@pytest.mark.parametrize(
    ("place", "shape", "to"),
    [
        (ImageAxis(0), (1, 3, 8, 8), (1, 192)),
        (ImageAxis(0), (1, 3, 8, 8), (3, 64)),
        (ImageAxis(0), (1, 49, 10), (49, 1, 10)),
        (ImageAxis(1), (7, 1, 5), (7, 5)),
        (ImageAxis(1), (7, 1, 6), (14, 3)),
        (ImageAxis(0, 7), (7, 5), (7, 1, 5)),
        (ImageAxis(0, 1, 4), (4, 6, 5), (1, 4, 30)),
        (ImageAxis(0, 1, 4), (4, 6, 5), (2, 12, 5)),
        (ImageAxis(0, 1, 12), (12, 5), (1, 3, 4, 5)),
    ],
)
def test_elements_are_of_the_same_images_in_another_shape(
    place: ImageAxis, shape: tuple[int, ...], to: tuple[int, ...]
) -> None:
    found = reshaped(place, shape, to, images=1)
    assert found is not None
    before, behind = (
        tuple(size * IMAGES if axis == at.axis else size for axis, size in enumerate(sizes))
        for at, sizes in ((place, shape), (found, to))
    )
    assert prod(before) == prod(behind)
    assert np.array_equal(labels(place, before).reshape(behind), labels(found, behind))


def test_no_dimension_holds_the_images_where_one_begins_between_them() -> None:
    assert reshaped(ImageAxis(0), (2, 3), (3, 2), images=2) is None


def test_the_first_of_several_dimensions_of_one_holds_the_images() -> None:
    assert reshaped(ImageAxis(0), (1, 6), (1, 1, 6), images=1) == ImageAxis(0)


def test_a_constant_is_there_once_for_each_image() -> None:
    values = np.arange(6).reshape(2, 3)
    found = repeated(values, ImageAxis(0, 2), images=1, wanted=2)
    assert found is not None
    assert found.tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5]]


def test_a_constant_that_differs_between_images_is_not_repeated() -> None:
    assert repeated(np.array([[1], [2]]), ImageAxis(0), images=2, wanted=4) is None


def test_a_constant_that_is_the_same_for_each_image_is_repeated() -> None:
    found = repeated(np.array([[1, 2], [1, 2]]), ImageAxis(0), images=2, wanted=3)
    assert found is not None
    assert found.tolist() == [[1, 2]] * 3
