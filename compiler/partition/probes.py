"""The forms of ONNX's operators that the support table tries to compile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx

from tilewright.compiler.graph.graph import Attribute
from tilewright.compiler.importers.onnx_microsoft import DOMAIN
from tilewright.compiler.importers.opsets import WRITTEN_OPSET
from tilewright.compiler.partition.probe_model import (
    IMAGE,
    RESULT_SCALE,
    SCALE,
    Activation,
    Integers,
    Numbers,
    Operand,
    Probe,
    Weights,
)
from tilewright.isa.program.stored_types import BYTES, DEFAULT_TYPE


def _conv(form: str, weights: Weights, image: tuple[int, ...] = IMAGE, **attributes: Attribute) -> Probe:
    return Probe("Conv", form, (Activation(image), weights), attributes)


def _pool(operator: str, form: str, image: tuple[int, ...] = IMAGE, **attributes: Attribute) -> Probe:
    spatial = len(image) - 2
    attributes = {"kernel_shape": [3] * spatial, "strides": [2] * spatial, **attributes}
    return Probe(operator, form, (Activation(image),), attributes)


def _both(operator: str) -> Iterator[Probe]:
    """An operator on two operands of every kind."""
    yield Probe(operator, "two activations of one shape", (Activation(), Activation()))
    yield Probe(operator, "an activation for each channel, [1, C, 1, 1]", (Activation(), Activation((1, 8, 1, 1))))
    yield Probe(operator, "an activation that is broadcast over channels", (Activation(), Activation((1, 1, 6, 6))))
    per_channel = np.linspace(0.5, 1.5, 8).reshape(1, 8, 1, 1)
    yield Probe(operator, "constants, one for each channel", (Activation(), Numbers(per_channel)))
    yield Probe(operator, "one constant", (Activation(), Numbers(0.5)))
    yield Probe(operator, "a constant of the activation's shape", (Activation(), Numbers(np.ones(IMAGE))))


def _reduce(operator: str) -> Iterator[Probe]:
    for words, axes in (("over [H, W]", [2, 3]), ("over channels", [1]), ("over W", [3])):
        for keepdims in (1, 0):
            operands = (Activation(), Numbers(axes, "int64"))
            yield Probe(operator, f"{words}, keepdims = {keepdims}", operands, {"keepdims": keepdims})


def _ints(*values: int) -> Numbers:
    return Numbers(values, "int64")


ZERO = Numbers(3, "")
"""The zero point of operands that are integers."""


def _weights(*shape: int) -> Numbers:
    return Numbers(np.random.default_rng(0).integers(-99, 99, shape), DEFAULT_TYPE.name)


def _with_scales(*operands: Operand) -> tuple[Operand, ...]:
    """Operands, each with its scale and zero point; the last two are the result's."""
    zeros = {Numbers: Numbers(0, DEFAULT_TYPE.name), Integers: ZERO}
    pairs = [(operand, Numbers(SCALE), zeros[type(operand)]) for operand in operands]
    return (*(item for three in pairs for item in three), Numbers(RESULT_SCALE), ZERO)


def _integers(operator: str, form: str, *operands: Operand, domain: str = "", **attributes: Attribute) -> Probe:
    return Probe(operator, form, operands, attributes, is_quantised=False, domain=domain)


