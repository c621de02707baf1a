"""From a float network and its tensors' ranges to QDQ form, by ONNX Runtime's static quantiser.

Weights are signed and symmetric, with a scale for each output channel; activations have a zero point. Every operator
that the compiler reads has QuantizeLinear and DequantizeLinear on its operands and results; what moves or picks
elements has one scale on both sides. A Relu, or a Clip around 0, is the saturation of the operator before it. Between
nodes that the compiler takes together nothing is quantised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper
from onnx_ir.passes.common import TopologicalSortPass

from tilewright.compiler.errors import CompileError, first_line
from tilewright.compiler.importers.control_flow import reads
from tilewright.compiler.importers.opsets import WRITTEN_OPSET, convert, opset_of
from tilewright.compiler.importers.shapes import infer_shapes
from tilewright.compiler.simplify.binary import BINARY_RULES
from tilewright.compiler.simplify.canonical import CANONICALIZE
from tilewright.compiler.simplify.check import QUANTIZERS
from tilewright.isa.program.small_floats import BY_SHORT_NAME
from tilewright.isa.program.stored_types import BYTES, COMPUTED_INTEGERS, DEFAULT_TYPE, STORED_TYPES
from tilewright.quantization.blocks import in_blocks
from tilewright.quantization.constants import constants_of
from tilewright.quantization.gemm import has_plain_bias
from tilewright.quantization.known_blocks import Known
from tilewright.quantization.moments import Moments
from tilewright.quantization.narrow_weights import PRODUCTS, limit_weights, product_weights
from tilewright.quantization.ranges import Range
from tilewright.quantization.silent import silent
from tilewright.quantization.small_floats import ACTIVATIONS as SMALL_ACTIVATIONS
from tilewright.quantization.small_floats import LIMITING, in_small_floats

ACTIVATIONS = (*COMPUTED_INTEGERS, *SMALL_ACTIVATIONS)

OPERATORS = frozenset(
    kind.removeprefix("onnx.") for kind in (*CANONICALIZE, *BINARY_RULES) if kind not in QUANTIZERS and "onnx." in kind
)
"""Operators that are quantised: those that the compiler has a rule for."""

KEEP_PARAMETERS = frozenset(
    ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")
    + ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization")
)
"""Operators whose constants for channels stay float: the compiler folds them into constants wider than 8 bits."""

ADDS_POSITIONS = frozenset(("Add", "Sub", "Mul", "Max", "Min"))
"""Those of them whose constants may differ by position, as an encoding of positions does: these become weights."""

PICKS: frozenset[str] = frozenset(
    ("DepthToSpace", "Expand", "GlobalMaxPool", "ReduceMax", "ReduceMin", "SpaceToDepth", "Tile")
)
"""Operators that only pick elements of their operand, but whose result ONNX Runtime gives a scale of its own."""

SAME_SCALE_MODES = ("reflect", "edge", "wrap")
"""Modes in which the result of Pad holds only values of its operand."""

PRODUCER = "tilewright"

DEQUANTIZED = "_DequantizeLinear_Output"
"""What ONNX Runtime's quantiser adds to a tensor's name for its value behind DequantizeLinear."""


def quantize_model(
    model: onnx.ModelProto,
    ranges: Mapping[str, Range],
    activations: str,
    name: str,
    kept: Set[str] = frozenset(),
    weights: str = DEFAULT_TYPE.name,
    block: int = 0,
    read: Moments = MappingProxyType({}),
    known: Known = MappingProxyType({}),
) -> onnx.ModelProto:
    """The network in QDQ form, but for `kept` nodes and tensors without a range; matrices in blocks of a size.

    Raises CompileError for one that has nothing to quantise.
    """
    if (block or known or not {activations, weights} <= {*BYTES}) and opset_of(model) < WRITTEN_OPSET:
        model = convert(model, name, WRITTEN_OPSET)  # the first that has other types, and blocks
    integers, of_weights = (DEFAULT_TYPE.name if each in BY_SHORT_NAME else each for each in (activations, weights))
    with silent():  # the quantiser's advice does not apply here
        try:
            made = _in_integers(model, ranges, integers, of_weights, name, kept, activations in BY_SHORT_NAME)
            if not {activations, weights}.isdisjoint(BY_SHORT_NAME):
                made = in_small_floats(made, model, activations, weights, block, read, known, name)
            elif block or known:
                made = in_blocks(made, model, weights, block, read, known)
            return _finished(made)
        except CompileError:
            raise
        except Exception as error:  # whatever its operators' quantisers raise
            raise CompileError(name, f"ONNX Runtime cannot quantise it: {first_line(error)}") from error


def _in_integers(
    model: onnx.ModelProto, ranges: Mapping[str, Range], activations: str, weights: str, name: str, kept: Set[str],
    is_even: bool,
) -> onnx.ModelProto:  # fmt: skip
    """The network in QDQ form with integers; `is_even`: activations without zero points."""
    if weights != DEFAULT_TYPE.name:
        limited = product_weights(model.graph.node, constants_of(model))
        model = limit_weights(model, limited, STORED_TYPES[weights].values)
    constants = constants_of(model)
    quantized = [node for node in model.graph.node if node.name not in kept and _is_quantized(node, constants)]
    if not quantized:
        raise CompileError(
            name, "nothing in it can be quantised", known=f"the operators that can: {', '.join(sorted(OPERATORS))}"
        )
    captured = {tensor for node in model.graph.node for tensor in set(reads(node)) - set(node.input)}
    floats = {tensor for node in model.graph.node for tensor in node.output if tensor and tensor not in ranges}
    by_hand = [node for node in quantized if _is_by_hand(node, constants, captured) or _touches(node, floats)]
    quantizer = _quantizer(model, ranges, activations, weights, quantized, by_hand, is_even)
    for node in quantized:
        if node.op_type in LIMITING and not _touches(node, floats):
            quantizer.quantize_activation_tensor(node.input[0])
    ranks = _ranks(model)
    for node in by_hand:
        if _touches(node, floats):
            _mark_ends(quantizer, node, constants, floats)
        else:
            _mark(quantizer, node, constants, ranks)
    quantizer.quantize_model()
    made: onnx.ModelProto = quantizer.model.model
    _read_in_eight_bits(made.graph, captured)
    return made


def _quantizer(
    model: onnx.ModelProto, ranges: Mapping[str, Range], activations: str, weights: str,
    quantized: Sequence[onnx.NodeProto], by_hand: Sequence[onnx.NodeProto], is_even: bool,
) -> Any:  # fmt: skip
    """ONNX Runtime's quantiser, for these nodes but those that are marked by hand."""
    from onnxruntime.quantization import CalibrationMethod, QDQQuantizer, TensorData, TensorsData

    constants, weight = constants_of(model), _quantizers_type(weights)
    own_types = _per_tensor_weights(quantized, constants, weight) | _wider(quantized, constants, weights)
    options = {"WeightSymmetric": True, "ActivationSymmetric": is_even, "ForceQuantizeNoInputCheck": True}
    usable = dict(map(_usable, ranges.items()))
    data = {tensor: TensorData(lowest=values.low, highest=values.high) for tensor, values in usable.items()}
    excluded = {node.name for node in model.graph.node} - {node.name for node in quantized}
    return QDQQuantizer(
        _prepared(model),
        per_channel=True,
        reduce_range=False,
        weight_qType=weight,
        activation_qType=_quantizers_type(activations),
        tensors_range=TensorsData(CalibrationMethod.MinMax, data),
        nodes_to_quantize=[],
        nodes_to_exclude=sorted(excluded | {node.name for node in by_hand}),
        op_types_to_quantize=sorted({node.op_type for node in quantized}),
        extra_options={**options, "TensorQuantOverrides": own_types},
    )


