"""What a caller may choose about a compilation."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.tiling.options import TilingOptions


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of the compiler.

    `loads_ahead`: how many loads may move past an operation; None: what the queue holds. `shapes`: sizes of inputs
    that the model leaves open. `effort`: how hard to search for a faster program, a row of `search.effort.EFFORTS`.
    """

    tiling: TilingOptions = TilingOptions()
    loads_ahead: int | None = None
    effort: int = 1
    shapes: Shapes = field(default_factory=dict)
