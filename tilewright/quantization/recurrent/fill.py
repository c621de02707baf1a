"""Fills the hidden values of a recurrence up with zeros, so that each gate begins with a word of the machine.

Otherwise every step would move gates to other lanes. Example: the gates of 154 hidden values begin at 0, 154 and 308;
filled up to 160, they begin at 0, 160 and 320, and words of 4, 8 or 16 lanes begin there, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.quantization.recurrent.activations import RecurrentActivation
from tilewright.quantization.recurrent.node import GATES, Array, Recurrence, RecurrentDirection

LANES = 16
"""The lanes of most machines. Others compute the same, perhaps with more moves."""

KEEP_ZERO = frozenset(("Relu", "Tanh", "Softsign", "LeakyRelu", "Elu", "ScaledTanh"))
"""Activations that are 0 at 0."""


def filled(node: Recurrence) -> Recurrence:
    """The node with hidden values that stay 0 behind its own, if its activations leave zeros as they are."""
    hidden = -(-node.hidden // LANES) * LANES
    functions = [each for direction in node.directions for each in _on_states(node.kind, direction)]
    if hidden == node.hidden or any(each.name not in KEEP_ZERO for each in functions):
        return node
    directions = tuple(_filled(direction, GATES[node.kind], node.hidden, hidden) for direction in node.directions)
    return replace(node, hidden=hidden, directions=directions)


def _on_states(kind: str, direction: RecurrentDirection) -> tuple[RecurrentActivation, ...]:
    """The functions that make hidden values; those of gates only multiply them."""
    return direction.activations if kind == "RNN" else direction.activations[1:]


def _filled(direction: RecurrentDirection, gates: int, old: int, new: int) -> RecurrentDirection:
    def rows(values: Array) -> Array:
        """Values [gates · old, ..] as [gates · new, ..]."""
        blocks = values.reshape(-1, old, *values.shape[1:])
        widths = [(0, 0)] * blocks.ndim
        widths[1] = (0, new - old)
        return np.pad(blocks, widths).reshape(-1, *values.shape[1:])

    assert direction.weights.shape[0] == gates * old
    peepholes = direction.peepholes
    return replace(
        direction,
        weights=rows(direction.weights),
        recurrence=np.pad(rows(direction.recurrence), ((0, 0), (0, new - old))),
        input_bias=rows(direction.input_bias),
        recurrence_bias=rows(direction.recurrence_bias),
        peepholes=None if peepholes is None else np.pad(peepholes, ((0, 0), (0, new - old))),
    )
