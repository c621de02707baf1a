"""Where the windows of convolutions and pools lie: the schema's SAME and VALID as explicit padding.

Example: SAME with 6 elements, a window of 3 and a stride of 2 gives 3 results. They span (3 - 1) · 2 + 3 = 7 elements,
one more than there are: it is added at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.importers.tflite.operation import TfliteOperation


@dataclass(frozen=True, slots=True)
class SpatialWindows:
    """Sizes in the order height, width; `before` and `after` are how much padding there is."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """As ONNX has them."""
        return (*self.before, *self.after)


def read_windows(
    operation: TfliteOperation, image: tuple[int, int], kernel: tuple[int, int], dilated: bool
) -> SpatialWindows:
    """From the options padding, stride and (if `dilated`) dilation of an operator."""
    strides = operation.positive("stride_h"), operation.positive("stride_w")
    dilations = (1, 1)
    if dilated:
        dilations = operation.positive("dilation_h_factor", 1), operation.positive("dilation_w_factor", 1)
    totals = [0, 0]
    if operation.name_of("padding", "Padding") == "SAME":
        totals = [
            same_padding(size, taps, stride, dilation)
            for size, taps, stride, dilation in zip(image, kernel, strides, dilations, strict=True)
        ]
    before = totals[0] // 2, totals[1] // 2
    return SpatialWindows(strides, dilations, before, (totals[0] - before[0], totals[1] - before[1]))


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> int:
    """How much padding makes ceil(size / stride) windows fit."""
    results = -(-size // stride)
    return max((results - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
