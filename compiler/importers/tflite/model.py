"""What a TFLite file says, as frozen values: tensors, and operators with their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Option = int | float | bool | str | tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class Quantized:
    """real = (integer - zero_point) * scale; `axis` is the dimension that the scales go along, None for one scale."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The one scale of an activation."""
        return self.scales[0]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of the file; `shape` and the elements of `value` are in the file's order, channels last.

    `value` is None for what is computed or given at run time.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    quantized: Quantized | None = None
    value: NDArray[Any] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"tensor {self.index} {self.name!r}"


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator of the file: `inputs` are indices of tensors, None for one that is left out.

    `options` holds every field of the operator's options table, with the schema's default where the file has none.
    """

    index: int
    kind: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option]

    def __str__(self) -> str:
        return f"operator {self.index} ({self.kind})"


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """The main graph of a file, operators in the order in which they run.

    A constant is no input, whether the file lists it among them or not.
    """

    name: str
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
