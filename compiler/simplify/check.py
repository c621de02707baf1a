"""Checks what simplification promises: a graph of integer operators, with (de)quantisation only at its edges."""

from __future__ import annotations

from tilewright.compiler.errors import RAISING, Blame, CompileError, NotQuantized
from tilewright.compiler.graph.graph import Graph, Operator
from tilewright.compiler.graph.rules import WEIGHTED
from tilewright.compiler.simplify.binary import BINARY
from tilewright.compiler.simplify.canonical import CANONICALIZE
from tilewright.compiler.simplify.integer_products import INTEGER_PRODUCTS, QUANTIZE_ONCE, QUANTIZED_IN_EACH_RUN
from tilewright.compiler.simplify.microsoft import IN_EACH_RUN, WRITTEN
from tilewright.compiler.simplify.qoperators import FORMS
from tilewright.compiler.simplify.quantizers import ENDS, unread_quantizer
from tilewright.compiler.simplify.tables import ELEMENTWISE, FUNCTIONS
from tilewright.compiler.simplify.transposes import is_at_an_end
from tilewright.isa.program.stored_types import COMPUTED_NAMES, DEFAULT_TYPE

QUANTIZERS = (
    "quantize",
    "dequantize",
    "onnx.QuantizeLinear",
    "onnx.DequantizeLinear",
    *FORMS,
    *(kind for kind in WRITTEN if kind.startswith("onnx.QLinear")),
    *INTEGER_PRODUCTS,
)
"""Operators that no float model has."""

RECURRENT = ("LSTM", "GRU", "RNN")
"""Operators that are steps of other operators once they are quantised."""

MOVING_FLOATS = ("reshape", "transpose", "permute")
"""Operators that may stand between a dequantize and what reads its numbers."""


