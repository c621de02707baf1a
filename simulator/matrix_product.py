"""The product of an instruction as products of numpy matrices, exact whatever the sizes."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.numeric import FloatType, IntegerType, steps, wrap
from tilewright.isa.machine.memory import Element
from tilewright.simulator.statement_arrays import extract, store

FLOAT32_EXACT = 1 << 24
FLOAT64_EXACT = 1 << 53
"""Sums of integers up to these magnitudes are exact in floating point, in whatever order BLAS adds."""

GATHERED_ELEMENTS = 1 << 24
"""The most activations that a matrix product gathers at once."""


class MatrixProduct:
    """c = a · w, or c = old + a · w, where `old` may be c itself.

    The shapes: a is batch + vectors + reduced + (rows,), w is batch + reduced + (rows,) + tiles + (cols,), and c is
    batch + vectors + tiles + (cols,), as `old` is, which comes with its element. Where elements share bytes, the last
    axis counts bytes. With a `rows_axis`, w has cols there, and rows last.
    """

    def __init__(
        self,
        a: NDArray[Any],
        w: NDArray[Any],
        c: NDArray[Any],
        old: tuple[NDArray[Any], Element] | None,
        elements: tuple[Element, Element, Element],
        axes: tuple[int, int, int | None],
        kind: IntegerType,
        bound: int,
    ) -> None:
        """`axes` are how many of batch and of vectors there are, and the rows axis; `elements` are of a, w and c."""
        batch_axes, vector_axes, self._rows_axis = axes
        self._a, self._w, self._c = a, w, c
        self._old = old
        self._a_element, self._w_element, self._c_element = elements
        self._batch = a.shape[:batch_axes]
        self._terms = int(np.prod(a.shape[batch_axes + vector_axes :])) * self._a_element.in_a_byte
        self._axis = batch_axes
        self._has_vectors = vector_axes > 0
        self._kind = kind
        self._type = np.dtype(
            np.float32 if bound <= FLOAT32_EXACT else np.float64 if bound <= FLOAT64_EXACT else np.int64
        )

    def run(self) -> None:
        weights = _factors(self._w, self._w_element, self._type)
        if self._rows_axis is not None:
            weights = weights.swapaxes(self._rows_axis, -1)
        weights = weights.reshape(*self._batch, self._terms, -1)
        pieces = -(-self._a.size // GATHERED_ELEMENTS) if self._has_vectors else 1
        length = self._a.shape[self._axis] if self._has_vectors else 1
        step = max(1, length // pieces)
        for start in range(0, length, step):
            at = (*(slice(None),) * self._axis, slice(start, start + step)) if self._has_vectors else ...
            self._multiply(at, weights)

    def _multiply(self, at: tuple[slice, ...] | EllipsisType, weights: NDArray[Any]) -> None:
        a, c = self._a[at], self._c[at]
        vectors = _factors(a, self._a_element, self._type).reshape(*self._batch, -1, self._terms)
        total = (vectors @ weights).reshape(*c.shape[:-1], -1).astype(np.int64)
        if self._old is not None:
            old, element = self._old
            total += extract(old[at], element, "", total.dtype)
        store(c, np.asarray(wrap(total, self._kind)), self._c_element)


def _factors(stored: NDArray[Any], element: Element, to: np.dtype[Any]) -> NDArray[Any]:
    """What stored elements count as in products, as a type that holds them exactly."""
    if isinstance(element.type, FloatType):
        return np.asarray(steps(extract(stored, element, "", np.dtype(np.int64)), element.type)).astype(to)
    return extract(stored, element, "", to)
