"""From an ONNX file to level 1: everything about the file is checked here; what comes out is complete.

Reading, checking and shape inference are the onnx package's. Operators come out as `onnx.X` with the attributes that
the file gives; what they mean is the business of `compiler.simplify`. A TFLite file becomes an ONNX model first.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.errors import CompileError, NodeName, OnnxNode, first_line
from tilewright.compiler.graph.graph import Attribute, Graph, Operator, TensorType
from tilewright.compiler.importers.constants import evaluate_constants
from tilewright.compiler.importers.control_flow import reached, without_known_control_flow
from tilewright.compiler.importers.input_shapes import Shapes, fix_shapes, require_fixed_shape
from tilewright.compiler.importers.model_checks import (
    check_links,
    require_few_nodes,
    require_harmless,
    require_small_tensors,
)
from tilewright.compiler.importers.omissions import leave_sizes_open, name_omitted_results, stand_ins
from tilewright.compiler.importers.opsets import (
    OLDEST_READ_OPSET,
    check_node,
    check_opset,
    convert,
    has_only_own_operators,
    opset_of,
    with_layer_normalization,
)
from tilewright.compiler.importers.packed_blocks import with_plain_blocks
from tilewright.compiler.importers.preconditions.rules import check_preconditions
from tilewright.compiler.importers.preconditions.types import check_types
from tilewright.compiler.importers.qonnx import with_plain_quantizers
from tilewright.compiler.importers.shapes import count_loops, infer_shapes, keep_state_shapes, known_shape
from tilewright.compiler.importers.tflite.read import is_tflite

TFLITE_SUFFIX = ".tflite"
"""A file with this suffix must be TFLite. Attribute other file is TFLite if its content says so."""


def import_onnx(source: str | Path | bytes, shapes: Shapes | None = None) -> Graph:
    """The graph of an ONNX file, given by its path or content, with its open sizes as `shapes` says.

    Raises CompileError for anything that is not right: a damaged file, an opset that is too old or too new, an unknown
    operator or attribute, a size that is not known.
    """
    model, name = read_onnx(source, shapes)
    opset = opset_of(model)
    for node_name, node in named_nodes(model):
        check_node(node_name, node, opset)
    return build_graph(*finish_onnx(model, name))


def read_onnx(source: str | Path | bytes, shapes: Shapes | None = None) -> tuple[onnx.ModelProto, str]:
    """A file's model with its open sizes as `shapes` says, and what messages call it. Its operators are not looked at.

    Raises CompileError.
    """
    model, name = _read(source)
    require_few_nodes(model, name)
    _check_texts(model, name)
    require_harmless(model, name)
    model = fix_shapes(model, shapes or {}, name)
    check_opset(model, name)
    if not has_only_own_operators(model):
        model = with_plain_blocks(with_plain_quantizers(model, name), name)
    return with_layer_normalization(model, name), name


def finish_onnx(model: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, int]:
    """A model that `read_onnx` gave, checked, in an opset that is read here, with all shapes; and that opset.

    Raises CompileError.
    """
    used = reached(model.graph)
    for value in model.graph.input:
        if value.name in used or not value.type.tensor_type.HasField("shape"):
            require_fixed_shape(value, name)
    leave_sizes_open(model)
    check_links(model, name)
    with stand_ins(model):
        _check_model(model, name)
    model = name_omitted_results(model)
    opset = opset_of(model)
    if opset < OLDEST_READ_OPSET:
        model = convert(model, name)
        opset = opset_of(model)
    model = without_known_control_flow(model, opset)
    while True:
        inferred = _with_shapes(model, name)
        require_small_tensors(inferred, name)
        check_preconditions(inferred, opset, [node_name for node_name, _ in named_nodes(inferred)])
        evaluated = _without_computed_constants(inferred, opset, name)
        model = without_known_control_flow(evaluated, opset)
        if model is evaluated:
            return model, opset


def _without_computed_constants(model: onnx.ModelProto, opset: int, name: str) -> onnx.ModelProto:
    """The model with constants in place of what computes them. They may tell more shapes, and these more constants."""
    while True:
        named, types = list(named_nodes(model)), _fixed_types(model)
        is_changed = evaluate_constants(model, named, types, opset, _attributes)
        is_known = all(output in types for node in model.graph.node for output in node.output if output)
        if is_known or not is_changed:
            return model
        model = _with_shapes(model, name)


def _fixed_types(model: onnx.ModelProto) -> dict[str, TensorType]:
    """The types of tensors whose shapes are known."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    types: dict[str, TensorType] = {}
    for value in values:
        with suppress(CompileError):
            types[value.name] = tensor_type(value)
    for name, tensor in stored.items():
        with suppress(KeyError):
            types[name] = TensorType(_dtype_name(tensor.data_type), tuple(tensor.dims))
    return types


