"""Orders of dimensions."""

import numpy as np

from tilewright.compiler.importers.tflite.layout import DimensionOrder, keeps_order, stored, to_file, to_stored


def test_channels_first() -> None:
    assert stored("NHWC", DimensionOrder.FIRST) == ("N", "C", "H", "W")
    assert stored("NTC", DimensionOrder.FIRST) == ("N", "C", "T")
    assert stored("NC", DimensionOrder.FIRST) == ("N", "C")
    assert stored("NHWC", DimensionOrder.LAST) == ("N", "H", "W", "C")


def test_there_and_back() -> None:
    for rank in range(7):
        for layout in DimensionOrder:
            order = to_stored(rank, layout)
            assert tuple(order[axis] for axis in to_file(rank, layout)) == tuple(range(rank))


def test_keeps_order_as_the_elements_do() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        shape = rng.integers(1, 3, 4)
        order = rng.permutation(4)
        elements = np.arange(np.prod(shape)).reshape(shape)
        is_kept = np.array_equal(elements.transpose(order).ravel(), elements.ravel())
        assert keeps_order(tuple(shape), tuple(order)) == is_kept
