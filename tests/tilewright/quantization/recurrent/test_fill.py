"""Hidden values are filled up to whole words where that leaves zeros as they are, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.quantization.recurrent.activations import ACTIVATIONS
from tilewright.quantization.recurrent.fill import filled
from tilewright.quantization.recurrent.node import DEFAULTS, GATES, Recurrence, RecurrentDirection


def recurrence(kind: str, hidden: int, names: tuple[str, ...] = ()) -> Recurrence:
    """A node with 2 features whose weights are all 1."""
    rows = GATES[kind] * hidden
    direction = RecurrentDirection(
        "forward",
        np.ones((rows, 2), np.float32),
        np.ones((rows, hidden), np.float32),
        np.ones(rows, np.float32),
        np.ones(rows, np.float32),
        np.ones((3, hidden), np.float32) if kind == "LSTM" else None,
        tuple(ACTIVATIONS[name.lower()] for name in names or DEFAULTS[kind]),
    )
    return Recurrence(kind, "cell", "x", 1, 1, 2, hidden, (1,), (direction,), "", "", None, False, False, ("y", "", ""))


@pytest.mark.parametrize("kind", GATES)
def test_each_gate_begins_with_a_word(kind: str) -> None:
    made = filled(recurrence(kind, 20))
    weights, matrix = made.directions[0].weights, made.directions[0].recurrence
    own = np.arange(GATES[kind] * 32) % 32 < 20
    assert made.hidden == 32
    assert np.array_equal(weights[:, 0], own)
    assert np.array_equal(matrix, own[:, None] & (np.arange(32) < 20))
    assert np.array_equal(made.directions[0].input_bias, own)


def test_leaves_whole_words_alone() -> None:
    node = recurrence("GRU", 32)
    assert filled(node) is node


@pytest.mark.parametrize(
    ("kind", "names"), [("LSTM", ("Sigmoid", "Sigmoid", "Tanh")), ("GRU", ("Tanh", "Softplus")), ("RNN", ("Affine",))]
)
def test_leaves_values_alone_that_would_not_stay_0(kind: str, names: tuple[str, ...]) -> None:
    node = recurrence(kind, 20, names)
    assert filled(node) is node
