"""A network by its layers and tensors alone, and what a search may find for it."""

from __future__ import annotations

from tests.compiler.machines import machine
from tilewright.compiler.emission.ahead import Ahead, Mix
from tilewright.compiler.search.records import SearchSubject, Tuning
from tilewright.compiler.tiling.options import TileSizes, TilingOptions

FOUND = Tuning(
    TilingOptions(0.25, "none", {"act": 64}, frozenset({"b1"}), {"n0": TileSizes({"": 1, "o": 2, "i": 4}, True)}),
    Ahead(3, 6, Mix.ROW_BY_ROW),
    1000,
)


def subject(key: str) -> SearchSubject:
    """A network of two layers, of which the first one's tiles and result are in `FOUND`."""
    layers = (("conv", {"o": 16, "i": 16}), ("pool", {"y": 3}))
    return SearchSubject(key, "by hand", machine("tiny8"), 1, layers, ("x", "conv.out", "result"))
