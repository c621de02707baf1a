"""Chains of reshapes and transpositions as one order of factors, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler.graph.element_order import ElementOrder, order_of, same_order


def random_shape(size: int, rank: int, rng: np.random.Generator) -> tuple[int, ...]:
    """A shape of a size: its prime factors dealt to the dimensions."""
    shape = [1] * rank
    factor = 2
    while size > 1:
        while size % factor == 0:
            shape[rng.integers(rank)] *= factor
            size //= factor
        factor += 1
    return tuple(shape)


def moved(order: ElementOrder, elements: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return elements.reshape(order.sizes).transpose(order.axes).reshape(shape)


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_is_one_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.choice([1, 16, 24, 36, 60, 72]))
    shape = random_shape(size, 4, rng)
    elements = np.arange(size).reshape(shape)
    order = same_order(shape)
    for _ in range(4):
        axes = tuple(int(axis) for axis in rng.permutation(len(shape)))
        following = order.transposed(shape, axes)
        if following is None:
            break
        after = random_shape(size, int(rng.integers(1, 6)), rng)
        order, shape, elements = following, after, elements.transpose(axes).reshape(after)
        np.testing.assert_array_equal(moved(order, np.arange(size), shape), elements, err_msg=f"seed {seed}")
        assert 1 not in order.sizes
        assert all(after != before + 1 for before, after in zip(order.axes, order.axes[1:], strict=False))


@pytest.mark.parametrize("seed", range(40))
def test_factors_are_cut_for_both_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, result = random_shape(96, 4, rng), random_shape(96, 4, rng)
    order = order_of((4, 6, 4), tuple(int(axis) for axis in rng.permutation(3)))
    cut = order.cut_as_source(source)
    cut = None if cut is None else cut.cut_as_result(result)
    if cut is None:
        return
    elements = np.arange(96)
    np.testing.assert_array_equal(moved(cut, elements, result), moved(order, elements, result), err_msg=f"seed {seed}")
    for shape, groups, sizes in (
        (source, cut.source_groups(source), cut.sizes), (result, cut.result_groups(result), cut.result_sizes)
    ):  # fmt: skip
        assert [int(np.prod([sizes[position] for position in group])) for group in groups] == list(shape)
        assert [position for group in groups for position in group] == list(range(len(sizes)))


def test_a_cut_through_a_factor_is_refused() -> None:
    order = order_of((2, 3), (1, 0))
    assert order.transposed((2, 3), (1, 0)) is None
    assert order.cut_as_source((3, 2)) is None


def test_what_moves_back_is_the_same() -> None:
    order = order_of((2, 3, 4), (2, 0, 1)).transposed((4, 6), (1, 0))
    assert order is not None
    assert order.is_same
    assert order == same_order((24,))