def dequantized_names(float_model: onnx.ModelProto, quantized: onnx.ModelProto) -> dict[str, str]:
    """Activations of the float network that the quantised one has in eight bits, and their names there."""
    makers = {output: node for node in quantized.graph.node for output in node.output}
    names = {}
    inputs = [value.name for value in float_model.graph.input]
    for tensor in (*inputs, *(output for node in float_model.graph.node for output in node.output)):
        for name in (tensor, f"{tensor}{DEQUANTIZED}"):
            if name in makers and makers[name].op_type == "DequantizeLinear":
                names[tensor] = name
    return names


# -- which nodes -------------------------------------------------------------------------------------------------------


def _is_quantized(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> bool:
    return node.op_type in OPERATORS and (node.op_type != "Gemm" or has_plain_bias(node, constants))


def _is_by_hand(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], captured: Set[str]) -> bool:
    """True where ONNX Runtime would do the wrong thing: quantise parameters, or drop an operator that limits.

    `captured` tensors are read inside control flow, where it does not look: nor does it see there what it drops.
    """
    match node.op_type:
        case kind if kind in LIMITING and captured & {node.input[0], node.output[0]}:
            return True
        case "Clip":
            return not _clips_around_zero(node, constants)
        case kind if kind == "Pad" or kind in PICKS:
            return True
        case kind if kind in KEEP_PARAMETERS:
            return any(tensor in constants for tensor in node.input)
    return False


