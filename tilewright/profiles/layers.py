"""What several views ask of a profile's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import LayerProfile


def distinct_names(layers: Sequence[LayerProfile]) -> list[str]:
    """The layers' names; of those that share one, each after the first with its number among them."""
    count: dict[str, int] = {}
    found = []
    for layer in layers:
        name = layer.name
        count[name] = count.get(name, 0) + 1
        found.append(name if count[name] == 1 else f"{name} ({count[name]})")
    return found
