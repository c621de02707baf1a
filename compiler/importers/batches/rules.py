"""What each operator does with a batch: a row for each operator through which images stay apart; no others do.

An operator without a row may mix images: a DynamicQuantizeLinear takes its scale from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.compiler.importers.batches import elements, moves, products
from tilewright.compiler.importers.batches.node import Batched, BatchedNode

Rule = Callable[[Batched], BatchedNode]

FUNCTIONS = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Elu"),
    *("Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log"),
    *("Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh"),
    *("Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu"),
)
"""Functions of one element, with constant numbers."""

OF_SEVERAL = (
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual"),
    *("Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
)
"""Functions of an element of each operand."""

OF_IMAGES = (
    *("ConvInteger", "ConvTranspose", "QLinearConv", "InstanceNormalization", "GroupNormalization"),
    *("DepthToSpace", "SpaceToDepth", "GlobalAveragePool", "GlobalMaxPool", "AveragePool", "LpPool"),
)
"""What computes each index of dimension 0 for itself."""

REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*FUNCTIONS, *OF_SEVERAL), elements.elementwise),
    **dict.fromkeys(OF_IMAGES, elements.of_first_dimension),
    **dict.fromkeys((f"Reduce{name}" for name in REDUCTIONS), elements.reduce),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), elements.quantizer),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), elements.softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), elements.layer_normalization),
    **dict.fromkeys(("LpNormalization", "TopK"), elements.along_one),
    **dict.fromkeys(("ArgMax", "ArgMin"), elements.arg_reduce),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), products.recurrent),
    "BatchNormalization": elements.batch_normalization,
    "Concat": moves.concat,
    "Conv": elements.convolution,
    "CumSum": elements.cumulative,
    "Dropout": elements.dropout,
    "Expand": moves.expand,
    "Flatten": moves.flatten,
    "Gather": moves.gather,
    "Gemm": products.gemm,
    "MatMul": products.matmul(0, 1),
    "MatMulInteger": products.matmul(0, 1, of_columns=(3,)),
    "MaxPool": elements.pool,
    "Pad": moves.pad,
    "QLinearMatMul": products.matmul(0, 3, of_columns=(4, 5)),
    "Reshape": moves.reshape,
    "Resize": moves.resize,
    "Slice": moves.slice_,
    "Split": moves.split,
    "Squeeze": moves.squeeze,
    "Tile": moves.tile,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.unsqueeze,
}
"""Operator of ONNX → its rule."""

MICROSOFT: Mapping[str, Rule] = {
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), elements.quantizer),
    **dict.fromkeys(("QLinearConv", "QLinearAveragePool", "QLinearGlobalAveragePool"), elements.of_first_dimension),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), elements.of_operands(0, 3)),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "Gelu"), elements.of_operands(0)),
    "QGemm": products.quantized_gemm,
    "QLinearConcat": moves.quantized_concat,
    "QLinearReduceMean": elements.quantized_mean,
    "QLinearSoftmax": elements.quantized_softmax,
    "QLinearWhere": elements.of_operands(0, 1, 4),
    "FusedMatMul": products.fused_matmul,
}
"""Operator of the domain com.microsoft → its rule."""