PROBES: Sequence[Probe] = (
    _conv("3×3, pads, strides", Weights((16, 8, 3, 3)), pads=[1, 1, 1, 1], strides=[2, 2]),
    _conv("1×1", Weights((16, 8, 1, 1))),
    _conv("auto_pad = SAME_UPPER", Weights((16, 8, 3, 3)), auto_pad="SAME_UPPER"),
    _conv("dilations", Weights((16, 8, 3, 3)), dilations=[2, 2]),
    _conv("group = 2", Weights((16, 4, 3, 3)), group=2),
    _conv("depthwise", Weights((8, 1, 3, 3)), group=8),
    _conv("depthwise, two results for each channel", Weights((16, 1, 3, 3)), group=8),
    _conv("[N, C, L]", Weights((16, 8, 3)), (1, 8, 6)),
    _conv("[N, C, D, H, W]", Weights((16, 8, 3, 3, 3)), (1, 8, 6, 6, 6)),
    _conv("weights with one scale", Weights((16, 8, 3, 3), axis=None)),
    _conv("uint8 weights with a zero point", Weights((16, 8, 3, 3), "uint8", None, 117)),
    _conv("int16 weights", Weights((16, 8, 3, 3), "int16")),
    Probe("Conv", "float bias", (Activation(), Weights((16, 8, 3, 3)), Numbers(np.ones(16)))),
    Probe("Conv", "computed weights", (Activation(), Activation((16, 8, 3, 3)))),
    Probe("ConvTranspose", "2×2, strides 2", (Activation(), Weights((8, 16, 2, 2), axis=1)), {"strides": [2, 2]}),
    Probe("ConvTranspose", "3×3, pads, strides 2, output_padding", (Activation(), Weights((8, 16, 3, 3), axis=1)),
          {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    Probe("ConvTranspose", "group = 2", (Activation(), Weights((8, 8, 2, 2), axis=1)), {"strides": [2, 2], "group": 2}),
    Probe("Gemm", "constant B", (Activation((4, 8)), Weights((8, 5), axis=1))),
    Probe("Gemm", "transB, constant C", (Activation((4, 8)), Weights((5, 8)), Numbers(np.ones(5))), {"transB": 1}),
    Probe("Gemm", "transA", (Activation((8, 4)), Weights((8, 5), axis=1)), {"transA": 1}),
    Probe("Gemm", "alpha and beta", (Activation((4, 8)), Weights((8, 5), axis=1), Numbers(np.ones(5))),
          {"alpha": 0.5, "beta": 2.0}),
    Probe("Gemm", "computed B", (Activation((4, 8)), Activation((8, 5)))),
    Probe("Gemm", "computed B, transA, transB, alpha", (Activation((8, 4)), Activation((5, 8))),
          {"transA": 1, "transB": 1, "alpha": 0.5}),
    Probe("Gemm", "computed B, constant C", (Activation((4, 8)), Activation((8, 5)), Numbers(np.ones(5)))),
    Probe("MatMul", "constant right operand", (Activation((4, 8)), Weights((8, 5), axis=1))),
    Probe("MatMul", "[B, M, K] by a constant [K, N]", (Activation((2, 4, 8)), Weights((8, 5), axis=1))),
    Probe("MatMul", "constant left operand", (Weights((4, 8)), Activation((8, 5)))),
    Probe("MatMul", "both computed", (Activation((4, 8)), Activation((8, 5)))),
    Probe("MatMul", "both computed, batched", (Activation((2, 4, 8)), Activation((2, 8, 5)))),
    Probe("MatMul", "both computed, of heads", (Activation((2, 3, 4, 8)), Activation((2, 3, 8, 5)))),
    Probe("MatMul", "both computed, one matrix for all", (Activation((2, 3, 4, 8)), Activation((8, 5)))),
    Probe("MatMul", "both computed, one matrix for some", (Activation((2, 3, 4, 8)), Activation((2, 1, 8, 5)))),
    Probe("MatMul", "computed matrix and vector", (Activation((4, 8)), Activation((8,)))),
    Probe("MatMul", "[B, H, M, K] by a constant [H, K, N]", (Activation((3, 2, 4, 8)), Weights((2, 8, 5), axis=None))),
    *(probe for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu") for probe in _both(operator)),
    Probe("Sum", "three activations", (Activation(), Activation(), Activation())),
    Probe("Max", "three activations", (Activation(), Activation(), Activation())),
    _pool("MaxPool", "3×3, strides, pads", pads=[1, 1, 1, 1]),
    _pool("MaxPool", "ceil_mode = 1", ceil_mode=1),
    _pool("MaxPool", "dilations", dilations=[2, 2]),
    _pool("MaxPool", "[N, C, L]", (1, 8, 6)),
    _pool("MaxPool", "[N, C, D, H, W]", (1, 8, 6, 6, 6)),
    _pool("AveragePool", "3×3, strides"),
    _pool("AveragePool", "pads, count_include_pad = 0", pads=[1, 1, 1, 1]),
    _pool("AveragePool", "pads, count_include_pad = 1", pads=[1, 1, 1, 1], count_include_pad=1),
    _pool("AveragePool", "ceil_mode = 1", ceil_mode=1),
    _pool("AveragePool", "[N, C, L]", (1, 8, 6)),
    _pool("LpPool", "3×3, strides"),
    Probe("GlobalAveragePool", "[N, C, H, W]"),
    Probe("GlobalMaxPool", "[N, C, H, W]"),
    *(probe for name in ("Mean", "Sum", "Max", "Min", "L2", "Prod") for probe in _reduce(f"Reduce{name}")),
    Probe("Concat", "of channels, in whole blocks", (Activation((1, 16, 6, 6)),) * 2, {"axis": 1}),
    Probe("Concat", "of channels", (Activation(), Activation((1, 5, 6, 6))), {"axis": 1}),
    Probe("Concat", "along W", (Activation(), Activation()), {"axis": 3}),
    Probe("Concat", "of images", (Activation(), Activation()), {"axis": 0}),
    Probe("Split", "channels, in whole blocks", (Activation((1, 32, 6, 6)),), {"axis": 1, "num_outputs": 2}, 2),
    Probe("Split", "channels", (Activation(), _ints(3, 5)), {"axis": 1}, 2),
    Probe("Split", "along W", (Activation(),), {"axis": 3, "num_outputs": 2}, 2),
    Probe("Slice", "channels", (Activation(), _ints(2), _ints(7), _ints(1))),
    Probe("Slice", "H and W", (Activation(), _ints(1, 2), _ints(5, 6), _ints(2, 3))),
    Probe("Slice", "steps of 2", (Activation(), _ints(0, 0), _ints(6, 6), _ints(2, 3), _ints(2, 2))),
    Probe("Slice", "backwards", (Activation(), _ints(5), _ints(-7), _ints(3), _ints(-1))),
    Probe("Pad", "constant, of H and W", (Activation(), _ints(0, 0, 1, 1, 0, 0, 1, 1), Numbers(0.0))),
    Probe("Pad", "reflect", (Activation(), _ints(0, 0, 1, 1, 0, 0, 1, 1)), {"mode": "reflect"}),
    Probe("Pad", "edge", (Activation(), _ints(0, 0, 1, 1, 0, 0, 1, 1)), {"mode": "edge"}),
    Probe("Transpose", "[N, C, H, W] to [N, H, W, C]", attributes={"perm": [0, 2, 3, 1]}),
    Probe("Transpose", "[N, H, W, C] to [N, C, H, W]", attributes={"perm": [0, 3, 1, 2]}),
    Probe("Transpose", "H and W", attributes={"perm": [0, 1, 3, 2]}),
    Probe("Transpose", "of a matrix", (Activation((4, 8)),), {"perm": [1, 0]}),
    Probe("Transpose", "five dimensions", (Activation((1, 2, 4, 6, 6)),), {"perm": [0, 1, 3, 4, 2]}),
    Probe("Reshape", "[N, C, H, W] to [N, C·H·W]", (Activation(), _ints(1, -1))),
    Probe("Reshape", "splits channels", (Activation(), _ints(1, 2, 4, 36))),
    Probe("Flatten", "axis = 1"),
    Probe("Squeeze", "[N, C, 1, 1] to [N, C]", (Activation((1, 8, 1, 1)), _ints(2, 3))),
    Probe("Unsqueeze", "[N, C] to [N, C, 1, 1]", (Activation((4, 8)), _ints(2, 3))),
    Probe("Expand", "[1, C, 1, 1] to [1, C, H, W]", (Activation((1, 8, 1, 1)), _ints(*IMAGE))),
    Probe("Tile", "along W", (Activation(), _ints(1, 1, 1, 2))),
    Probe("Gather", "channels", (Activation(), _ints(3, 1, 2)), {"axis": 1}),
    Probe("DepthToSpace", "mode = DCR", attributes={"blocksize": 2}),
    Probe("DepthToSpace", "mode = CRD", attributes={"blocksize": 2, "mode": "CRD"}),
    Probe("SpaceToDepth", "blocksize = 2", attributes={"blocksize": 2}),
    *(
        Probe("Resize", f"{mode}, {words}", (Activation(), None, Numbers([1, 1, *scales])),
              {"mode": mode, "coordinate_transformation_mode": coordinates, **more})
        for mode, coordinates, more in (
            ("nearest", "asymmetric", {"nearest_mode": "floor"}),
            ("linear", "half_pixel", {}),
            ("linear", "align_corners", {}),
            ("cubic", "half_pixel", {}),
        )
        for words, scales in ((f"{coordinates}, 2 times", (2, 2)), (f"{coordinates}, 1.5 times", (1.5, 1.5)))
    ),
    Probe("Clip", "constant limits", (Activation(), Numbers(0.0), Numbers(6.0))),
    Probe("Clip", "computed limits", (Activation(), Activation(()), Activation(()))),
    Probe("LeakyRelu", "any alpha", attributes={"alpha": 0.1}),
    Probe("Gelu", "approximate = none"),
    Probe("Gelu", "approximate = tanh", attributes={"approximate": "tanh"}),
    *(
        Probe(operator, words, (Activation(shape),), {"axis": axis})
        for operator in ("Softmax", "LogSoftmax", "Hardmax")
        for words, shape, axis in (("over the last axis of a matrix", (4, 8), -1), ("over channels", IMAGE, 1))
    ),
    _integers("ArgMax", "over channels", Activation(), axis=1),
    Probe("BatchNormalization", "inference", (Activation(), *(Numbers(np.linspace(0.5, 2, 8)) for _ in range(4)))),
    Probe("LayerNormalization", "over the last axis", (Activation((4, 8)), *(Numbers(np.ones(8)) for _ in range(2)))),
    Probe("LpNormalization", "p = 2, over the last axis", (Activation((4, 8)),), {"axis": -1}),
    Probe("InstanceNormalization", "", (Activation(), *(Numbers(np.ones(8)) for _ in range(2)))),
    Probe("GroupNormalization", "", (Activation(), *(Numbers(np.ones(8)) for _ in range(2))), {"num_groups": 2}),
    Probe("Dropout", "inference"),
    _integers("QuantizeLinear", f"to {' or '.join(BYTES)}, one scale", Activation(), Numbers(SCALE), ZERO),
    _integers("QuantizeLinear", "a scale for each channel", Activation(), Numbers(np.linspace(0.1, 0.2, 8)),
              Numbers([3] * 8, ""), axis=1),
    _integers("QuantizeLinear", "to int16", Activation(), Numbers(SCALE), Numbers(3, "int16")),
    _integers("DequantizeLinear", "one scale", Integers(), Numbers(SCALE), ZERO),
    _integers("DequantizeLinear", "a scale for each channel", Integers(), Numbers(np.linspace(0.1, 0.2, 8)),
              Numbers([3] * 8, ""), axis=1),
    Probe("DynamicQuantizeLinear", "", (Activation(),), results=3, is_quantised=False),
    _integers("QLinearConv", "3×3, pads", *_with_scales(Integers(), _weights(16, 8, 3, 3)), pads=[1, 1, 1, 1]),
    _integers("QLinearMatMul", "constant right operand", *_with_scales(Integers((4, 8)), _weights(8, 5))),
    _integers("QLinearMatMul", "both computed", *_with_scales(Integers((4, 8)), Integers((8, 5)))),
    _integers("QLinearMatMul", "both computed, batched", *_with_scales(Integers((2, 4, 8)), Integers((2, 8, 5)))),
    _integers("ConvInteger", "3×3", Integers(), _weights(16, 8, 3, 3), ZERO),
    _integers("MatMulInteger", "constant right operand", Integers((4, 8)), _weights(8, 5), ZERO),
    _integers("QLinearAdd", "of com.microsoft", *_with_scales(Integers(), Integers()), domain=DOMAIN),
    _integers("QLinearAveragePool", "of com.microsoft", *_with_scales(Integers()), domain=DOMAIN, kernel_shape=[2, 2]),
    _integers("QLinearGlobalAveragePool", "of com.microsoft", *_with_scales(Integers()), domain=DOMAIN),
    _integers("QGemm", "of com.microsoft", *_with_scales(Integers((4, 8)), _weights(8, 5))[:6], None,
              Numbers(RESULT_SCALE), ZERO, domain=DOMAIN),
    Probe("Where", "of constants", (Numbers(np.ones(IMAGE), "bool"), Activation(), Activation())),
)  # fmt: skip
"""Forms of operators whose attributes or operands matter; any other operator is asked about in its plain form."""


def plain_probes() -> Iterator[Probe]:
    """Every other operator of ONNX that takes one or two tensors, in its plain form."""
    known = {probe.operator for probe in PROBES}
    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= WRITTEN_OPSET:
            best = newest.get(schema.name)
            if best is None or best.since_version < schema.since_version:
                newest[schema.name] = schema
    for name, schema in sorted(newest.items()):
        if name in known or schema.deprecated or any(a.required for a in schema.attributes.values()):
            continue
        if schema.min_input in (1, 2) and schema.min_output == 1:
            yield Probe(name, "", (Activation(),) * schema.min_input)
