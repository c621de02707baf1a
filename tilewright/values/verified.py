"""A network's tensors on a machine against ONNX Runtime's, as a verdict on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from tilewright.codesign.points.network import Network
from tilewright.codesign.verify.verdict import Verdict, fails, holds, not_done
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import read_onnx
from tilewright.compiler.options import Options
from tilewright.errors import InputError
from tilewright.isa.machine.machine import Machine
from tilewright.program import Program
from tilewright.values.compare import ValueComparison, compare_values
from tilewright.values.compiled import compile_keeping

SEED = 14
"""Of the networks' inputs."""


def compare_bits(network: Network, machine: Machine, effort: int) -> Verdict:
    """Compare every tensor on random inputs: each layer may be a step away for each rounding, no more."""
    if not _is_onnx(network.content):
        return not_done("only ONNX models are compared, and this is none")
    try:
        model, _ = read_onnx(network.content, network.shapes)
        program, compiled = compile_keeping(network.content, machine, Options(shapes=network.shapes, effort=effort))
        comparison = compare_values(model, program, compiled, random_inputs(program))
    except (CompileError, InputError) as error:
        return not_done(str(error).splitlines()[0])
    return _verdict(comparison)


def _verdict(comparison: ValueComparison) -> Verdict:
    first = comparison.first
    if first is not None:
        where = f"{first.tensor}[{', '.join(map(str, first.index))}]"
        return fails(f"{where} is {first.machine}, expected {first.expected} ({first.layer})")
    values = sum(each.values for each in comparison.tensors)
    unequal = sum(each.isolated.unequal for each in comparison.tensors)
    away = f"{unequal:,} of {values:,} values a step away" if unequal else f"all {values:,} values equal"
    return holds(f"{len(comparison.tensors)} tensors, {away}")


def random_inputs(program: Program) -> dict[str, NDArray[Any]]:
    """An array for each input: floats of a normal distribution, integers of their whole range."""
    rng = np.random.default_rng(SEED)
    return {name: _random(rng, zeros) for name, zeros in program.zero_inputs().items()}


def _random(rng: np.random.Generator, zeros: NDArray[Any]) -> NDArray[Any]:
    if zeros.dtype.kind in "iu":
        limits = np.iinfo(zeros.dtype)
        return rng.integers(limits.min, limits.max, zeros.shape, zeros.dtype, endpoint=True)
    return rng.normal(0, 1, zeros.shape).astype(zeros.dtype)


def _is_onnx(content: bytes) -> bool:
    try:
        return bool(onnx.ModelProto.FromString(content).graph.node)
    except DecodeError:
        return False
