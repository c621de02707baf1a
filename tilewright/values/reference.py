"""What a network's tensors are in ONNX Runtime without optimisations, in the integers that the machine stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.columns.elements import with_columns_joined
from tilewright.compiler.graph.graph import stored_shape
from tilewright.compiler.nest.host_values import from_host
from tilewright.compiler.nest.nest import Buffer
from tilewright.host.model import HostModel
from tilewright.isa.program.program import Tensor, in_stored_order
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import FLOATS, STORED_TYPES

Arrays = Mapping[str, NDArray[Any]]

MOST_DIMENSIONS = 4


@dataclass(frozen=True)
class Expected:
    """A tensor's right values as the machine stores them, [N, C, H, W], and where each is in the ONNX tensor."""

    values: NDArray[np.int64]
    shape: tuple[int, ...]  # of the ONNX tensor
    order: NDArray[np.int64]  # the index of each stored element in the ONNX tensor's C order

    def index(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """The index in the ONNX tensor of a stored element."""
        return tuple(int(i) for i in np.unravel_index(int(self.order[stored]), self.shape))


def reference_tensors(model: onnx.ModelProto, inputs: Arrays, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Tensors of a model by name, each computed as its nodes say, one after the other. Raises InputError.

    The model's own outputs are among them.
    """
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    known = [output.name for output in model.graph.output]
    more = [name for name in dict.fromkeys(names) if name not in known]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    return HostModel(exposed.SerializeToString()).run([*known, *more], inputs)


def expected(tensor: Buffer, values: NDArray[Any], host: Tensor | None, joined: int = 1) -> Expected | str:
    """The values in the machine's integers, or why they cannot be compared.

    `host`: how the host sees an output; `joined`: how many columns of the model's tensor are one of the machine's.
    """
    shape, numbers = values.shape, np.arange(values.size).reshape(values.shape)
    if host is not None:
        stored = from_host(values.astype(host.dtype), host).astype(np.int64).reshape(tensor.shape)
        return Expected(stored, values.shape, in_stored_order(numbers, host).reshape(tensor.shape))
    if values.dtype.name in FLOATS:
        kind = STORED_TYPES[values.dtype.name].held_in(tensor.type)
        values = SMALL_FLOATS[values.dtype.name].steps(values)
    elif values.dtype.kind not in "iu" and values.dtype.name not in ("int4", "uint4", "int2", "uint2"):
        return f"it is {values.dtype.name} in the model, and integers of another scale on the machine"
    else:
        kind = STORED_TYPES[values.dtype.name].held_in(tensor.type)
    if joined > 1:
        values, numbers = with_columns_joined(values, joined), with_columns_joined(numbers, joined)
    if values.ndim > MOST_DIMENSIONS or stored_shape(values.shape) != tensor.shape:
        return f"the machine keeps it in another shape: {'×'.join(map(str, tensor.shape))}"
    shift = 0 if kind is None else kind.offset
    return Expected(values.astype(np.int64).reshape(tensor.shape) - shift, shape, numbers.reshape(tensor.shape))
