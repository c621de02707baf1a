"""How the kernel of a Conv or a pool moves: strides, dilations and padding, each explicit."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Attribute, TensorType
from tilewright.compiler.simplify.attributes import Attributes

SPATIAL = 2
"""The first spatial dimension of a tensor [N, C, …], whatever its rank."""


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """How a kernel moves over [H, W]; pads are (top, left, bottom, right)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]

    @property
    def attributes(self) -> dict[str, Attribute]:
        return {"kernel": self.kernel, "strides": self.strides, "pads": self.pads, "dilations": self.dilations}


def read_window(
    attributes: Attributes, kernel: tuple[int, ...], source: TensorType, result: TensorType
) -> KernelWindow:
    """The window of a Conv or pool from its attributes; one spatial dimension is taken as the width."""
    operator, rank = attributes.operator, len(kernel)
    if rank not in (1, 2) or len(source.shape) != rank + 2:
        raise CompileError(operator, f"its input has the shape {list(source.shape)}", expected="[N, C, H, W]")
    ones = (1,) * rank
    strides = attributes.integers("strides") or ones
    dilations = attributes.integers("dilations") or ones
    pads = attributes.integers("pads") or (0,) * (2 * rank)
    auto_pad = attributes.text("auto_pad", "NOTSET")
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank or min(*strides, *dilations) < 1:
        raise CompileError(operator, f"strides, dilations or pads do not fit {rank} spatial dimensions")
    if min(pads) < 0:
        raise CompileError(operator, f"pads = {list(pads)}", expected="no negative padding")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(auto_pad, kernel, strides, dilations, source.shape[SPATIAL:], result.shape[SPATIAL:])
    elif auto_pad == "VALID":
        pads = (0,) * (2 * rank)
    elif auto_pad != "NOTSET":
        raise CompileError(operator, f"auto_pad = {auto_pad!r}", expected="NOTSET, SAME_UPPER, SAME_LOWER, VALID")
    height = (1,) * (2 - rank)
    no_pad = (0,) * (2 - rank)
    begin, end = no_pad + pads[:rank], no_pad + pads[rank:]
    return KernelWindow(
        (height + kernel)[:2],  # type: ignore[arg-type]
        (height + strides)[:2],  # type: ignore[arg-type]
        (begin + end)[:4],  # type: ignore[arg-type]
        (height + dilations)[:2],  # type: ignore[arg-type]
    )


def _same_pads(
    auto_pad: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    source: tuple[int, ...],
    result: tuple[int, ...],
) -> tuple[int, ...]:
    """Padding for a result of source / stride elements; the odd element is at the end (UPPER) or the start (LOWER)."""
    begin, end = [], []
    for k, s, d, i, o in zip(kernel, strides, dilations, source, result, strict=True):
        total = max(0, (o - 1) * s + (k - 1) * d + 1 - i)
        first = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        begin.append(first)
        end.append(total - first)
    return (*begin, *end)
