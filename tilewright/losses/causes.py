"""The causes of lost cycles in the words of a reader: what each is, and what may help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.simulator.losses import Loss

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import RunProfile


@dataclass(frozen=True, slots=True)
class Cause:
    """One key of a profile's `loss` (docs/profile.md), in words."""

    meaning: str
    remedy: str


PRODUCTS = "products"
"""The cycles that a full array would need: not lost. Together with the losses they are the cycles of the run."""

CAUSES: Mapping[Loss, Cause] = {
    Loss.EDGE: Cause(
        "rows and columns of the array that the layers leave empty",
        "a smaller array, or an instruction for such layers",
    ),
    Loss.ARRAY: Cause(
        "the array fills, drains, or waits for weights or a memory port",
        "longer runs for each tile of weights: more accumulators; more banks",
    ),
    Loss.VECTOR: Cause(
        "only the vector engine works, or it and transfers",
        "more lanes, or one instruction for several steps",
    ),
    Loss.LOAD: Cause(
        "nothing but loads is in flight",
        "a wider bus, shorter latency, or memory for what is loaded again",
    ),
    Loss.STORE: Cause("nothing but stores is in flight", "a wider bus, or memory for what is stored and loaded again"),
    Loss.IDLE: Cause("nothing is in flight: instructions are fetched", "fewer instructions, or shorter ones"),
}

MEANINGS: Mapping[str, str] = {
    PRODUCTS: "what a full array would need for the products",
    **{cause: what.meaning for cause, what in CAUSES.items()},
}
"""Every part of the cycles in words: the products, then what is lost."""


def parts(cycles: int, loss: Mapping[Loss, float]) -> dict[str, float]:
    """The cycles of a run or a layer by MEANINGS: those of the products, and what is lost; they add up to `cycles`."""
    return {PRODUCTS: cycles - sum(loss.values()), **{cause: loss[cause] for cause in CAUSES}}


def losses(profile: RunProfile) -> dict[Loss, float]:
    """The lost cycles of all layers by cause, in the order of CAUSES."""
    return {cause: sum(layer.loss[cause] for layer in profile.layers) for cause in CAUSES}


def largest_loss(loss: Mapping[Loss, float]) -> Loss | None:
    """The cause of most lost cycles; None if none are lost."""
    cause = max(loss, key=lambda each: loss[each], default=None)
    return cause if cause is not None and loss[cause] > 0 else None
