"""What several views ask of a profile's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def moved_bytes(counted: Mapping[str, Any]) -> int:
    """The bytes of DRAM that a layer, or a whole run, reads and writes."""
    return int(counted["dram_bytes"]["read"] + counted["dram_bytes"]["written"])


def distinct_names(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The layers' names; of those that share one, each after the first with its number among them."""
    count: dict[str, int] = {}
    found = []
    for layer in layers:
        name = layer["name"]
        count[name] = count.get(name, 0) + 1
        found.append(name if count[name] == 1 else f"{name} ({count[name]})")
    return found
