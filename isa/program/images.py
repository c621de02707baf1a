"""How many images a run takes: along the first dimension of every input and output, each apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tilewright.isa.errors import IsaError


class Shaped(Protocol):
    """An input or output. A size that depends on data is None."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int | None, ...]: ...


def require_images(images: int | None, inputs: Sequence[Shaped], outputs: Sequence[Shaped]) -> None:
    """Raise IsaError unless each input holds so many images, and each output so many equal parts; None is not said."""
    if images is None:
        return
    if images < 1:
        raise IsaError(f"images: expected a number from 1 on, not {images}")
    for end, ends in (("input", inputs), ("output", outputs)):
        for value in ends:
            first = value.shape[0] if value.shape else None
            if not first or first % images or (end == "input" and first != images):
                raise IsaError(f"{end} {value.name!r} is {list(value.shape)}, which does not hold {images} images")
