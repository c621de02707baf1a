"""Runs ONNX models on the host: ONNX Runtime without optimisations, in one thread, so that nodes mean what ONNX says.

What ONNX Runtime does not take, or is known to compute otherwise, runs in ONNX's reference evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import onnx

from tilewright.compiler.errors import first_line
from tilewright.errors import InputError
from tilewright.extras import require_module
from tilewright.host.check import parse_host_model
from tilewright.host.pieces import HostPiece, all_nodes, pieces_of, whole_piece
from tilewright.host.products import with_exact_products

OLDEST_OPSET = 13
"""Models are given to ONNX Runtime in the oldest opset that means the same, but in none older than this."""

NAMED = 5
"""An error names so many of the nodes that cannot run."""


class Runner(Protocol):
    """Computes outputs, in the order of their names, from inputs by name."""

    def __call__(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]: ...


Maker = Callable[[onnx.ModelProto], Runner]
"""Loads a model into an evaluator; raises when it does not take it."""


class HostModel:
    """A serialised ONNX model, ready to run any number of times. Evaluators get it from memory, never a path."""

    def __init__(self, model: bytes) -> None:
        """Raises InputError for what is not a model, or not all of one."""
        self._model = parse_host_model(model)

    @cached_property
    def _pieces(self) -> tuple[_RunningPiece, ...]:
        try:
            pieces = pieces_of(self._model)
        except Exception:  # a damaged model, of which the evaluators say what is wrong
            pieces = (whole_piece(self._model),)
        return tuple(map(_RunningPiece, pieces))

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name: arrays, or what else ONNX knows, such as a sequence of arrays, which is a list.

        Raises InputError when neither ONNX Runtime nor the reference evaluator can run it.
        """
        known = {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in inputs.items()}
        if len(self._pieces) == 1:
            return self._pieces[0].run(outputs, known)
        constant = {tensor.name: tensor for tensor in self._model.graph.initializer}
        for piece in self._pieces:
            known |= piece.run(piece.outputs, {name: known[name] for name in piece.inputs})
        return {name: known[name] if name in known else onnx.numpy_helper.to_array(constant[name]) for name in outputs}

    def require_runnable(self) -> None:
        """Raise InputError when neither ONNX Runtime nor the reference evaluator takes the model."""
        for piece in self._pieces:
            piece.require_runnable()


class _RunningPiece:
    """A piece of a model, with the evaluators that have loaded it, or what they raised."""

    def __init__(self, piece: HostPiece) -> None:
        self._piece = piece
        self._runners: dict[Maker, Runner | Exception] = {}
        self.inputs, self.outputs = piece.inputs, piece.outputs

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
        results = self._first_that_can(lambda runner: runner(outputs, inputs))
        return dict(zip(outputs, results, strict=True))

    def require_runnable(self) -> None:
        self._first_that_can(lambda runner: [])

    def _first_that_can(self, work: Callable[[Runner], list[Any]]) -> list[Any]:
        """What the first evaluator gives that takes the model and does the work.

        Where ONNX Runtime is missing, the other one does not stand in for it: it may round otherwise.
        """
        require_module("onnxruntime")
        first: Exception | None = None
        for make in self._makers():
            try:
                return work(self._runner(make))
            except Exception as error:  # evaluators raise whatever their loaders and kernels do
                first = first or error
        assert first is not None
        named = [f"{node.name!r} ({node.op_type})" for node in self._piece.model.graph.node]
        nodes = ", ".join(named[:NAMED]) + (f" and {len(named) - NAMED} more" if len(named) > NAMED else "")
        raise InputError(f"the host cannot run its part of the network, {nodes}: {first_line(first)}") from first

    def _makers(self) -> tuple[Maker, ...]:
        """The evaluators that may run the piece, in the order in which they are tried."""
        makers = (_onnx_runtime, _reference_evaluator)
        return makers[::-1] if self._piece.is_otherwise else makers

    def _runner(self, make: Maker) -> Runner:
        """An evaluator with the piece loaded, which is tried only once; raises what it raised then."""
        if make not in self._runners:
            try:
                self._runners[make] = make(self._piece.model)
            except Exception as error:  # raised below, now and in later runs
                self._runners[make] = error
        found = self._runners[make]
        if isinstance(found, Exception):
            raise found
        return found


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
    content = with_exact_products(in_oldest_opset(model)).SerializeToString()
    # Without its fallback, which prints on standard output and tries the same once more.
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    types = {output.name: output.type for output in session.get_outputs()}

    def run(outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        results: list[Any] = session.run(list(outputs), dict(inputs))
        return [_as_declared(result, types[name]) for name, result in zip(outputs, results, strict=True)]

    return run


def _as_declared(result: Any, declared: str) -> Any:
    """The result in the type that the model gives it; ONNX Runtime returns 8-bit floats as their bytes, uint8."""
    if not isinstance(result, np.ndarray) or result.dtype != np.uint8 or not declared.startswith("tensor(float8"):
        return result
    element = declared.removeprefix("tensor(").removesuffix(")").upper()
    return result.view(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(element)))


def _reference_evaluator(model: onnx.ModelProto) -> Runner:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)

    def run(outputs: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        results = evaluator.run(list(outputs), dict(inputs))
        assert isinstance(results, list)
        return results

    return run
