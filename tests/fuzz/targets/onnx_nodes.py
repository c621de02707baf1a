"""ONNX models of one operator: forms that compile, with attributes, shapes and constants changed, rightly or wrongly.

ONNX Runtime, with every optimisation off, is the oracle: what it refuses must be refused here, and what is accepted
must come within one step of what it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import strategies
from hypothesis.strategies import DrawFn, SearchStrategy
from onnx import helper, numpy_helper

from tests.compiler.models import random_inputs, run_onnx
from tests.compiler.pipelines import simulated
from tests.fuzz.compiling import effort_of, prepare_compiler, shipped
from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.model_checks import require_harmless
from tilewright.compiler.importers.opsets import WRITTEN_IR_VERSION, WRITTEN_OPSET
from tilewright.compiler.options import Options
from tilewright.compiler.partition.probe_model import (
    RESULT_SCALE,
    SCALE,
    Activation,
    Integers,
    Numbers,
    Operand,
    Probe,
    Weights,
)
from tilewright.compiler.partition.probes import PROBES
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.errors import IsaError

MACHINES = ("base16", "vector16", "sequence16")
FORMS = [probe for probe in PROBES if not probe.domain]
ZERO = 3
MOST_ELEMENTS = 2**21
"""Of a tensor that is changed: compiling takes time in proportion to the instructions, of more than that over 10 s."""

NOT_JUDGED = (
    "NOT_IMPLEMENTED",
    "Could not find an implementation",
    "Dilation not supported for AutoPadType",
    "Failed to allocate memory",
)
"""What ONNX Runtime says of a model that may be right and that it has no kernel for."""

INTEGERS = strategies.sampled_from([-(2**62), -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 2**31, 2**40])
WORDS = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "edge", "wrap", "linear", ""]
SIZES = strategies.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 2**20])


@strategies.composite
def changed_probes(draw: DrawFn) -> Probe:
    """A form of an operator with up to three changes."""
    probe = draw(strategies.sampled_from(FORMS))
    for _ in range(draw(strategies.integers(0, 3))):
        names = sorted(_attributes(probe.operator))
        place = draw(strategies.integers(0, len(probe.operands) + len(names) - 1))
        attribute = place - len(probe.operands)
        probe = draw(_with_operand(probe, place) if attribute < 0 else _with_attribute(probe, names[attribute]))
    return probe


@cache
def _attributes(operator: str) -> Mapping[str, onnx.defs.OpSchema.Attribute]:
    return onnx.defs.get_schema(operator, WRITTEN_OPSET).attributes  # type: ignore[no-any-return]


@strategies.composite
def _with_attribute(draw: DrawFn, probe: Probe, name: str) -> Probe:
    """The attribute left out, or with another value of its type."""
    kind = _attributes(probe.operator)[name].type
    match kind:
        case onnx.defs.OpSchema.AttrType.INT:
            values: SearchStrategy[Any] = INTEGERS
        case onnx.defs.OpSchema.AttrType.INTS:
            values = _lists(probe.attributes.get(name))
        case onnx.defs.OpSchema.AttrType.FLOAT:
            values = strategies.sampled_from([-1.0, 0.0, 0.1, 1.0, 2.0, 1e30, float("inf"), float("nan")])
        case onnx.defs.OpSchema.AttrType.STRING:
            values = strategies.sampled_from(WORDS)
        case _:
            return probe
    others = {key: value for key, value in probe.attributes.items() if key != name}
    if draw(strategies.booleans()) and name in probe.attributes:
        return replace(probe, attributes=others)
    return replace(probe, attributes={**others, name: draw(values)})


@strategies.composite
def _lists(draw: DrawFn, present: Any) -> list[int]:
    """A list of integers; near the one that is there, if one is."""
    values = list(present) if present else draw(strategies.lists(strategies.integers(0, 3), max_size=5))
    if values and draw(strategies.booleans()):
        values[draw(strategies.integers(0, len(values) - 1))] = draw(INTEGERS)
    elif values and draw(strategies.booleans()):
        values.pop()
    else:
        values.append(draw(strategies.integers(0, 3)))
    return values


@strategies.composite
def _with_operand(draw: DrawFn, probe: Probe, position: int) -> Probe:
    """One operand left out, of another shape, or with other values."""
    operand = probe.operands[position]
    changed: Operand
    match operand:
        case Activation(shape) | Integers(shape):
            changed = replace(operand, shape=draw(_shapes(shape)))
        case Weights():
            shape = draw(_shapes(operand.shape))
            axis = operand.axis if operand.axis is not None and operand.axis < len(shape) else None
            changed = replace(operand, shape=shape, axis=axis, zero_point=draw(strategies.sampled_from([0, 0, 1])))
        case Numbers():
            changed = replace(operand, values=draw(_numbers(np.asarray(operand.values))))
        case None:
            changed = Activation()
    operands = list(probe.operands)
    operands[position] = changed
    return replace(probe, operands=tuple(operands))


@strategies.composite
def _shapes(draw: DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = list(shape)
    if sizes and draw(strategies.integers(0, 3)):
        sizes[draw(strategies.integers(0, len(sizes) - 1))] = draw(SIZES)
    elif sizes and draw(strategies.booleans()):
        sizes.pop()
    else:
        sizes.insert(0, draw(strategies.sampled_from([1, 2])))
    return tuple(sizes) if np.prod(sizes, dtype=float) < MOST_ELEMENTS else shape


@strategies.composite
def _numbers(draw: DrawFn, values: Any) -> Any:
    """Constants with one of them another, or one more or less."""
    flat = values.ravel().tolist()
    other = INTEGERS if values.dtype.kind in "iu" else strategies.sampled_from([-1.0, 0.0, 0.5, 3.0, float("nan")])
    if flat and draw(strategies.booleans()):
        flat[draw(strategies.integers(0, len(flat) - 1))] = draw(other)
        return np.array(flat, values.dtype).reshape(values.shape)
    return np.array([*flat, draw(other)] if draw(strategies.booleans()) else flat[:-1], values.dtype)


# -- the model ---------------------------------------------------------------------------------------------------------


def model_of(probe: Probe) -> onnx.ModelProto:
    """The probe as a model whose inputs and outputs are int8; nothing of it is checked."""
    nodes: list[onnx.NodeProto] = []
    inputs, constants = [], []

    def constant(values: Any, dtype: Any = None) -> str:
        name = f"c{len(constants)}"
        with np.errstate(all="ignore"):
            array = np.asarray(values, dtype)
        constants.append(numpy_helper.from_array(array, name))
        return name

    def convert(kind: str, tensor: str, scale: np.float32 = SCALE) -> str:
        result = f"{tensor}.{kind[0].lower()}"
        nodes.append(helper.make_node(kind, [tensor, constant(scale), constant(ZERO, np.int8)], [result], result))
        return result

    def given(shape: tuple[int, ...]) -> str:
        inputs.append(helper.make_tensor_value_info(f"x{len(inputs)}", onnx.TensorProto.INT8, shape))
        return str(inputs[-1].name)

    def operand(kind: Operand) -> str:
        match kind:
            case None:
                return ""
            case Numbers(values, dtype):
                return constant(values, dtype or np.int8)
            case Integers(shape):
                return given(shape)
            case Activation(shape):
                return convert("DequantizeLinear", given(shape))
            case Weights(shape, dtype, axis, zero_point):
                values = np.random.default_rng(0).integers(-99 if dtype != "uint8" else 0, 99, shape)
                counts = () if axis is None else (shape[axis],)
                name = f"w{len(nodes)}"
                scales, zeros = constant(np.full(counts, SCALE)), constant(np.full(counts, zero_point), dtype)
                attributes = {"axis": axis} if counts else {}
                parts = [constant(values, dtype), scales, zeros]
                nodes.append(helper.make_node("DequantizeLinear", parts, [name], name, **attributes))
                return name

    operands = [operand(kind) for kind in probe.operands]
    results = [f"y{number}" for number in range(probe.results)]
    node = helper.make_node(probe.operator, operands, results, probe.operator)
    kinds = _attributes(probe.operator)
    node.attribute.extend(
        helper.make_attribute(name, value, attr_type=kinds[name].type.value) for name, value in probe.attributes.items()
    )
    nodes.append(node)
    outputs = [convert("QuantizeLinear", name, RESULT_SCALE) for name in results] if probe.is_quantised else results
    graph = helper.make_graph(nodes, "node", inputs, [], constants)
    opsets = [helper.make_opsetid("", WRITTEN_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=WRITTEN_IR_VERSION)
    model.graph.output.extend(_declared(model, name) for name in outputs)
    return model


def _declared(model: onnx.ModelProto, output: str) -> onnx.ValueInfoProto:
    """An output with the type that the onnx package infers; of a model that it refuses, with any."""
    try:
        require_harmless(model, "the model")
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (CompileError, onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        inferred = model
    types = {value.name: value for value in inferred.graph.value_info}
    return types.get(output, helper.make_tensor_value_info(output, onnx.TensorProto.INT8, [1]))


# -- the oracle --------------------------------------------------------------------------------------------------------


def attempt(probe: Probe) -> Outcome:
    model = model_of(probe)
    outcome = Outcome.REFUSED
    for name in MACHINES:
        try:
            program = compile_model(model, shipped(name), Options(effort=effort_of(probe)))
        except (CompileError, IsaError):
            continue
        inputs = random_inputs(model, np.random.default_rng(0))
        try:
            expected = run_onnx(model, inputs)
        except Exception as error:  # noqa: BLE001  (its exceptions share no class)
            if any(words in str(error) for words in NOT_JUDGED):
                return Outcome.UNJUDGED
            raise WrongAnswer(f"{name} compiles what ONNX Runtime refuses: {error}") from error
        computed = simulated(program, inputs)
        for output, values in expected.items():
            _compare(name, output, computed[output], values)
        outcome = Outcome.RIGHT
    return outcome


def _compare(machine: str, output: str, computed: Any, expected: Any) -> None:
    if computed.shape != expected.shape:
        raise WrongAnswer(f"{machine}: {output} has the shape {computed.shape}; expected {expected.shape}")
    steps = np.abs(computed.astype(np.int64) - expected.astype(np.int64)).max(initial=0)
    if steps > 1:
        raise WrongAnswer(f"{machine}: {output} is {steps} steps from what ONNX Runtime computes")


onnxruntime.set_default_logger_severity(4)
TARGET = Target("ONNX nodes", changed_probes(), attempt, prepare=prepare_compiler)
