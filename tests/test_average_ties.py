"""AveragePool differs from ONNX Runtime only where a mean is exactly between two steps, and there by one."""

from __future__ import annotations

import pytest

from tests.average_ties import count


@pytest.mark.parametrize(("window", "scale"), [((2, 2), 0.1), ((3, 3), 0.37), ((6, 6), 0.0123)])
def test_only_exact_ties_differ(window: tuple[int, int], scale: float) -> None:
    found = count(window, scale)
    assert (found.differ_beside, found.furthest <= 1, found.differ <= found.ties) == (0, True, True)


def test_nothing_differs_where_float32_is_exact() -> None:
    """A step of 1 / 16, four values: all of ONNX Runtime's numbers are exact, so both round ties to even."""
    found = count((2, 2), 1 / 16)
    assert found.ties > 100
    assert found.differ == 0
