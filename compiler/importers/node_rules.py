"""What a valid graph keeps of ONNX's own operators: operands, attributes and types as their schemas say.

An operator of `com.microsoft` has no schema; `simplify` refuses what it does not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
import onnx

from tilewright.compiler.errors import CompileError, first_line
from tilewright.compiler.graph.graph import Attribute, Graph, Operator, TensorType
from tilewright.compiler.graph.text import ONNX
from tilewright.compiler.importers.import_onnx import NOT_INFERRED, tensor_type
from tilewright.compiler.importers.onnx_microsoft import AS_IN_ONNX, OPERATORS
from tilewright.compiler.importers.opsets import OLDEST_READ_OPSET, WRITTEN_IR_VERSION
from tilewright.compiler.importers.preconditions.rules import check_preconditions
from tilewright.compiler.importers.shapes import infer_shapes
from tilewright.compiler.rules import Rule, RuleViolation

MOST_GIVEN = 1 << 12
"""Elements of a constant whose values may decide shapes."""

Schema = onnx.defs.OpSchema
Proto = onnx.AttributeProto

SINGLE: Mapping[Schema.AttrType, tuple[type, int]] = {
    Schema.AttrType.INT: (int, Proto.INT),
    Schema.AttrType.FLOAT: (float, Proto.FLOAT),
    Schema.AttrType.STRING: (str, Proto.STRING),
    Schema.AttrType.TENSOR: (np.ndarray, Proto.TENSOR),
}
LISTS: Mapping[Schema.AttrType, tuple[type, int]] = {
    Schema.AttrType.INTS: (int, Proto.INTS),
    Schema.AttrType.FLOATS: (float, Proto.FLOATS),
    Schema.AttrType.STRINGS: (str, Proto.STRINGS),
}
"""Types of attributes → what a value of a graph is, and the type in a model."""


def _fault(operator: Operator, fact: str, expected: str = "") -> RuleViolation:
    return RuleViolation(
        next(filter(None, operator.outputs), None), f"{operator.kind} {operator.name!r}", fact, expected
    )


def _opset(graph: Graph) -> Iterator[RuleViolation]:
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_READ_OPSET <= graph.opset <= newest:
        yield RuleViolation(None, "the network", f"its opset is {graph.opset}", f"{OLDEST_READ_OPSET} to {newest}")


def _operands(graph: Graph) -> Iterator[RuleViolation]:
    for operator, schema in _known(graph):
        if schema is None:
            yield _fault(operator, f"opset {graph.opset} has no such operator", "an operator of ONNX")
            continue
        for what, names, formal, least, most in (
            ("operands", operator.inputs, schema.inputs, schema.min_input, schema.max_input),
            ("results", operator.outputs, schema.outputs, schema.min_output, schema.max_output),
        ):
            if not least <= len(names) <= most:
                bounds = f"{least}" if least == most else f"{least} to {most}"
                yield _fault(operator, f"it has {len(names)} {what}", bounds)
            for name, each in zip(names, formal, strict=False):
                if not name and each.option == Schema.FormalParameterOption.Single:
                    yield _fault(operator, f"{each.name} is left out", f"all {what} that ONNX has")


def _attributes(graph: Graph) -> Iterator[RuleViolation]:
    for operator, schema in _known(graph):
        if schema is None:
            continue
        for name, value in operator.attributes.items():
            known = schema.attributes.get(name)
            if known is None and schema.name not in AS_IN_ONNX:
                listed = ", ".join(sorted(schema.attributes)) or "none"
                yield _fault(operator, f"unknown attribute {name}", f"one of {listed}")
            elif known is not None and not _is_of(value, known.type):
                yield _fault(operator, f"attribute {name} is of another type", _type_name(known.type))
        for name, known in schema.attributes.items():
            if known.required and name not in operator.attributes:
                yield _fault(operator, f"attribute {name} is missing")


def _is_of(value: Attribute, kind: Schema.AttrType) -> bool:
    """Whether a value is of a type of attributes; an empty list is of any list's."""
    if kind in LISTS:
        return isinstance(value, tuple) and all(type(each) is LISTS[kind][0] for each in value)
    return kind in SINGLE and isinstance(value, SINGLE[kind][0]) and not isinstance(value, bool)


