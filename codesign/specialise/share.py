"""How much logic instructions may add, as people write it."""

from __future__ import annotations

EXPECTED = "expected how much logic the instructions may add, such as +10%"


def share_of(text: str) -> float | None:
    """0.1 of `+10%`; None for what is no share above 0."""
    try:
        found = float(text.removeprefix("+").removesuffix("%")) / 100 if text.endswith("%") else -1.0
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None
