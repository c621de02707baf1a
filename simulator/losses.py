"""What a cycle without a product is lost to: the keys of a profile's `loss`."""

from __future__ import annotations

from enum import StrEnum


class Loss(StrEnum):
    """A cause of lost cycles; docs/profile.md defines each."""

    EDGE = "edge"
    ARRAY = "array"
    VECTOR = "vector"
    LOAD = "load"
    STORE = "store"
    IDLE = "idle"
