"""One step of an LSTM, a GRU or an RNN: gates as one product, then functions and products of single values.

The equations are those of ONNX opset 22. The clip bounds what gates read, but not what the last function of an LSTM
reads, its cell: ONNX Runtime does so. A state that is zeros is None, and what is multiplied with it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.quantization.recurrent.activations import RecurrentActivation, write_activation
from tilewright.quantization.recurrent.node import Array, Recurrence, RecurrentDirection
from tilewright.quantization.recurrent.writer import RecurrenceStep


@dataclass(frozen=True, slots=True)
class HiddenState:
    """The hidden values [rows, H], and for an LSTM its cell; None stands for zeros."""

    h: str | None
    c: str | None = None


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """A direction of a node, with its sizes and what all of its steps do."""

    node: Recurrence
    direction: RecurrentDirection

    def blocks(self, gates: Array, order: Sequence[int]) -> Array:
        """The blocks of H rows in this order."""
        hidden = self.node.hidden
        return np.concatenate([gates[block * hidden : (block + 1) * hidden] for block in order])

    def limited(self, step: RecurrenceStep, part: str, x: str) -> str:
        """x within the clip, if there is one."""
        if self.node.clip is None:
            return x
        limits = [step.constant("clip", np.array(limit)) for limit in (-self.node.clip, self.node.clip)]
        return step.node("Clip", f"{part}.clip", [x, *limits])

    def activated(self, step: RecurrenceStep, part: str, function: RecurrentActivation, x: str) -> str:
        return write_activation(step, part, function, self.limited(step, part, x))

    def product(self, step: RecurrenceStep, part: str, h: str, gates: Array, bias: Array | None = None) -> str:
        """h times the transposed gates [G, H]."""
        weights = step.constant("R", gates.T)
        if bias is None or not bias.any():
            return step.node("MatMul", part, [h, weights])
        return step.node("Gemm", part, [h, weights, step.constant("Rb", bias)])


def lstm_order(cell: RecurrentCell) -> Sequence[int]:
    """i, o, f, c; without f where it is 1 - i."""
    return (0, 1, 3) if cell.node.input_forget else (0, 1, 2, 3)


def lstm_step(cell: RecurrentCell, step: RecurrenceStep, x: str, state: HiddenState) -> HiddenState:
    """c = f * c + i * g(..), h = o * h(c); with peepholes, i and f also see the old c, and o the new one."""
    gates = x
    if state.h is not None:
        recurrent = cell.product(step, "recurrent", state.h, cell.blocks(cell.direction.recurrence, lstm_order(cell)))
        gates = step.node("Add", "gates", [x, recurrent])
    f, g, h = cell.direction.activations
    hidden, count = cell.node.hidden, len(lstm_order(cell))
    if cell.direction.peepholes is None:
        joined, candidate = step.split("gates.split", gates, [(count - 1) * hidden, hidden])
        opened = step.split("open", cell.activated(step, "opened", f, joined), [hidden] * (count - 1))
        (i, o), forget = opened[:2], opened[2] if len(opened) > 2 else None
    else:
        pieces = step.split("gates.split", gates, [hidden] * count)
        candidate = pieces[-1]
        i = cell.activated(step, "i", f, _peep(cell, step, "i", pieces[0], 0, state.c))
        forget = None
        if len(pieces) > 3 and state.c is not None:
            forget = cell.activated(step, "f", f, _peep(cell, step, "f", pieces[2], 2, state.c))
    c = step.node("Mul", "added", [i, cell.activated(step, "candidate", g, candidate)])
    if state.c is not None:
        forget = forget or step.node("Sub", "f", [step.constant("one", np.array(1.0)), i])
        c = step.node("Add", "cell", [step.node("Mul", "kept", [forget, state.c]), c])
    if cell.direction.peepholes is not None:
        o = cell.activated(step, "o", f, _peep(cell, step, "o", pieces[1], 1, c))
    return HiddenState(step.node("Mul", "hidden", [o, write_activation(step, "shown", h, c)]), c)


def _peep(cell: RecurrentCell, step: RecurrenceStep, part: str, gate: str, row: int, c: str | None) -> str:
    assert cell.direction.peepholes is not None
    if c is None:
        return gate
    peephole = step.constant("P", cell.direction.peepholes[row])
    return step.node("Add", f"{part}.gate", [gate, step.node("Mul", f"{part}.peephole", [c, peephole])])


def gru_step(cell: RecurrentCell, step: RecurrenceStep, x: str, state: HiddenState) -> HiddenState:
    """h = (1 - z) * n + z * h, written as n + z * (h - n), with n = g(x + r * h ..) for the reset gate r."""
    f, g = cell.direction.activations
    hidden = cell.node.hidden
    update, candidate = step.split("x", x, [2 * hidden, hidden])
    seen: str | None
    if cell.node.linear_before_reset:
        update, seen = _gates_before_reset(cell, step, update, state.h)
    elif state.h is not None:
        both = cell.product(step, "recurrent", state.h, cell.direction.recurrence[: 2 * hidden])
        update, seen = step.node("Add", "gates", [update, both]), state.h
    else:
        seen = None
    z, r = step.split("open", cell.activated(step, "opened", f, update), [hidden, hidden])
    if seen is not None:
        seen = step.node("Mul", "reset", [r, seen])
        if not cell.node.linear_before_reset:
            seen = cell.product(step, "candidate.recurrent", seen, cell.direction.recurrence[2 * hidden :])
        candidate = step.node("Add", "candidate.gate", [candidate, seen])
    new = cell.activated(step, "candidate", g, candidate)
    if state.h is None:
        return HiddenState(step.node("Sub", "hidden", [new, step.node("Mul", "change", [z, new])]))
    change = step.node("Mul", "change", [z, step.node("Sub", "difference", [state.h, new])])
    return HiddenState(step.node("Add", "hidden", [new, change]))


def _gates_before_reset(
    cell: RecurrentCell, step: RecurrenceStep, update: str, h: str | None
) -> tuple[str, str | None]:
    """z and r before their function, and what r is multiplied with: one product makes both."""
    hidden = cell.node.hidden
    bias = cell.direction.recurrence_bias.copy()
    bias[: 2 * hidden] = 0  # part of the input's product
    if h is None:
        return update, step.constant("Rbh", bias[2 * hidden :]) if bias.any() else None
    both = cell.product(step, "recurrent", h, cell.direction.recurrence, bias)
    of_gates, seen = step.split("recurrent.split", both, [2 * hidden, hidden])
    return step.node("Add", "gates", [update, of_gates]), seen


def rnn_step(cell: RecurrentCell, step: RecurrenceStep, x: str, state: HiddenState) -> HiddenState:
    """h = f(x + h ..)."""
    if state.h is not None:
        x = step.node("Add", "gates", [x, cell.product(step, "recurrent", state.h, cell.direction.recurrence)])
    return HiddenState(cell.activated(step, "hidden", cell.direction.activations[0], x))


STEPS: dict[str, Callable[[RecurrentCell, RecurrenceStep, str, HiddenState], HiddenState]] = {
    "LSTM": lstm_step,
    "GRU": gru_step,
    "RNN": rnn_step,
}
"""Operator → what writes one step of it."""


def input_product(cell: RecurrentCell) -> tuple[Array, Array]:
    """Weights [G, I] and bias [G] of what a step takes from its input: all that does not need the step before."""
    direction, hidden = cell.direction, cell.node.hidden
    bias = direction.input_bias + direction.recurrence_bias
    if cell.node.kind == "LSTM":
        order = lstm_order(cell)
        return cell.blocks(direction.weights, order), cell.blocks(bias, order)
    if cell.node.kind == "GRU" and cell.node.linear_before_reset:
        bias[2 * hidden :] = direction.input_bias[2 * hidden :]
    return direction.weights, bias
