"""Why a larger array can take a network longer: its weight tiles are filled with zeros, which come from DRAM, too."""

from __future__ import annotations

from tilewright.codesign.points.evaluate import NetworkFigures

ALLOWED = 1.005
"""Cycles on the larger array, by those on the smaller one, of which nothing is said."""


def padding_note(where: str, smaller: NetworkFigures, larger: NetworkFigures) -> str:
    """A line about a network that takes longer on a larger array; empty if it does not.

    `where` says which one: `on dw16`, `with array.rows 16 → 32`.
    """
    share = larger.cycles_per_image / max(1, smaller.cycles_per_image) - 1
    more = round(larger.dram_bytes / larger.images - smaller.dram_bytes / smaller.images)
    if share <= ALLOWED - 1 or more <= 0:
        return ""
    return (
        f"{larger.network} takes {100 * share:.1f} % more cycles {where}: the array is larger than its layers, so that "
        f"weights are filled up with zeros, and {more:,} bytes more pass from and to DRAM"
        f"{' for each image' * (larger.images > 1)}."
    )
