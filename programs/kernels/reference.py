"""Writes what each kernel reads and must give, from numpy and exact fractions; knows nothing of the machine.

python programs/kernels/reference.py
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.integer]

HERE = Path(__file__).resolve().parent


def gemm() -> tuple[Array, Array]:
    """C = A · B."""
    random = np.random.default_rng(1)
    a = random.integers(-128, 128, (8, 32)).astype(np.int8)
    b = random.integers(-128, 128, (32, 16)).astype(np.int8)
    return np.concatenate([a.reshape(-1), b.reshape(-1)]), a.astype(np.int32) @ b.astype(np.int32)


def conv() -> tuple[Array, Array]:
    """sums[y, x, o] = Σ over r, s, i of image[y + r - 1, x + s - 1, i] · weights[r, s, i, o]; zero outside."""
    random = np.random.default_rng(2)
    image = random.integers(-128, 128, (4, 4, 16)).astype(np.int8)
    weights = random.integers(-128, 128, (3, 3, 16, 16)).astype(np.int8)
    sums = np.zeros((4, 4, 16), np.int32)
    for y in range(4):
        for x in range(4):
            for r in range(3):
                for s in range(3):
                    if 0 <= y + r - 1 < 4 and 0 <= x + s - 1 < 4:
                        sums[y, x] += image[y + r - 1, x + s - 1].astype(np.int32) @ weights[r, s].astype(np.int32)
    return np.concatenate([image.reshape(-1), weights.reshape(-1)]), sums


REQUANTIZE_LANES = (
    [(0, 1, 1)] * 4 + [(-7, 3, 2)] * 4 + [(1000, 40000, 20)] * 4 + [(0, 65535, 40)] * 3 + [(-1, 65535, 63)]
)
"""(bias, scale, shift) of each lane, as in requantize.s."""


def requantize() -> tuple[Array, Array]:
    """Exact: Python's round of a fraction takes ties to even."""
    random = np.random.default_rng(3)
    sums = np.stack(
        [
            np.tile([-3, -1, 1, 3], 4),  # ties in the first lanes, on both sides of zero
            random.integers(-400, 400, 16),
            random.integers(-(2**20), 2**20, 16),
            np.tile([2**31 - 1, -(2**31)], 8),
        ]
    )
    results = [
        [
            min(max(round(Fraction((int(a) + bias) * scale, 2**shift)) - 3, -100), 100)
            for a, (bias, scale, shift) in zip(word, REQUANTIZE_LANES, strict=True)
        ]
        for word in sums
    ]
    return sums.astype(np.int32), np.array(results, np.int8)


def max_pool() -> tuple[Array, Array]:
    """The maximum of each 2×2 window of two blocks of 16 channels."""
    blocks = np.random.default_rng(4).integers(-128, 128, (2, 4, 4, 16)).astype(np.int8)
    return blocks, blocks.reshape(2, 2, 2, 2, 2, 16).max(axis=(2, 4))


def copy() -> tuple[Array, Array]:
    """Windows of 16 bytes that begin at bytes 26, 23, …, 5."""
    source = np.arange(100, 148).astype(np.uint8).view(np.int8)
    return source, np.stack([source[start : start + 16] for start in range(26, 4, -3)])


KERNELS: dict[str, Callable[[], tuple[Array, Array]]] = {
    "gemm": gemm,
    "conv": conv,
    "requantize": requantize,
    "max_pool": max_pool,
    "copy": copy,
}
"""Per kernel: the contents of the inputs region and of the outputs region."""


def as_text(values: Array) -> str:
    """The type, then 16 values a line."""
    rows = values.reshape(-1, 16)
    return "\n".join([f"# {values.dtype}", *(" ".join(f"{v:d}" for v in row) for row in rows)]) + "\n"


def read_text(path: Path) -> Array:
    """The values that `as_text` wrote."""
    text = path.read_text()
    return np.array(text.split()[2:], np.int64).astype(np.dtype(text.split()[1]))


def main() -> None:
    for name, reference in KERNELS.items():
        source, expected = reference()
        (HERE / f"{name}.input").write_text(as_text(source))
        (HERE / f"{name}.expected").write_text(as_text(expected))


if __name__ == "__main__":
    main()
