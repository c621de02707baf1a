"""Versions of ONNX's operators: which are read, how older ones become one of these, and which we write."""

from __future__ import annotations

import onnx

from tilewright.compiler.errors import CompileError, first_line

OLDEST_OPSET = 7
"""The oldest version that the onnx package's converter can convert."""

OLDEST_READ_OPSET = 11
"""The oldest version that is read without conversion; older models are converted."""

CONVERTED_OPSET = 15
"""The version that they are converted to. From it on, the evaluator's BatchNormalization is that of inference."""

LAYER_NORMALIZATION = 17
"""The version that brought LayerNormalization to ONNX."""

HIDDEN_DOMAIN = "tilewright.hidden"
"""Of nodes that the converter leaves alone."""

WRITTEN_OPSET = 21
"""The version of the operators in models that we make."""

WRITTEN_IR_VERSION = 10
"""The version of the file format that belongs to these operators."""

NAMES_OF_DEFAULT_DOMAIN = ("", "ai.onnx")


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators that a model uses."""
    version: int = next(o.version for o in model.opset_import if o.domain in NAMES_OF_DEFAULT_DOMAIN)
    return version


def check_opset(model: onnx.ModelProto, name: str) -> None:
    """Raise CompileError for a model of several versions, or one that is too old or too new."""
    newest = onnx.defs.onnx_opset_version()
    versions = [o.version for o in model.opset_import if o.domain in NAMES_OF_DEFAULT_DOMAIN]
    if len(versions) != 1:
        raise CompileError(name, f"expected one version of the ONNX operator set, got {versions or 'none'}")
    if not OLDEST_OPSET <= versions[0] <= newest:
        raise CompileError(
            name,
            f"uses opset {versions[0]}",
            expected=f"{OLDEST_OPSET} to {newest}",
            remedy="Export the model anew with one of these",
        )


def convert(model: onnx.ModelProto, name: str, opset: int = CONVERTED_OPSET) -> onnx.ModelProto:
    """The model in another opset."""
    try:
        return onnx.version_converter.convert_version(model, opset)
    except (
        onnx.version_converter.ConvertError,
        onnx.shape_inference.InferenceError,
        ValueError,
        RuntimeError,
    ) as error:
        raise CompileError(name, f"cannot be converted to opset {opset}: {first_line(error)}") from error


def with_layer_normalization(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model in the opset that brought LayerNormalization, if it has one before: ONNX Runtime has long known it.

    Raises CompileError for a model that cannot be converted.
    """
    opset = opset_of(model)
    if opset >= LAYER_NORMALIZATION or not any(map(_is_layer_normalization, model.graph.node)):
        return model
    hidden = onnx.ModelProto()
    hidden.CopyFrom(model)
    for node in filter(_is_layer_normalization, hidden.graph.node):
        node.domain = HIDDEN_DOMAIN
    hidden.opset_import.append(onnx.helper.make_opsetid(HIDDEN_DOMAIN, 1))
    converted = convert(hidden, name, LAYER_NORMALIZATION)
    for node in converted.graph.node:
        if node.domain == HIDDEN_DOMAIN:
            node.domain = ""
    kept = [each for each in converted.opset_import if each.domain != HIDDEN_DOMAIN]
    del converted.opset_import[:]
    converted.opset_import.extend(kept)
    return converted


def _is_layer_normalization(node: onnx.NodeProto) -> bool:
    return node.op_type == "LayerNormalization" and node.domain in (*NAMES_OF_DEFAULT_DOMAIN, HIDDEN_DOMAIN)