def _type_name(kind: Schema.AttrType) -> str:
    return str(kind).rpartition(".")[2].lower()


def _types(graph: Graph) -> Iterator[RuleViolation]:
    for operator, schema in _known(graph):
        if schema is None:
            continue
        try:
            inferred = infer_shapes(_model(operator, graph, schema))
            check_preconditions(inferred, _version(schema, graph.opset), [operator.name])
        except NOT_INFERRED as error:
            yield _fault(operator, f"its operands do not fit: {first_line(error)}")
            continue
        except CompileError as error:
            yield _fault(operator, error.fact, error.expected)
            continue
        for found in inferred.graph.output:
            yield from _differences(operator, found, graph.tensors[found.name])


def _differences(operator: Operator, inferred: onnx.ValueInfoProto, said: TensorType) -> Iterator[RuleViolation]:
    try:
        found = tensor_type(inferred)
    except CompileError:
        return  # it depends on data
    if (found.dtype, found.shape) != (said.dtype, said.shape):
        fact = f"its result {inferred.name!r} is {said.dtype} {list(said.shape)}"
        yield _fault(operator, fact, f"{found.dtype} {list(found.shape)}")


def _model(operator: Operator, graph: Graph, schema: Schema) -> onnx.ModelProto:
    """A model of one operator."""
    node = onnx.helper.make_node(operator.kind.removeprefix(ONNX), operator.inputs, operator.outputs, operator.name)
    for name, value in operator.attributes.items():
        if isinstance(value, np.ndarray):
            value = onnx.numpy_helper.from_array(value, name)
        known = {**SINGLE, **LISTS}[schema.attributes[name].type][1] if name in schema.attributes else None
        node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=known))
    read = [name for name in dict.fromkeys(operator.inputs) if name]
    given = [name for name in read if name in graph.constants and prod(graph.constants[name].shape) <= MOST_GIVEN]
    made = onnx.helper.make_graph(
        [node],
        "operator",
        [_info(name, graph.tensors[name]) for name in read if name not in given],
        [onnx.ValueInfoProto(name=name) for name in operator.outputs if name],
        [onnx.numpy_helper.from_array(graph.constants[name], name) for name in given],
    )
    opset = onnx.helper.make_opsetid("", _version(schema, graph.opset))
    return onnx.helper.make_model(made, opset_imports=[opset], ir_version=WRITTEN_IR_VERSION)


def _info(name: str, of: TensorType) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(_dtype(of.dtype))
    return onnx.helper.make_tensor_value_info(name, element, of.shape)


@cache
def _dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


def _known(graph: Graph) -> Iterator[tuple[Operator, Schema | None]]:
    """The operators of ONNX, with their schemas; None where there is none."""
    for operator in graph.operators:
        name = operator.kind.removeprefix(ONNX)
        if operator.kind.startswith(ONNX) and (name in AS_IN_ONNX or name not in OPERATORS):
            yield operator, _schema(name, graph.opset)


@cache
def _schema(name: str, opset: int) -> Schema | None:
    """The schema of an operator; the first one for an operator that came after the opset."""
    if onnx.defs.has(name, opset):
        return onnx.defs.get_schema(name, opset)
    if not onnx.defs.has(name):
        return None
    versions = range(opset, onnx.defs.onnx_opset_version() + 1)
    return next((onnx.defs.get_schema(name, version) for version in versions if onnx.defs.has(name, version)), None)


def _version(schema: Schema, opset: int) -> int:
    return max(schema.since_version, opset)


NODE_RULES: Sequence[Rule[Graph]] = (
    Rule("opset", "The opset is one that ONNX has.", _opset),
    Rule("nodes", "An operator of ONNX has the operands and results of its schema, but optional ones.", _operands),
    Rule("node-attributes", "An operator of ONNX has the attributes of its schema, each of its type.", _attributes),
    Rule("node-types", "The operands of an operator of ONNX fit; its results have the types that follow.", _types),
)
"""The rules of operators that are not canonical yet, in order."""