def _read(source: str | Path | bytes) -> tuple[onnx.ModelProto, str]:
    """The model and what messages call it."""
    if isinstance(source, bytes):
        content, name = source, "the TFLite model" if is_tflite(source) else "the ONNX model"
    else:
        name = str(source)
        try:
            content = Path(source).read_bytes()
        except OSError as error:
            raise CompileError(name, f"cannot be read: {error.strerror or error}") from error
    if is_tflite(content) or name.endswith(TFLITE_SUFFIX):
        from tilewright.compiler.importers.tflite.translate import translate_tflite  # long to import, seldom needed

        return translate_tflite(content, name), name
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise CompileError(name, f"not an ONNX file, or a truncated or damaged one ({len(content)} bytes)") from error
    if not model.graph.node or not model.ir_version:
        raise CompileError(name, "not an ONNX file, or an empty one: it holds no graph with nodes")
    if not isinstance(source, bytes):
        _read_external_data(model, name, Path(source).parent)
    elif any(t.data_location == onnx.TensorProto.EXTERNAL for t in model.graph.initializer):
        raise CompileError(
            name, "keeps weights in other files", remedy="compile it by its path, or save it as one file"
        )
    return model, name


def _read_external_data(model: onnx.ModelProto, name: str, folder: Path) -> None:
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise CompileError(name, f"weights in another file cannot be read: {first_line(error)}") from error


def _check_texts(model: onnx.ModelProto, name: str) -> None:
    """Names that are no valid text come out of the reader as bytes."""
    graph = model.graph
    texts = [graph.name, *(t.name for t in (*graph.initializer, *graph.input, *graph.output, *graph.value_info))]
    for node in graph.node:
        texts += [node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)]
    for text in texts:
        if not isinstance(text, str):
            raise CompileError(name, f"a damaged ONNX file: {text[:20]!r} is not a name")


def named_nodes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Every node with a name of its own: the file's, or one made from its operator and position."""
    taken: set[str] = set()
    for position, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{position}"
        while name in taken:
            name += "'"
        taken.add(name)
        yield name, node


def require_shapes(name: str, node: onnx.NodeProto, types: Container[str]) -> None:
    """Raise CompileError for a result whose shape is not among those that were inferred."""
    for output in filter(None, node.output):
        if output not in types:
            fact = f"the shape of its result {output!r} depends on data"
            raise CompileError(NodeName(name, node.op_type), fact, expected="fixed sizes")


def _check_model(model: onnx.ModelProto, name: str) -> None:
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise CompileError(name, f"not a valid ONNX model: {first_line(error)}") from error


