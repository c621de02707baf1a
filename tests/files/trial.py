"""One file of an exporter, compiled and run: what the machine does of it, what the host and why, how exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.models import run_onnx
from tilewright.compiler.importers.tflite.read import is_tflite
from tilewright.compiler.importers.tflite.translate import translate_tflite
from tilewright.errors import USER_ERRORS

SHOWN = 2
"""So many reasons are named."""

SAMPLES = 32

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Trial:
    """`make` gives the file; `maker` says what made it: a package that was run, or a generator of the same form."""

    exporter: str
    form: str
    make: Callable[[], bytes]
    maker: str = "generator"
    is_float: bool = False  # it is quantised here, with samples
    has_reference: bool = True


@dataclass(frozen=True)
class Ending:
    """`place` is where it runs, `reason` why not all of it on the machine, `apart` how far it is from the reference."""

    place: str
    reason: str = ""
    apart: str = ""


def tried(trial: Trial, isa: str = "base16") -> Ending:
    """How a file ends; an exception that is not ours is not caught."""
    content = trial.make()
    try:
        model = tilewright.quantize(content, samples_of(content)).content if trial.is_float else content
        program = tilewright.compile(model, isa, effort=0)
        inputs = inputs_of(program, content)
        came = program.run(inputs).outputs
    except USER_ERRORS as error:
        return Ending("refused", str(error))
    nodes = program.host_nodes
    machine = any(layer.macs for layer in program.layers) or bool(program.layers)
    kinds = list(dict.fromkeys(node.op_type for node in nodes))
    reasons = list(dict.fromkeys(node.reason for node in nodes))
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    place = "machine" if not nodes else f"{'machine; ' * machine}host: {', '.join(kinds)}"
    expected = _expected(content, inputs) if trial.has_reference else None
    return Ending(place, "; ".join(reasons[:SHOWN]) + more, _apart(came, expected))


def samples_of(content: bytes) -> dict[str, NDArray[Any]]:
    """Random inputs of a float file, one run after the other, each with the state that the one before it left."""
    rng = np.random.default_rng(4)
    model = translate_tflite(content, "the file") if is_tflite(content) else onnx.load_from_string(content)
    states = tilewright.states(content)
    shapes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in model.graph.input}
    runs, kept = [], {name: state.initial for name, state in states.items()}
    for _ in range(SAMPLES):
        runs.append({name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} | kept)
        came = run_onnx(model, runs[-1])
        kept = {name: came[state.output] for name, state in states.items()}
    return {name: np.stack([run[name] for run in runs]) for name in shapes}


def inputs_of(program: tilewright.Program, content: bytes) -> dict[str, NDArray[Any]]:
    """Random inputs; what a state begins with."""
    rng = np.random.default_rng(3)
    inputs = {name: _random(value, rng) for name, value in program.zero_inputs().items()}
    return inputs | {name: state.initial for name, state in tilewright.states(content).items()}


def _random(zero: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    if zero.dtype.kind == "f":
        return rng.normal(size=zero.shape).astype(zero.dtype)
    if zero.dtype == np.bool_:
        return rng.integers(0, 2, zero.shape).astype(np.bool_)
    limits = np.iinfo(zero.dtype)
    least, most = (limits.min, limits.max) if zero.dtype.itemsize == 1 else (0, 1)
    return rng.integers(least, most, zero.shape, endpoint=True).astype(zero.dtype)


def _expected(content: bytes, inputs: Arrays) -> Arrays | None:
    """What LiteRT or ONNX Runtime computes of the file as it is; None where they do not take it."""
    try:
        if is_tflite(content):
            return Litert(content).run(inputs)
        return run_onnx(onnx.load_from_string(content), inputs)
    except Exception:  # noqa: BLE001  (theirs share no class)
        return None


def _apart(came: Arrays, expected: Arrays | None) -> str:
    """Steps of integers; of floats, the ratio of the results to what they are apart."""
    if expected is None:
        return "no reference"
    steps, noise, signal = 0, 0.0, 0.0
    for name, values in expected.items():
        difference = came[name].astype(np.float64) - values.astype(np.float64)
        if values.dtype.kind == "f":
            noise, signal = noise + float(np.sum(difference**2)), signal + float(np.sum(values.astype(np.float64) ** 2))
        else:
            steps = max(steps, int(np.abs(difference).max(initial=0)))
    if signal:
        ratio = 200.0 if noise == 0 else 10 * np.log10(signal / noise)
        return "equal" if ratio > 90 and not steps else f"{ratio:.0f} dB"
    return f"{steps} step{'s' * (steps != 1)}" if steps else "equal"