def _clips_around_zero(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> bool:
    """True for constant limits with 0 between them: a quantised range always holds 0."""
    limits = [-np.inf, np.inf]
    for position, tensor in enumerate(node.input[1:3]):
        if tensor:
            if tensor not in constants:
                return False
            limits[position] = float(numpy_helper.to_array(constants[tensor]).reshape(()))
    return limits[0] <= 0 <= limits[1]


def _mark(
    quantizer: Any, node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], ranks: Mapping[str, int]
) -> None:
    """Quantise a node's activations, not its constants for channels; what only picks elements keeps its scale."""
    for tensor in node.input:
        if node.op_type not in ADDS_POSITIONS or tensor not in constants:
            continue
        if not _is_of_channels(constants[tensor], node, ranks):
            quantizer.quantize_weight_tensor(tensor)
    keeps_scale = node.op_type in PICKS or (node.op_type == "Pad" and _pads_with_its_own(node, constants))
    for tensor in node.input:
        if tensor and tensor not in constants:
            quantizer.quantize_activation_tensor(tensor)
    for tensor in node.output:
        if keeps_scale:
            quantizer.quantize_output_same_as_input(tensor, node.input[0], node.name)
        elif tensor:
            quantizer.quantize_activation_tensor(tensor)


def _touches(node: onnx.NodeProto, floats: Set[str]) -> bool:
    return not floats.isdisjoint((*node.input, *node.output))


def _mark_ends(
    quantizer: Any, node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], floats: Set[str]
) -> None:
    """Quantise what comes into nodes that the compiler takes together, and what leaves them."""
    for tensor in (*node.input, *node.output):
        if tensor and tensor not in constants and tensor not in floats:
            quantizer.quantize_activation_tensor(tensor)


def _is_of_channels(constant: onnx.TensorProto, node: onnx.NodeProto, ranks: Mapping[str, int]) -> bool:
    """Whether the compiler folds a constant: it has one value for each index of dimension 1, or one for all."""
    if node.op_type in ("Max", "Min"):
        return False
    rank = max(ranks.get(tensor, 0) for tensor in node.input)
    shape = (1,) * (rank - len(constant.dims)) + tuple(constant.dims)
    return all(size == 1 or dimension == 1 for dimension, size in enumerate(shape))


