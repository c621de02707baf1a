"""The values of any tensors of a network, computed by ONNX Runtime in one thread, with nothing optimised away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, first_line
from tilewright.errors import InputError
from tilewright.quantization.samples import Feed


class Tensors:
    """Computes wanted tensors of a network, sample by sample; holds those of one sample at a time.

    Raises CompileError for a network that ONNX Runtime does not take.
    """

    def __init__(self, model: onnx.ModelProto, wanted: Sequence[str], name: str) -> None:
        inputs = {value.name for value in model.graph.input}
        self._name = name
        self._wanted = tuple(wanted)
        self._computed = [tensor for tensor in dict.fromkeys(wanted) if tensor not in inputs]
        self._session = _session(_with_outputs(model, self._computed), name) if self._computed else None

    def __call__(self, feed: Feed) -> Mapping[str, NDArray[Any]]:
        """The wanted tensors by name; raises InputError for a sample on which the network fails."""
        if self._session is None:
            return {tensor: feed[tensor] for tensor in self._wanted}
        try:
            found = dict(zip(self._computed, self._session.run(self._computed, dict(feed)), strict=True))
        except Exception as error:  # ONNX Runtime's errors have no common base
            raise InputError(f"{self._name}: cannot be run on the calibration data: {first_line(error)}") from error
        return {tensor: found[tensor] if tensor in found else feed[tensor] for tensor in self._wanted}


def _session(model: onnx.ModelProto, name: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # sums do not depend on the number of cores
    options.log_severity_level = 4  # what it would print comes as an exception
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise CompileError(name, f"ONNX Runtime cannot run it: {first_line(error)}") from error


def _with_outputs(model: onnx.ModelProto, wanted: Sequence[str]) -> onnx.ModelProto:
    """The model with these tensors as its outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    types = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    del made.graph.output[:]
    made.graph.output.extend(types.get(name) or onnx.ValueInfoProto(name=name) for name in wanted)
    return made
