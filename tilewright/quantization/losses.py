"""What of a quantised network loses so much that a user has to know: layers, and states of recurrences.

A state is rounded in each step, and each time it loses little. So it is compared with what comes into the recurrence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.quantization.noise import TOO_MUCH_DB, LayerNoise, or_full_scale

STATES = ("cell", "hidden")
"""The parts of a step that the next step reads."""


@dataclass(frozen=True, slots=True)
class AccuracyLoss:
    """A layer or a part of a recurrence, and by how much its ratio is lower than that of what it is computed from."""

    name: str
    loses_db: float


def losses(layers: Sequence[LayerNoise], alike: Mapping[str, Sequence[str]]) -> tuple[AccuracyLoss, ...]:
    """All that lose more than a user may leave unread, the worst first; each part of a recurrence once."""
    parts = {tensor: part for part, tensors in alike.items() for tensor in tensors}
    by_tensor = {layer.tensor: layer for layer in layers}
    worst: dict[str, AccuracyLoss] = {}
    for layer in layers:
        part = parts.get(layer.tensor)
        loss = layer.drop_db if part is None else max(layer.drop_db or 0, _of_state(layer, part, parts, by_tensor))
        name = layer.name if part is None else part
        if loss is not None and loss > max(TOO_MUCH_DB, worst[name].loses_db if name in worst else 0):
            worst[name] = AccuracyLoss(name, loss)
    return tuple(sorted(worst.values(), key=lambda each: -each.loses_db))


def _of_state(layer: LayerNoise, part: str, parts: Mapping[str, str], layers: Mapping[str, LayerNoise]) -> float:
    """How much lower the ratio of a state is than that of what comes into its recurrence; 0 for other parts."""
    if part.rsplit("/", 1)[-1] not in STATES or layer.snr_db is None:
        return 0.0
    seen, waiting, outside = {layer.tensor}, [layer], list[float | None]()
    while waiting:
        for operand in waiting.pop().operands:
            if operand in seen or operand not in layers:
                continue
            seen.add(operand)
            if operand in parts:
                waiting.append(layers[operand])
            else:
                outside.append(layers[operand].snr_db)
    return min(map(or_full_scale, outside), default=layer.snr_db) - layer.snr_db
