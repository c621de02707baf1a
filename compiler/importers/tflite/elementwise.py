"""Element by element: arithmetic of two tensors, activations, softmax, and changes of scale."""

from __future__ import annotations

from tilewright.compiler.importers.tflite.layout import DimensionOrder, to_file, to_stored
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation


def _binary(op_type: str, options: str, keeps_scale: bool = False) -> OperatorRow:
    def translate(operation: TfliteOperation) -> None:
        """The shapes are aligned at their ends, as ONNX does; sizes of 1 are repeated."""
        layout = layout_of_all(operation)
        value = operation.writer.node(op_type, *(aligned(operation, index, layout) for index in operation.inputs))
        operation.ignore("pot_scale_int16")  # of 16-bit tensors
        operation.write_activated(value, layout)

    return OperatorRow(translate, options, (2, 2), keeps_scale)


def layout_of_all(operation: TfliteOperation) -> DimensionOrder:
    """Channels first if that is how an operand with all of the result's dimensions was made."""
    rank = len(operation.shape(operation.output))
    whole = [index for index in operation.inputs if len(operation.shape(index)) == rank]
    return operation.writer.common_layout(whole)


def aligned(operation: TfliteOperation, index: int, layout: DimensionOrder) -> str:
    """An operand's real values with as many dimensions as the result has."""
    writer, shape, rank = operation.writer, operation.shape(index), len(operation.shape(operation.output))
    if len(shape) == rank or layout is DimensionOrder.LAST:
        return writer.real(index, layout)
    if len(shape) > rank:
        raise operation.error(f"is {list(shape)}, which has more dimensions than the result", index)
    whole = (1,) * (rank - len(shape)) + shape
    base = operation.tensor(index).name
    value = writer.reshape(writer.real(index, DimensionOrder.LAST), whole, base)
    return writer.node("Transpose", value, perm=to_stored(rank, layout), base=base)


def _limit(activation: str) -> OperatorRow:
    def translate(operation: TfliteOperation) -> None:
        layout = operation.writer.layout_of(operation.input(0))
        value = operation.writer.real(operation.input(0), layout)
        operation.write(operation.limited(value, activation), layout)

    return OperatorRow(translate)


def unary(op_type: str, options: str = "NONE", scale: float | None = None) -> OperatorRow:
    """An operator that ONNX has too, without attributes."""

    def translate(operation: TfliteOperation) -> None:
        layout = operation.writer.layout_of(operation.input(0))
        operation.write(operation.writer.node(op_type, operation.writer.real(operation.input(0), layout)), layout)

    return OperatorRow(translate, options, scale=scale)


def leaky_relu(operation: TfliteOperation) -> None:
    layout = operation.writer.layout_of(operation.input(0))
    value = operation.writer.real(operation.input(0), layout)
    operation.write(operation.writer.node("LeakyRelu", value, alpha=operation.number("alpha")), layout)


def prelu(operation: TfliteOperation) -> None:
    """Inputs: elements, slopes of the negative ones, repeated where they have a size of 1."""
    layout = operation.writer.layout_of(operation.input(0))
    value, slopes = (aligned(operation, index, layout) for index in operation.inputs)
    operation.write(operation.writer.node("PRelu", value, slopes), layout)


def gelu(operation: TfliteOperation) -> None:
    layout = operation.writer.layout_of(operation.input(0))
    approximate = "tanh" if operation.flag("approximate") else "none"
    value = operation.writer.node("Gelu", operation.writer.real(operation.input(0), layout), approximate=approximate)
    operation.write(value, layout)


def softmax(operation: TfliteOperation) -> None:
    """Over the last dimension, of the elements times `beta`."""
    writer, source = operation.writer, operation.input(0)
    layout, beta = writer.layout_of(source), operation.number("beta")
    value, rank = writer.real(source, layout), len(operation.shape(source))
    if rank == 0 or not beta > 0:
        raise operation.error(f"of {rank} dimensions with beta = {beta} has no lowering", expected="beta > 0")
    if beta != 1:
        value = writer.node("Mul", value, writer.number(beta))
    operation.write(writer.node("Softmax", value, axis=to_file(rank, layout)[-1]), layout)


def rescale(operation: TfliteOperation) -> None:
    """QUANTIZE and DEQUANTIZE: the same real values in another type."""
    layout = operation.writer.layout_of(operation.input(0))
    operation.write(operation.writer.real(operation.input(0), layout), layout)


ELEMENTWISE = {
    "ADD": _binary("Add", "AddOptions"),
    "SUB": _binary("Sub", "SubOptions"),
    "MUL": _binary("Mul", "MulOptions"),
    "MAXIMUM": _binary("Max", "MaximumMinimumOptions", keeps_scale=True),
    "MINIMUM": _binary("Min", "MaximumMinimumOptions", keeps_scale=True),
    "RELU": _limit("RELU"),
    "RELU6": _limit("RELU6"),
    "RELU_N1_TO_1": _limit("RELU_N1_TO_1"),
    "ABS": unary("Abs", "AbsOptions"),
    "ELU": unary("Elu"),
    "EXP": unary("Exp", "ExpOptions"),
    "HARD_SWISH": unary("HardSwish", "HardSwishOptions"),
    "LOGISTIC": unary("Sigmoid", scale=1 / 256),
    "TANH": unary("Tanh"),
    "GELU": OperatorRow(gelu, "GeluOptions"),
    "LEAKY_RELU": OperatorRow(leaky_relu, "LeakyReluOptions"),
    "PRELU": OperatorRow(prelu, inputs=(2, 2)),
    "SOFTMAX": OperatorRow(softmax, "SoftmaxOptions"),
    "QUANTIZE": OperatorRow(rescale, "QuantizeOptions", changes_type=True),
    "DEQUANTIZE": OperatorRow(rescale, "DequantizeOptions", changes_type=True),
}
