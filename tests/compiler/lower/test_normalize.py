"""Normalisation over channels on the machine, against ONNX Runtime; its roots against division."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from tests.compiler.models import run_onnx
from tests.compiler.normalizations import FORMS, normalizing_model
from tests.compiler.pipelines import base16, simplified, simulated, steps_apart
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.normalize_format import NormalizeFormat, normalize_format
from tilewright.compiler.lower.reciprocal_root import TOLERANCE, reciprocal_root
from tilewright.compiler.lower.softmax_format import softmax_format
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

TWO_BLOCKS = ("array.rows=16", "lanes=8")
"""Two words of a pixel lie together on chip."""

SHAPES = [(3, 37), *(pytest.param(shape, marks=pytest.mark.slow) for shape in [(1, 2), (2, 5, 64), (1, 3, 4, 20)])]


def rows(shape: Sequence[int], rng: Generator) -> Iterator[NDArray[np.float32]]:
    """Usual values, close ones, equal ones, one far from all others, and only ends."""
    yield rng.normal(0, 2, shape).astype(np.float32)
    yield rng.normal(0, 0.04, shape).astype(np.float32)
    yield np.full(shape, 6.1, np.float32)
    yield np.where(rng.random(shape) < 1 / shape[-1], 6, -6).astype(np.float32)
    yield rng.choice([-6.5, 6.2], shape).astype(np.float32)


def widths_of(machine: Machine) -> NormalizeFormat:
    arithmetic = arithmetic_of(machine)
    return normalize_format(machine, softmax_format(machine, arithmetic), arithmetic)


@pytest.mark.parametrize("overrides", [(), pytest.param(TWO_BLOCKS, marks=pytest.mark.slow)], ids=["", "two blocks"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", ["one node", "root mean square", "LpNormalization"])
def test_is_at_most_a_step_from_onnx_runtime(form: str, shape: Sequence[int], overrides: Sequence[str]) -> None:
    machine = load_machine("sequence16", overrides)
    model = normalizing_model(form, shape)
    program, nests = compile_model(model, machine, Options(effort=0)), lower(simplified(model), machine)
    for values in rows(shape, np.random.default_rng(5)):
        if form == "LpNormalization" and not values.any():
            continue
        inputs = {"x": values}
        computed = simulated(program, inputs)["result"]
        np.testing.assert_array_equal(run_nests(nests, inputs)["result"], computed)
        steps = steps_apart(computed, run_onnx(model, inputs)["result"], program.outputs[0])
        assert steps.max() <= 1


def test_usual_values_are_exact() -> None:
    """Of 20,000 results for usual values, all but a few are those of ONNX Runtime."""
    model = normalizing_model("divided", (100, 200))
    program = compile_model(model, load_machine("sequence16"), Options(effort=0))
    inputs = {"x": np.random.default_rng(6).normal(0, 2, (100, 200)).astype(np.float32)}
    steps = steps_apart(simulated(program, inputs)["result"], run_onnx(model, inputs)["result"], program.outputs[0])
    assert steps.max() <= 1
    assert (steps == 0).mean() >= 0.998


def test_roots_are_within_their_tolerance() -> None:
    widths = widths_of(load_machine("sequence16"))
    root = reciprocal_root(widths)
    assert len(root.steps) == 1
    bits = widths.magnitude.bits
    values = np.random.default_rng(0).integers(1 << bits - 2, 1 << bits, 100_000)
    found = root.values(values)
    assert np.abs(found * np.sqrt(values) / root.unit - 1).max() <= 2 * TOLERANCE
    assert found.max() < 1 << widths.leading.type.bits


def test_one_root_for_each_pixel() -> None:
    """The root takes as many words as there are rows, not as there are channels."""
    program = compile_model(normalizing_model("one node", (3, 64)), load_machine("sequence16"), Options(effort=0))
    per_row = {"leading", "root", "reciprocal", "error", "correct", "scale_sum"}
    iterations = {
        name: [int(np.prod(list(one.trips.values()))) for one in program.instructions if one.mnemonic == name]
        for name in (*per_row, "deviation")
    }
    assert all(set(iterations[name]) == {3} for name in per_row)
    assert sum(iterations["deviation"]) == 3 * 4


def test_one_scale_for_all_channels_is_one_word() -> None:
    """Rows whose scales would fill the memory of parameters, if each channel had one."""
    machine = load_machine("sequence16")
    program = compile_model(normalizing_model("LpNormalization", (1, 4096)), machine, Options(effort=0))
    inputs = {"x": np.random.default_rng(6).normal(0, 2, (1, 4096)).astype(np.float32)}
    expected = run_onnx(normalizing_model("LpNormalization", (1, 4096)), inputs)["result"]
    assert steps_apart(simulated(program, inputs)["result"], expected, program.outputs[0]).max() <= 1


def test_a_machine_without_the_instructions_says_what_it_lacks() -> None:
    with pytest.raises(CompileError, match="no instruction of base16 computes `.*sum.*where"):
        compile_model(normalizing_model("one node", (3, 64)), base16())


def test_all_forms_take_the_same_cycles() -> None:
    layer = [form for form in FORMS if form in ("one node", "divided", "with a reciprocal", "with a power")]
    programs = [
        compile_model(normalizing_model(form, (4, 48)), load_machine("sequence16"), Options(effort=0)) for form in layer
    ]
    assert len({tuple(one.mnemonic for one in program.instructions) for program in programs}) == 1
