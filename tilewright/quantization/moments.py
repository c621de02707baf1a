"""What products read, on the samples: which errors of weights matter, and which of them make up for each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.quantization.samples import Samples
from tilewright.quantization.tensors import Tensors

Moments = Mapping[str, NDArray[np.float64]]
"""For each tensor that a matrix product reads, the sum of xᵀx over all its rows, [K, K]."""


def moments(model: onnx.ModelProto, samples: Samples, name: str) -> Moments:
    """The moments of what MatMul and Gemm multiply by a constant matrix; `name` is what messages call the model."""
    wanted = sorted(set(_read_by_matrices(model)))
    found: dict[str, NDArray[np.float64]] = {}
    tensors = Tensors(model, wanted, name)
    for feed in samples if wanted else ():
        for tensor, value in tensors(feed).items():
            rows = value.reshape(-1, value.shape[-1]).astype(np.float64)
            found[tensor] = found.get(tensor, 0) + rows.T @ rows
    return found


def _read_by_matrices(model: onnx.ModelProto) -> Iterator[str]:
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        is_turned = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
        if node.op_type not in ("MatMul", "Gemm") or is_turned or node.input[0] in constants:
            continue
        if node.input[1] in constants and len(constants[node.input[1]].dims) == 2:
            yield node.input[0]
