"""More functions of elements, comparisons, choices. What has 8-bit results is looked up; the host does the others."""

from __future__ import annotations

from tilewright.compiler.importers.tflite.elementwise import aligned, layout_of_all, unary
from tilewright.compiler.importers.tflite.layout import DimensionOrder, to_file
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation

LEAST_NORM = 1e-6
"""TFLite divides by no smaller norm."""


def _of_two(op_type: str, options: str, after: str = "") -> OperatorRow:
    """An ONNX operator of two operands, and one more on its result, if named."""

    def translate(operation: TfliteOperation) -> None:
        layout, writer = layout_of_all(operation), operation.writer
        value = writer.node(op_type, *(aligned(operation, index, layout) for index in operation.inputs))
        operation.write(writer.node(after, value) if after else value, layout)

    return OperatorRow(translate, options, (2, 2))


def rsqrt(operation: TfliteOperation) -> None:
    layout, writer = operation.writer.layout_of(operation.input(0)), operation.writer
    operation.write(writer.node("Reciprocal", writer.node("Sqrt", writer.real(operation.input(0), layout))), layout)


def relu_0_to_1(operation: TfliteOperation) -> None:
    layout, writer = operation.writer.layout_of(operation.input(0)), operation.writer
    limits = writer.number(0.0), writer.number(1.0)
    operation.write(writer.node("Clip", writer.real(operation.input(0), layout), *limits), layout)


def square(operation: TfliteOperation) -> None:
    layout = operation.writer.layout_of(operation.input(0))
    value = operation.writer.real(operation.input(0), layout)
    operation.write(operation.writer.node("Mul", value, value), layout)


def squared_difference(operation: TfliteOperation) -> None:
    layout, writer = layout_of_all(operation), operation.writer
    difference = writer.node("Sub", *(aligned(operation, index, layout) for index in operation.inputs))
    operation.write(writer.node("Mul", difference, difference), layout)


def divide(operation: TfliteOperation) -> None:
    layout, writer = layout_of_all(operation), operation.writer
    value = writer.node("Div", *(aligned(operation, index, layout) for index in operation.inputs))
    operation.write_activated(value, layout)


def add_n(operation: TfliteOperation) -> None:
    layout, writer = layout_of_all(operation), operation.writer
    operation.write(writer.node("Sum", *(writer.real(index, layout) for index in operation.inputs)), layout)


def select(operation: TfliteOperation) -> None:
    """Inputs: conditions, elements where they hold, elements where they do not."""
    layout, writer = layout_of_all(operation), operation.writer
    operation.write(writer.node("Where", *(aligned(operation, index, layout) for index in operation.inputs)), layout)


def cast(operation: TfliteOperation) -> None:
    """The numbers of a tensor in another type. Of a quantised one, TFLite takes the integers and not what they mean."""
    operation.ignore("in_data_type", "out_data_type")  # the tensors' own types say them
    writer, source, result = operation.writer, operation.input(0), operation.output
    layout, to = writer.layout_of(source), operation.tensor(result).dtype
    writer.write_numbers(result, writer.numbers(source, to, layout), layout)


def log_softmax(operation: TfliteOperation) -> None:
    """Over the last dimension."""
    writer, source = operation.writer, operation.input(0)
    layout, rank = writer.layout_of(source), len(operation.shape(source))
    operation.write(writer.node("LogSoftmax", writer.real(source, layout), axis=to_file(rank, layout)[-1]), layout)


def l2_normalization(operation: TfliteOperation) -> None:
    """Elements over the norm of their last dimension. No norm but 0 of multiples of a scale is below the least."""
    writer, source = operation.writer, operation.input(0)
    layout, quantized = writer.layout_of(source), operation.tensor(source).quantized
    value, axis = writer.real(source, layout), to_file(len(operation.shape(source)), layout)[-1]
    if quantized is not None and quantized.scale >= LEAST_NORM:
        operation.write_activated(writer.node("LpNormalization", value, axis=axis, p=2), layout)
        return
    norm = writer.node("ReduceL2", value, writer.int64([axis]), keepdims=1)
    norm = writer.node("Max", norm, writer.number(LEAST_NORM))
    operation.write_activated(writer.node("Div", value, norm), layout)


def local_response_normalization(operation: TfliteOperation) -> None:
    """Over `radius` channels on each side; ONNX divides alpha by their number, TFLite does not."""
    operation.require_rank(operation.input(0), 4)
    size = 2 * operation.positive("radius") + 1
    value = operation.writer.node(
        "LRN",
        operation.writer.real(operation.input(0), DimensionOrder.FIRST),
        alpha=operation.number("alpha") * size,
        beta=operation.number("beta"),
        bias=operation.number("bias"),
        size=size,
    )
    operation.write(value, DimensionOrder.FIRST)


FUNCTIONS = {
    # of one tensor
    "CEIL": unary("Ceil"),
    "COS": unary("Cos", "CosOptions"),
    "FLOOR": unary("Floor"),
    "LOG": unary("Log"),
    "LOGICAL_NOT": unary("Not", "LogicalNotOptions"),
    "NEG": unary("Neg", "NegOptions"),
    "ROUND": unary("Round"),
    "RSQRT": OperatorRow(rsqrt),
    "SIGN": unary("Sign", "SignOptions"),
    "SIN": unary("Sin"),
    "SQRT": unary("Sqrt"),
    "SQUARE": OperatorRow(square, "SquareOptions"),
    "CAST": OperatorRow(cast, "CastOptions", changes_type=True, takes_plain=True),
    "RELU_0_TO_1": OperatorRow(relu_0_to_1),
    # of two or more
    "ADD_N": OperatorRow(add_n, "AddNOptions", (1, 1024)),
    "DIV": OperatorRow(divide, "DivOptions", (2, 2)),
    "POW": _of_two("Pow", "PowOptions"),
    "SQUARED_DIFFERENCE": OperatorRow(squared_difference, "SquaredDifferenceOptions", (2, 2)),
    "SELECT": OperatorRow(select, "SelectOptions", (3, 3)),
    "SELECT_V2": OperatorRow(select, "SelectV2Options", (3, 3)),
    # comparisons
    "EQUAL": _of_two("Equal", "EqualOptions"),
    "NOT_EQUAL": _of_two("Equal", "NotEqualOptions", after="Not"),
    "GREATER": _of_two("Greater", "GreaterOptions"),
    "GREATER_EQUAL": _of_two("GreaterOrEqual", "GreaterEqualOptions"),
    "LESS": _of_two("Less", "LessOptions"),
    "LESS_EQUAL": _of_two("LessOrEqual", "LessEqualOptions"),
    "LOGICAL_AND": _of_two("And", "LogicalAndOptions"),
    "LOGICAL_OR": _of_two("Or", "LogicalOrOptions"),
    # of the whole last dimension
    "LOG_SOFTMAX": OperatorRow(log_softmax, "LogSoftmaxOptions"),
    "L2_NORMALIZATION": OperatorRow(l2_normalization, "L2NormOptions"),
    "LOCAL_RESPONSE_NORMALIZATION": OperatorRow(local_response_normalization, "LocalResponseNormalizationOptions"),
}
