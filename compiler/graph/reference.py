"""ONNX's reference evaluator for single operators: the meaning of level 1 that nobody here wrote."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator


def evaluate_onnx_operator(operator: Operator, values: Sequence[NDArray[Any] | None], opset: int) -> list[NDArray[Any]]:
    """The results of an `onnx.X` operator; a value is None where an optional input is left out.

    Raises CompileError when the evaluator cannot do it.
    """
    attributes = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in operator.attributes.items()
    }
    node = onnx.helper.make_node(
        operator.kind.removeprefix("onnx."), operator.inputs, operator.outputs, operator.name, **attributes
    )
    given = {name: value for name, value in zip(operator.inputs, values, strict=True) if value is not None}
    try:
        return [np.asarray(result) for result in _evaluator(node.SerializeToString(), opset).run(None, given)]
    except Exception as error:  # the evaluator raises whatever its numpy code does
        raise CompileError(operator, f"cannot be evaluated: {error}") from error


@lru_cache(maxsize=256)
def _evaluator(serialized: bytes, opset: int) -> ReferenceEvaluator:
    from onnx.reference import ReferenceEvaluator

    node = onnx.NodeProto.FromString(serialized)
    inputs = [onnx.helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(filter(None, node.input))]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in filter(None, node.output)]
    graph = onnx.helper.make_graph([node], "operator", inputs, outputs)
    version = max(opset, _oldest(node.op_type))
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)]))


@cache
def _oldest(operator: str) -> int:
    """The first opset that has an operator: one of another domain may be there before ONNX has it."""
    versions = [schema.since_version for schema in _schemas() if schema.name == operator and not schema.domain]
    return min(versions, default=1)


@cache
def _schemas() -> list[onnx.defs.OpSchema]:
    return list(onnx.defs.get_all_schemas_with_history())
