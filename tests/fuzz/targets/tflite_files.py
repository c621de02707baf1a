"""TFLite files of a few operators, with shapes, types, scales, options and wiring changed or not.

LiteRT's reference kernels are the oracle. Each of them rounds integers in its own way, and may be a step away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import strategies
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.networks import RELU, RELU6, SAME, VALID, NetworkBuilder
from tests.compiler.importers.tflite.runs import random_inputs
from tests.fuzz.compiling import effort_of, prepare_compiler, shipped
from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.isa.errors import IsaError

MOST_ELEMENTS = 1 << 16

Layer = Callable[[NetworkBuilder, Tensor, int], Tensor]


def _function(kind: str, scale: float, zero: int) -> Layer:
    def add(net: NetworkBuilder, x: Tensor, _: int) -> Tensor:
        y = net.file.tensor(f"{kind}_{len(net.file.tensors)}", x.shape, scale, net.middle + zero, net.dtype)
        net.file.operator(kind, [x], y)
        return y

    return add


def _pool(kind: str) -> Layer:
    def add(net: NetworkBuilder, x: Tensor, number: int) -> Tensor:
        return net.pool(x, kind, min(2 + number % 2, x.shape[1], x.shape[2]), (SAME, VALID)[number % 2], 1 + number % 3)

    return add


LAYERS: Mapping[str, Layer] = {
    "conv": lambda net, x, n: net.conv(x, (4, 8, 17)[n % 3], (1, 3)[n % 2], 1 + n % 2, (0, RELU, RELU6)[n % 3]),
    "depthwise": lambda net, x, n: net.depthwise(x, 1 + n % 2),
    "add": lambda net, x, n: net.add(x, x, (0, RELU)[n % 2]),
    "max pool": _pool("MAX_POOL_2D"),
    "average pool": _pool("AVERAGE_POOL_2D"),
    "logistic": _function("LOGISTIC", 1 / 256, -128),
    "tanh": _function("TANH", 1 / 128, 0),
    "relu": _function("RELU", 4 / 255, -128),
    "hard swish": _function("HARD_SWISH", 5 / 255, -100),
}

ENDS: Mapping[str, Layer] = {
    "": lambda net, x, n: x,
    "mean": lambda net, x, n: net.dense(net.mean(x), 5),
    "flatten": lambda net, x, n: net.dense(net.flatten(x), 5),
}

NOT_JUDGED = (
    "has_bias was not true",
    "scale_diff / output_scale",
    "output_multiplier_exponent",
    "quantized_dimension must be in range",
    "was optional but was expected",
)
"""What LiteRT says of a file that is right by TFLite's schema, and that its kernels do not take: a convolution without
a bias, scales so far apart that a multiplier does not hold what is between them, a bias with the quantised dimension of
its weights."""

STEEPEST = 1e6
"""Where one step of a file is so many times another, LiteRT's multipliers may not hold what is between them: a sum
ends the process, a product saturates elsewhere.
"""

USUAL_SHARE = 0.5
"""In steps: what a layer may add to the median difference. LiteRT rounds halves away from zero where the machine rounds
them to even, and the layers after it take such a step times the sum of their weights.
"""

VALUES = (-3, -1, 0, 1, 2, 3, 4, 5, 7, 127, 128, 255)
SCALES = (0.0, -0.1, 1e-30, 0.001, 0.05, 0.5, 2.0, 1e30, float("nan"), float("inf"))
TYPES = (np.int8, np.uint8, np.int16, np.int32, np.float32, np.float16, np.int64, np.bool_)
CHANGES = ("shape", "rank", "scale", "zero", "axis", "type", "scales", "option", "option", "wire", "leave out")


@dataclass(frozen=True)
class File:
    """Layers one after the other, each with a number for its sizes; changes are (what, where, which, value)."""

    dtype: str
    layers: tuple[tuple[str, int], ...]
    end: str = ""
    changes: tuple[tuple[str, int, int, int], ...] = ()

    def made(self) -> tuple[NetworkBuilder, Tensor]:
        net = NetworkBuilder((1, 7, 6, 3), 1, np.dtype(self.dtype))
        x = net.x
        for layer, number in self.layers:
            x = LAYERS[layer](net, x, number)
        x = ENDS[self.end](net, x, 0)
        for change in self.changes:
            change_file(net.file, *change)
        net.file.inputs = [net.file.tensors[tensor.index] for tensor in net.file.inputs]
        return net, net.file.tensors[x.index]


def change_file(file: TfliteFile, what: str, where: int, which: int, value: int) -> None:
    """One change of a tensor or an operator; nothing where there is nothing to change."""
    tensors, operators = file.tensors, file.operators
    if what in ("option", "wire", "leave out"):
        if operators:
            at = where % len(operators)
            operators[at] = _changed_operator(operators[at], what, which, value, len(tensors))
        return
    tensor = tensors[where % len(tensors)]
    tensors[tensor.index] = replace(tensor, **_changed_fields(tensor, what, which, value))


def _changed_operator(operator: Any, what: str, which: int, value: int, tensors: int) -> Any:
    kind, inputs, outputs, table, options, fields = operator
    inputs, options = list(inputs), dict(options)
    match what:
        case "option" if options:
            name = sorted(options)[which % len(options)]
            options[name] = value % 128
        case "wire" if inputs:
            inputs[which % len(inputs)] = value % tensors
        case "leave out" if inputs:
            inputs.pop()
    return kind, inputs, outputs, table, options, fields


def _changed_fields(tensor: Tensor, what: str, which: int, value: int) -> dict[str, Any]:
    match what:
        case "shape" if tensor.shape:
            shape = list(tensor.shape)
            shape[which % len(shape)] = value
            return {"shape": tuple(shape)}
        case "rank":
            return {"shape": tensor.shape[1:] if which % 2 else (1, *tensor.shape)}
        case "scale" if tensor.scales:
            return {"scales": (SCALES[value % len(SCALES)], *tensor.scales[1:])}
        case "zero" if tensor.zeros:
            return {"zeros": (value, *tensor.zeros[1:])}
        case "scales" if tensor.scales:
            return {"scales": tensor.scales[:-1]} if which % 2 else {"scales": (*tensor.scales, 0.1)}
        case "axis":
            return {"axis": value}
        case "type":
            return {"dtype": np.dtype(TYPES[value % len(TYPES)])}
        case _:
            return {}


@strategies.composite
def files(draw: DrawFn) -> File:
    layer = strategies.tuples(strategies.sampled_from(sorted(LAYERS)), strategies.integers(0, 5))
    change = strategies.tuples(
        strategies.sampled_from(CHANGES),
        strategies.integers(0, 12),
        strategies.integers(0, 5),
        strategies.sampled_from(VALUES),
    )
    return File(
        draw(strategies.sampled_from(["int8", "int8", "uint8"])),
        tuple(draw(strategies.lists(layer, max_size=3))),
        draw(strategies.sampled_from(sorted(ENDS))),
        tuple(draw(strategies.lists(change, max_size=2))),
    )


def attempt(file: File) -> Outcome:
    net, y = file.made()
    content = net.file.content(y)
    if sum(int(np.prod(np.abs(tensor.shape), dtype=float)) for tensor in net.file.tensors) > MOST_ELEMENTS:
        return Outcome.REFUSED
    try:
        program = tilewright.compile(content, shipped("tiny8"), effort=effort_of(file))
    except (CompileError, InputError, IsaError):
        return Outcome.REFUSED
    inputs = random_inputs(net.file, np.random.default_rng(0))
    with accepted("TFLite"):
        computed = program.run(inputs).outputs
    expected = None if _is_steep(net) else _expected(content, inputs)
    if expected is None:
        return Outcome.UNJUDGED
    _compare(computed[y.name], expected, 1 + len(net.file.operators))
    return Outcome.RIGHT


def _is_steep(net: NetworkBuilder) -> bool:
    scales = [scale for tensor in net.file.tensors if tensor.dtype != np.int32 for scale in tensor.scales]
    return max(scales) >= STEEPEST * min(scales)


def _expected(content: bytes, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """What LiteRT computes; None for what it has no kernel for."""
    try:
        interpreter = Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        interpreter.invoke()
        (output,) = interpreter.get_output_details()
        values: NDArray[Any] = interpreter.get_tensor(output["index"])
    except (ValueError, RuntimeError, KeyError) as error:
        if any(words in str(error) for words in NOT_JUDGED):
            return None
        kind = re.sub(r"-?\d+(\.\d+)?", "#", str(error))[:80]
        raise WrongAnswer(f"what LiteRT refuses is accepted: {error}", f"LiteRT refuses: {kind}") from error
    return values


def _compare(computed: NDArray[Any], expected: NDArray[Any], layers: int) -> None:
    if computed.shape != expected.shape or computed.dtype != expected.dtype:
        forms = f"{computed.dtype} {computed.shape}; expected {expected.dtype} {expected.shape}"
        raise WrongAnswer(f"the output is {forms}", "TFLite: form")
    steps = np.abs(computed.astype(np.float64) - expected.astype(np.float64))
    if steps.size and (steps.max() > 3 * layers or np.median(steps) > max(1, layers * USUAL_SHARE)):
        raise WrongAnswer(f"the output is up to {steps.max():.0f} steps from LiteRT's", "TFLite: values")


TARGET = Target("TFLite files", files(), attempt, prepare=prepare_compiler)