MOVES = (
    *("Cast", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad"),
    *("Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)
"""ONNX operators that compute nothing: quantising them would gain nothing."""


def require_quantized(graph: Graph) -> None:
    """Raise FloatModel for a graph that was never quantised, unless it computes nothing."""
    moves = {"reshape", "transpose", *(f"onnx.{name}" for name in MOVES)}
    if any(operator.kind in QUANTIZERS for operator in graph.operators):
        return
    if any(operator.kind not in moves for operator in graph.operators):
        raise NotQuantized(
            graph.name,
            "the model is float",
            expected=f"an {DEFAULT_TYPE.name} one",
            remedy="Quantise it with samples of its inputs: --calibration data.npz, or --calibration random if only "
            "cycles matter",
        )


def require_integer(graph: Graph, blame: Blame = RAISING) -> None:
    """Raise CompileError for the first operator that did not become an integer one; or `blame` collects them all."""
    unread = ("onnx.QuantizeLinear", "onnx.DequantizeLinear")  # before what lacks them
    for operator in sorted(graph.operators, key=lambda operator: operator.kind not in unread):
        if operator.kind == "quantize" and operator.inputs[0] in graph.inputs:
            continue
        if operator.kind == "dequantize" and set(operator.outputs) <= set(graph.outputs.values()):
            if graph.uses.get(operator.outputs[0], 0) == list(graph.outputs.values()).count(operator.outputs[0]):
                continue
        with blame.on(operator.nodes):
            fault = _fault(operator, graph)
            if fault is not None:
                raise fault


def _fault(operator: Operator, graph: Graph) -> CompileError | None:
    """Why an operator cannot stay."""
    if operator.kind.startswith("onnx."):
        return _unknown(operator, graph)
    if operator.kind not in ("reshape", "transpose"):
        for name in operator.inputs:
            operand = graph.tensors[name]
            if operand.dtype in ENDS and name not in graph.constants:
                fact = f"its operand {name!r} is {operand.dtype}"
                return CompileError(operator, fact, expected=f"{COMPUTED_NAMES}, behind QuantizeLinear")
    if operator.kind == "dequantize" or _only_hands_on(operator, graph):
        return None  # its reader is told
    if operator.kind == "quantize":
        if operator.inputs[0] in graph.producers:
            return None
        return CompileError(operator, f"quantises {operator.inputs[0]!r}, which is constant", expected="an activation")
    if operator.kind == "transpose":
        if is_at_an_end(operator, graph):
            return None
        axes, shape = list(operator.attributes["axes"]), list(graph.tensors[operator.inputs[0]].shape)
        fact = f"moves dimensions {axes} of {shape}, and no other Transpose undoes it"
        return CompileError(operator, fact, remedy="export the model with [N, C, H, W] inputs and outputs")
    if operator.kind == "pad" and graph.tensors[operator.outputs[0]].quantization is None:
        return _padding_fault(operator)
    for position, name in enumerate(operator.inputs):
        if operator.kind == "concat" and name in graph.constants and graph.tensors[name].quantization is not None:
            continue
        is_parameter = operator.kind in WEIGHTED and position > 0
        if operator.kind in BINARY and _is_quantized_constant(name, graph):
            continue
        find = _parameter_fault if is_parameter else _activation_fault
        fault = find(operator, position, graph)
        if fault is not None:
            return fault
    if graph.tensors[operator.outputs[0]].quantization is None:
        return CompileError(operator, "its result is float", expected="a QuantizeLinear after it")
    return None


def _only_hands_on(operator: Operator, graph: Graph) -> bool:
    """Whether an operator gives floats another shape or order, for readers that are all at fault themselves.

    It may come from another node than they do, one that is not at fault: a product of rows [N, 1, C].
    """
    if operator.kind not in MOVING_FLOATS or graph.tensors[operator.outputs[0]].quantization is not None:
        return False
    readers = graph.readers.get(operator.outputs[0], ())
    return bool(readers) and all(_fault(each, graph) or _only_hands_on(each, graph) for each in readers)


def _is_quantized_constant(name: str, graph: Graph) -> bool:
    """Whether a constant can be an operand in place of an activation: it is quantised with one scale."""
    quantization = graph.tensors[name].quantization
    return name in graph.constants and quantization is not None and quantization.axis is None


def _padding_fault(operator: Operator) -> CompileError:
    fact = f"pads with {operator.attributes['value']:g}, which is no multiple of its operand's scale"
    return CompileError(operator, fact, expected="such a value, or a QuantizeLinear after it")


def _parameter_fault(operator: Operator, position: int, graph: Graph) -> CompileError | None:
    """What is wrong with a convolution's weights or bias."""
    name = operator.inputs[position]
    producer = graph.producers.get(name)
    source = producer.inputs[0] if producer is not None and producer.kind == "dequantize" else name
    if source not in graph.constants:
        fact = f"its weights {name!r} are computed" if position == 1 else f"its bias {name!r} is computed"
        return CompileError(operator, fact, expected="a constant")
    if position == 1 and graph.tensors[source].quantization is None:
        fact = f"its weights {name!r} are float"
        return CompileError(operator, fact, expected="quantised ones, behind DequantizeLinear")
    return None


def _activation_fault(operator: Operator, position: int, graph: Graph) -> CompileError | None:
    """What is wrong with an operand that must be a quantised activation."""
    name = operator.inputs[position]
    producer = graph.producers.get(name)
    source = producer.inputs[0] if producer is not None and producer.kind == "dequantize" else name
    if source in graph.constants:
        if operator.kind in BINARY and graph.tensors[source].quantization is None:
            fact = f"its operand {name!r} is a float constant, not integers of eight bits times one scale"
            return CompileError(operator, fact, expected="a quantised one, behind DequantizeLinear")
        return CompileError(operator, f"its operand {name!r} is constant", expected="an activation")
    if graph.tensors[source].quantization is not None:
        return None
    where = "a float input of the model" if producer is None else f"the float result of node {producer.name!r}"
    fact = f"its operand {name!r} is {where}"
    return CompileError(operator, fact, expected="QuantizeLinear and DequantizeLinear between them")


def _unknown(operator: Operator, graph: Graph) -> CompileError:
    kind = operator.kind.removeprefix("onnx.")
    if kind in ("QuantizeLinear", "DequantizeLinear"):
        return unread_quantizer(operator, graph)
    if operator.kind in FUNCTIONS and not _is_quantized_after(operator, graph):
        return CompileError(operator, "its result is float", expected="a QuantizeLinear after it")
    if kind in RECURRENT:
        fact = f"a float {kind} has no lowering"
        return CompileError(
            operator, fact, expected="its steps, as `tilewright quantize` writes them from a float model"
        )
    if operator.kind == QUANTIZED_IN_EACH_RUN or kind in IN_EACH_RUN:
        return CompileError(operator, "quantises a tensor in each run", remedy=QUANTIZE_ONCE)
    if operator.kind not in CANONICALIZE:
        known = ", ".join(sorted(name.removeprefix("onnx.") for name in CANONICALIZE))
        return CompileError(
            operator, f"operator {kind} has no lowering to the machine", known=f"those that have: {known}"
        )
    shapes = ", ".join(str(list(graph.tensors[name].shape)) for name in operator.inputs if name)
    return CompileError(
        operator,
        f"{kind} of these operands ({shapes}) has no lowering",
        expected="constant weights for products, and equal shapes or one number for each channel otherwise",
    )


def _is_quantized_after(operator: Operator, graph: Graph) -> bool:
    """Whether a QuantizeLinear ends the element-by-element function that an operator belongs to."""
    readers = [reader for reader in graph.operators if set(operator.outputs) & set(reader.inputs)]
    return any(
        reader.kind == "quantize" or (reader.kind in (*FUNCTIONS, *ELEMENTWISE) and _is_quantized_after(reader, graph))
        for reader in readers
    )