def _ranks(model: onnx.ModelProto) -> dict[str, int]:
    """How many dimensions each tensor has, where that is known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    values = (*graph.input, *graph.value_info, *graph.output)
    return ranks | {v.name: len(v.type.tensor_type.shape.dim) for v in values if v.type.tensor_type.HasField("shape")}


def _pads_with_its_own(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> bool:
    mode = next((a.s.decode() for a in node.attribute if a.name == "mode"), "constant")
    if mode in SAME_SCALE_MODES:
        return True
    value = node.input[2] if len(node.input) > 2 else ""
    return not value or (value in constants and not numpy_helper.to_array(constants[value]).any())


def _per_tensor_weights(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, onnx.TensorProto], element: Any
) -> dict[str, list[dict[str, Any]]]:
    """One scale for weights of grouped transposed convolutions: no dimension of theirs is the output channels."""
    groups = {node.input[1]: a.i for node in nodes for a in node.attribute if a.name == "group"}
    grouped = {n.input[1] for n in nodes if n.op_type == "ConvTranspose" and groups.get(n.input[1], 1) > 1}
    return {name: [{"quant_type": element, "symmetric": True}] for name in sorted(grouped) if name in constants}


def _wider(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, onnx.TensorProto], weights: str
) -> dict[str, list[dict[str, Any]]]:
    """The usual type for constants that are not weights of products, where those have another one."""
    if weights == DEFAULT_TYPE.name:
        return {}
    others = {
        tensor
        for node in nodes
        for position, tensor in enumerate(node.input)
        if tensor in constants and (position == 0 or node.op_type not in PRODUCTS)
    }
    element = _quantizers_type(DEFAULT_TYPE.name)
    return {name: [{"quant_type": element, "symmetric": True}] for name in sorted(others)}


# -- in and out of the quantiser ---------------------------------------------------------------------------------------


def _usable(item: tuple[str, Range]) -> tuple[str, Range]:
    """A tensor that is always 0 gets a range: the quantiser would make it -128 … 127, and a Relu would be lost."""
    tensor, values = item
    return (tensor, values) if values.low < 0 or values.high > 0 else (tensor, Range(np.float32(0), np.float32(1)))


def _quantizers_type(name: str) -> Any:
    """What the quantiser calls a type."""
    from onnxruntime.quantization import QuantType

    element = onnx.TensorProto.DataType.Value(name.upper())
    return next(each for each in QuantType if each.tensor_type == element)


def _prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy marked as having all shapes inferred; the quantiser would infer them again, by way of files."""
    from onnxruntime.quantization.quant_utils import add_infer_metadata

    made = onnx.ModelProto()
    made.CopyFrom(model)
    add_infer_metadata(made)
    return made


def _read_in_eight_bits(graph: onnx.GraphProto, captured: Set[str]) -> None:
    """Let control flow read captured tensors as all others do: quantised, not as the float that was there before."""
    made = {name for node in graph.node for name in node.output}
    names = {name: renamed for name in captured if (renamed := f"{name}{DEQUANTIZED}") in made}
    for node in graph.node:
        for inner in (part for attribute in node.attribute for part in (attribute.g, *attribute.graphs)):
            _rename_reads(inner, names)


def _rename_reads(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """A name that a subgraph gives to a value of its own hides the outer one."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    outer = {name: renamed for name, renamed in names.items() if name not in own}
    for node in graph.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        for inner in (part for attribute in node.attribute for part in (attribute.g, *attribute.graphs)):
            _rename_reads(inner, outer)


def _finished(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with nodes in order, types of all tensors, and no marks of the tools."""
    ordered: onnx.ModelProto = ir.to_proto(TopologicalSortPass()(ir.from_proto(model)).model)
    del ordered.graph.value_info[:]
    del ordered.metadata_props[:]
    for node in ordered.graph.node:
        del node.metadata_props[:]
    ordered.producer_name, ordered.producer_version = PRODUCER, ""
    made = infer_shapes(ordered)
    onnx.checker.check_model(made)
    return made
