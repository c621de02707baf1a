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
    is_variable: bool = False

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
    intermediates: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"operator {self.index} ({self.kind})"


@dataclass(frozen=True, slots=True)
class SubgraphInfo:
    """A graph of the file as it stands there, operators in the order in which they run."""

    name: str
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What lasts from run to run: tensor `input` holds it when a run begins, and `output` when it ends.

    `output` is `input` itself where an operator changes it in its place. `initial` is what the first run begins with.
    """

    name: str
    input: int
    output: int
    initial: NDArray[Any] = field(compare=False)

    @property
    def next_name(self) -> str:
        """What the program calls the output that the next run is given."""
        return f"{self.name}.next"


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """The main graph of a file, without the operators that only read and assign variables: these are `states`.

    A constant is no input, whether the file lists it among them or not.
    """

    name: str
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[StateInfo, ...] = ()
