"""Runs ONNX models on the host: ONNX Runtime without optimisations, in one thread, so that nodes mean what ONNX says.

What ONNX Runtime does not take, or is known to compute otherwise, runs in ONNX's reference evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import onnx

from tilewright.errors import InputError

OLDEST_OPSET = 13
"""Models are given to ONNX Runtime in the oldest opset that means the same, but in none older than this."""

OTHERWISE: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "DFT": lambda attributes: True,  # less exact than single precision allows
    "STFT": lambda attributes: True,
    "MaxUnpool": lambda attributes: True,  # leaves its third input out
    "Resize": lambda attributes: attributes.get("coordinate_transformation_mode") == b"align_corners",
    "Dropout": lambda attributes: "seed" in attributes,  # training, with other random numbers
    "Attention": lambda attributes: attributes.get("is_causal") == 1,  # masks with -inf otherwise
}
"""Operators that ONNX Runtime computes otherwise than ONNX's own tests expect, by their attributes."""


class Runner(Protocol):
    """Computes outputs, in the order of their names, from inputs by name."""

    def __call__(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]: ...


class HostModel:
    """A serialised ONNX model, ready to run any number of times."""

    def __init__(self, model: bytes) -> None:
        self._model = onnx.ModelProto.FromString(model)

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; raises InputError when neither ONNX Runtime nor the reference evaluator can run it."""
        given = {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in inputs.items()}
        first: Exception | None = None
        for runner in self._runners:
            try:
                return dict(zip(outputs, runner(self._model)(outputs, given), strict=True))
            except Exception as error:  # both raise whatever their kernels do
                first = first or error
        assert first is not None
        raise InputError(f"the host cannot run its part of the network: {_first_line(first)}") from first

    def require_runnable(self) -> None:
        """Raise InputError when neither ONNX Runtime nor the reference evaluator takes the model."""
        first: Exception | None = None
        for runner in self._runners:
            try:
                runner(self._model)
                return
            except Exception as error:  # both raise whatever their loaders do
                first = first or error
        nodes = ", ".join(f"{node.name!r} ({node.op_type})" for node in self._model.graph.node)
        assert first is not None
        raise InputError(f"the host cannot run its part of the network, {nodes}: {_first_line(first)}") from first

    @cached_property
    def _runners(self) -> tuple[Callable[[onnx.ModelProto], Runner], ...]:
        """What may run the model, in the order in which they are tried."""
        reference = cache_one(_reference_evaluator)
        if any(_is_otherwise(node) for node in all_nodes(self._model.graph)):
            return (reference,)
        return cache_one(_onnx_runtime), reference


def cache_one(make: Callable[[onnx.ModelProto], Runner]) -> Callable[[onnx.ModelProto], Runner]:
    """The same function for one argument, which makes its runner only once, also when that fails."""
    made: list[Runner | Exception] = []

    def made_once(model: onnx.ModelProto) -> Runner:
        if not made:
            try:
                made.append(make(model))
            except Exception as error:  # raised again for every run
                made.append(error)
        if isinstance(made[0], Exception):
            raise made[0]
        return made[0]

    return made_once


def _is_otherwise(node: onnx.NodeProto) -> bool:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return node.op_type in OTHERWISE and OTHERWISE[node.op_type](attributes)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the graphs in its nodes' attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from all_nodes(inner)


def in_oldest_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with the oldest version of ONNX's operators in which each of its nodes means the same.

    ONNX Runtime knows the operators of many releases, but refuses a model that names a newer release than it knows.
    """
    given = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if model.functions or given <= OLDEST_OPSET:
        return model
    since = [OLDEST_OPSET]
    for node in all_nodes(model.graph):
        if node.domain in ("", "ai.onnx"):
            since.append(onnx.defs.get_schema(node.op_type, given).since_version)
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    for opset in renamed.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = max(since)
    renamed.ir_version = min(model.ir_version, onnx.helper.find_min_ir_version_for(renamed.opset_import, True))
    return renamed


def _onnx_runtime(model: onnx.ModelProto) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what it would print comes as an exception
    session = onnxruntime.InferenceSession(
        in_oldest_opset(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run(outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        results: list[Any] = session.run(list(outputs), dict(inputs))
        return results

    return run


def _reference_evaluator(model: onnx.ModelProto) -> Runner:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)

    def run(outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        results = evaluator.run(list(outputs), dict(inputs))
        assert isinstance(results, list)
        return results

    return run


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