def _with_shapes(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    try:
        inferred = infer_shapes(model)
        for _ in range(count_loops(inferred.graph)):  # a loop's shapes may tell those of the next
            if not keep_state_shapes(inferred.graph):
                break
            inferred = infer_shapes(inferred)
        return inferred
    except NOT_INFERRED as error:
        _check_what_is_known(model)
        raise CompileError(name, f"shapes do not fit: {first_line(error)}") from error


NOT_INFERRED = (onnx.shape_inference.InferenceError, ValueError, RuntimeError)


def _check_what_is_known(model: onnx.ModelProto) -> None:
    """Raise CompileError for a node that is at fault itself, not only where its result meets another shape."""
    with suppress(*NOT_INFERRED):
        known = infer_shapes(model, strict=False)
        names = [name for name, _ in named_nodes(known)]
        check_types(known, names)
        check_preconditions(known, opset_of(model), names)


def build_graph(model: onnx.ModelProto, opset: int, refused: Container[str] = ()) -> Graph:
    """The graph of a model in which all sizes are inferred; raises CompileError for one that depends on data.

    Nodes of the names `refused` are left out, and so are the types of those of their results that are not fixed.
    """
    constants = _constants(model)
    used = reached(model.graph)
    unread = {output for name, node in named_nodes(model) if name in refused for output in node.output}
    unread |= {value.name for value in model.graph.input if value.name not in used}
    given = (value for value in model.graph.input if value.name not in constants)
    inputs = tuple(value.name for value in given if value.name not in unread or is_fixed(value))
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in constants.items()}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if value.name not in unread or is_fixed(value):
            types.setdefault(value.name, tensor_type(value))
    operators = []
    for name, node in named_nodes(model):
        if node.op_type == "Constant" or name in refused:
            continue
        require_shapes(name, node, types)
        attributes = _attributes(node)
        kind = f"onnx.{node.op_type}"
        operators.append(
            Operator(name, kind, tuple(node.input), tuple(node.output), attributes, (OnnxNode(name, node.op_type),))
        )
    outputs = {value.name: value.name for value in model.graph.output}
    named = {*inputs, *outputs, *constants, *(name for o in operators for name in (*o.inputs, *o.outputs))}
    types = {name: value for name, value in types.items() if name in named}
    return Graph(model.graph.name or "model", tuple(operators), types, constants, inputs, outputs, opset)


def _constants(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """Initialisers and the values of Constant nodes."""
    if model.graph.sparse_initializer:
        raise CompileError(
            model.graph.name, "sparse initialisers have no lowering", remedy="save the model with dense ones"
        )
    constants = {}
    for tensor in model.graph.initializer:
        try:
            constants[tensor.name] = np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError) as error:
            raise CompileError(fact=f"initialiser {tensor.name!r} is damaged: {first_line(error)}") from error
    for name, node in named_nodes(model):
        if node.op_type == "Constant":
            constants[node.output[0]] = _constant_value(name, node.attribute)
    return constants


def _constant_value(name: str, attributes: Attribute) -> NDArray[Any]:
    dtypes: Mapping[str, type] = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
    }
    match list(attributes):
        case [attribute] if attribute.name == "value":
            return np.asarray(numpy_helper.to_array(attribute.t))
        case [attribute] if attribute.name in dtypes:
            return np.array(onnx.helper.get_attribute_value(attribute), dtypes[attribute.name])
    came = ", ".join(a.name for a in attributes) or "none"
    raise CompileError(
        NodeName(name, "Constant"), f"expected the attribute value or a number or list of numbers, got {came}"
    )


def tensor_type(value: onnx.ValueInfoProto) -> TensorType:
    """The type of an inferred value; raises CompileError unless it is a tensor of fixed shape."""
    tensor = value.type.tensor_type
    try:
        dtype = _dtype_name(tensor.elem_type)
    except KeyError:
        raise CompileError(fact=f"{value.name!r} is not a tensor of numbers", expected="a tensor") from None
    shape = known_shape(value)
    if shape is None:
        raise CompileError(fact=f"the shape of {value.name!r} depends on data", expected="fixed sizes")
    return TensorType(dtype, shape)


@cache
def _dtype_name(element_type: int) -> str:
    """numpy's name of one of ONNX's element types, of which there are few; raises KeyError for none of them."""
    return onnx.helper.tensor_dtype_to_np_dtype(element_type).name


def is_fixed(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is a tensor of numbers whose shape is known."""
    try:
        tensor_type(value)
    except CompileError:
        return False
    return True


def _attributes(node: onnx.NodeProto) -> dict[str, Attribute]:
    return {attribute.name: _attribute(attribute) for attribute in node.attribute}


def _attribute(attribute: onnx.AttributeProto) -> Attribute:
    """Int, float, str, a tuple of these, or an array."""
    value = onnx.helper.get_attribute_value(attribute)
    match value:
        case bytes():
            return value.decode(errors="replace")
        case onnx.TensorProto():
            return np.asarray(numpy_helper.to_array(value))
        case int() | float() | str():
            return value
    return tuple(item.decode(errors="replace") if isinstance(item, bytes) else item for item in value)
