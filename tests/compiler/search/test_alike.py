"""Parts of one network that look alike: what a search found for the first is that of the others."""

from __future__ import annotations

from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.search.alike import Alike, FoundPlan
from tilewright.compiler.search.records import Tuning
from tilewright.compiler.tiling.options import TilingOptions


def test_the_first_of_a_key_decides() -> None:
    alike = Alike()
    for loads in (3, 5):
        alike.remember("key", FoundPlan(Tuning(TilingOptions(), Ahead(loads))))
    assert alike.recall("key") == FoundPlan(Tuning(TilingOptions(), Ahead(3)))
    assert alike.recall("another") is None
