"""The steps that tensors of a quantised network have, and what rounding to them does to a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.quantization.constants import constants_of, dequantizers


@dataclass(frozen=True, slots=True)
class Steps:
    """Integers from `low` to `high`, which stand for (integer - zero) · scale."""

    scale: float
    zero: int
    low: int
    high: int

    def rounded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values that are nearest to these."""
        integers = np.clip(np.rint(values / self.scale) + self.zero, self.low, self.high)
        return np.asarray((integers - self.zero) * self.scale, np.float64)


def steps_of(quantized: onnx.ModelProto, names: Mapping[str, str]) -> dict[str, Steps]:
    """The steps of tensors that are dequantised under these names, as far as they have one scale."""
    constants, makers = constants_of(quantized), dequantizers(quantized)
    found = {}
    for tensor, name in names.items():
        node = makers.get(name)
        if node is None or len(node.input) < 3 or not constants.keys() >= {*node.input[1:3]}:
            continue
        scale, zero = (numpy_helper.to_array(constants[each]) for each in node.input[1:3])
        if scale.size == 1 and zero.dtype.kind in "iu":
            limits = np.iinfo(zero.dtype)
            found[tensor] = Steps(float(scale.max()), int(zero.max()), int(limits.min), int(limits.max))
    return found
