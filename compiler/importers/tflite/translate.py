"""From a TFLite file to the ONNX model that means the same: integers between QuantizeLinear and DequantizeLinear.

The model computes each operator on real values and rounds once, which is what the rest of the compiler takes as the
meaning of a quantised network; TFLite's own kernels round integers, and may differ by one. Inputs and outputs keep the
file's names, element types and shapes, channels last; inside, images are channels first.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.shapes import known_shapes
from tilewright.compiler.importers.tflite.detections import DETECTIONS
from tilewright.compiler.importers.tflite.elementwise import ELEMENTWISE
from tilewright.compiler.importers.tflite.fold import FOLDED_ONLY, try_fold
from tilewright.compiler.importers.tflite.functions import FUNCTIONS
from tilewright.compiler.importers.tflite.images import IMAGES
from tilewright.compiler.importers.tflite.indices import ON_INDICES
from tilewright.compiler.importers.tflite.model import OperatorInfo, TfliteModel
from tilewright.compiler.importers.tflite.moves import REARRANGEMENTS
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation
from tilewright.compiler.importers.tflite.pools import POOLS
from tilewright.compiler.importers.tflite.products import PRODUCTS
from tilewright.compiler.importers.tflite.read import CUSTOM, read_tflite
from tilewright.compiler.importers.tflite.recurrent import RECURRENT
from tilewright.compiler.importers.tflite.writer import Checkpoint, OnnxWriter


def _only_folded(operation: TfliteOperation) -> None:
    raise operation.error("has no lowering unless its inputs are constants")


ROWS: dict[str, OperatorRow] = {
    **PRODUCTS,
    **POOLS,
    **ELEMENTWISE,
    **REARRANGEMENTS,
    **IMAGES,
    **FUNCTIONS,
    **ON_INDICES,
    **RECURRENT,
    **DETECTIONS,
    **{kind: OperatorRow(_only_folded, options, (1, 1024)) for kind, options in FOLDED_ONLY.items()},
}
"""Operator → how it is translated."""


def translate_tflite(content: bytes, name: str) -> onnx.ModelProto:
    """The ONNX model of a TFLite file's content; `name` is what messages call it.

    Raises CompileError for a damaged file and for what has no translation, naming operator and tensor.
    """
    model = read_tflite(content, name)
    try:
        return _translate(model)
    except CompileError as error:
        raise error.inside(name) from error


def _translate(model: TfliteModel) -> onnx.ModelProto:
    writer = OnnxWriter(model)
    faults: list[CompileError] = []
    lost: set[int] = set()  # tensors that nothing computes, as their operators have faults
    for operator in model.operators:
        if lost.intersection(index for index in operator.inputs if index is not None):
            lost.update(operator.outputs)
            continue
        try:
            _translate_operator(operator, writer)
        except CompileError as error:
            faults.append(error)
            lost.update(operator.outputs)
    if faults:
        raise _all_of(faults)
    translated = writer.finish()
    _check_shapes(translated, writer.checkpoints)
    return translated


def _translate_operator(operator: OperatorInfo, writer: OnnxWriter) -> None:
    writer.begin(operator)
    if operator.kind not in ROWS and operator.kind.startswith(CUSTOM):
        remedy = "remove it from the network"
        raise writer.error("an operator outside TFLite's own has no lowering", remedy=remedy)
    if operator.kind not in ROWS:
        raise writer.error("has no lowering", known=f"those that have: {', '.join(sorted(ROWS))}")
    operation = TfliteOperation(operator, ROWS[operator.kind], writer)
    if not try_fold(operation):
        ROWS[operator.kind].translate(operation)
    operation.finish()


def _all_of(faults: Sequence[CompileError]) -> CompileError:
    """One error that names all; a single one as it is, with what would do."""
    if len(faults) == 1:
        return faults[0]
    named = ". ".join(fault.reason_beside("") for fault in faults)
    return CompileError(fact=f"{len(faults)} operators have no translation. {named}")


def _check_shapes(model: onnx.ModelProto, checkpoints: list[Checkpoint]) -> None:
    """Every tensor must have the shape that the file says; raises CompileError for the first that has not."""
    shapes, fault = _inferred_shapes(model)
    for checkpoint in checkpoints:
        place, found = f"{checkpoint.operator}: {checkpoint.tensor}", shapes.get(checkpoint.value)
        if found is None:
            raise CompileError(place, f"its operands do not fit: {fault}")
        if found != checkpoint.shape:
            gives = f"its operands give {list(found)}, channels after the batch"
            raise CompileError(place, f"{gives}; the file says {list(checkpoint.shape)}")


def _inferred_shapes(model: onnx.ModelProto) -> tuple[dict[str, tuple[int, ...]], str]:
    """The shapes that ONNX infers, and why it stopped, if it did."""
    fault = "their shapes are not known"
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        fault = " ".join(str(error).split())[:200]
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return known_shapes(inferred), fault
