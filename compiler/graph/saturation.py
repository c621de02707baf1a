"""Quantised numbers at the ends of their range: one rule for constants, tables and the interpreter of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def saturated(steps: NDArray[np.floating[Any]] | np.floating[Any], low: int, high: int) -> NDArray[np.floating[Any]]:
    """Rounded steps within low … high. What is not a number is `low`.

    ONNX (QuantizeLinear, opset 21) does not say what becomes of NaN. ONNX Runtime gives the least value of the type,
    for every type and zero point: so does this. The square root and the logarithm of negative numbers get there.
    """
    return np.where(np.isnan(steps), low, np.clip(steps, low, high))
