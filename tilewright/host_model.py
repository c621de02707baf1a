"""Runs ONNX models on the host: ONNX Runtime without optimisations, in one thread, so that nodes mean what ONNX says.

What ONNX Runtime does not take (operators or opsets that are too new for it) runs in ONNX's reference evaluator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from tilewright.errors import InputError


class Runner(Protocol):
    """Computes outputs, in the order of their names, from inputs by name."""

    def __call__(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]: ...


class HostModel:
    """A serialised ONNX model, ready to run any number of times."""

    def __init__(self, model: bytes) -> None:
        self._model = model

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; raises InputError when neither ONNX Runtime nor the reference evaluator can run it."""
        try:
            results = self._runner(outputs, inputs)
        except InputError:
            raise
        except Exception as error:  # both raise whatever their kernels do
            raise InputError(f"the host cannot run its part of the network: {_first_line(error)}") from error
        return dict(zip(outputs, results, strict=True))

    @cached_property
    def _runner(self) -> Runner:
        try:
            return _onnx_runtime(self._model)
        except Exception as first:  # ONNX Runtime's errors have no common base
            try:
                return _reference_evaluator(self._model)
            except Exception:
                raise InputError(f"the host cannot run its part of the network: {_first_line(first)}") from first


def _onnx_runtime(model: bytes) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what it would print comes as an exception
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        results: list[Any] = session.run(list(outputs), dict(inputs))
        return results

    return run


def _reference_evaluator(model: bytes) -> Runner:
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.ModelProto.FromString(model))

    def run(outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        results = evaluator.run(list(outputs), dict(inputs))
        assert isinstance(results, list)
        return results

    return run


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
