"""What a caller may choose about a compilation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, Ahead
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.tiling.options import TilingOptions


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of the compiler.

    `ahead`: how far operations may move ahead of their turn. `in_order`: layers in which nothing moves past another,
    because they do not fit otherwise. `shapes`: sizes of inputs that the model leaves open. `batch`: how many images
    a run takes at the most; None: as many as the file says, and nothing is known of whether they are apart. `effort`:
    how hard to search for a faster program, a row of `search.effort.EFFORTS`. `tuning`: the file with what searches
    found, which gets what it does not have; None: the user's cache. `fails_on_miss`: raise CompileError where a search
    would be needed. `joins_columns`: whether columns of tensors with few channels are joined where that pays.
    `cuts_chains`: whether tensors pass through chains of layers in stripes where that pays.
    `verifies`: whether the result of each pass is held against the rules of its level. `passes`: the names of those
    that run, in this order, as `pass_list.passes_of` checks them; none: all, as the compiler has them.
    """

    tiling: TilingOptions = TilingOptions()
    ahead: Ahead = EVERYTHING_AHEAD
    in_order: frozenset[str] = frozenset()
    effort: int = 1
    tuning: Path | None = None
    fails_on_miss: bool = False
    joins_columns: bool = True
    cuts_chains: bool = True
    verifies: bool = False
    passes: tuple[str, ...] = ()
    shapes: Shapes = field(default_factory=dict)
    batch: int | None = None
