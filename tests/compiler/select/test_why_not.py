"""Every instruction of a machine has a verdict for each nest, and what a verdict says is what it takes to be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model, pool_model, residual_model
from tests.rings import long_beyond, slow_beyond
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.probe_model import probe_model
from tilewright.compiler.partition.probes import PROBES
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.compared import instruction_verdicts
from tilewright.compiler.select.search import computing_patterns
from tilewright.compiler.select.why_not import CoverOutcome, CoverVerdict
from tilewright.dumps.selection_report import BEFORE, BEFORE_SELECTION
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine

RNG = np.random.default_rng(8)


def verdicts(model: onnx.ModelProto, machine: Machine) -> list[CoverVerdict]:
    kept: dict[str, Any] = {}
    compile_model(model, machine, Options(effort=0), keep=lambda name, value: kept.setdefault(name, value))
    return list(instruction_verdicts(kept[BEFORE], kept[BEFORE_SELECTION], machine))


def invented(isa: str, instruction: str) -> Machine:
    """A machine with one instruction more, `mine`."""
    return load_machine_text(f"extends: {isa}\ninstructions:\n  mine:\n{instruction}", "invented")


def requantize(do: str, source: str = "acc", zero: str = "int8") -> str:
    return (
        "    engine: vec\n    loops: {i: 10, j: 10, k: 10}\n"
        f"    from: {{a: {source}, p: par}}\n    to: {{y: act}}\n    imm: {{zero: {zero}, low: int8, high: int8}}\n"
        f"    do: y = {do}\n"
    )


WHOLE = "clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high)"


def conv() -> onnx.ModelProto:
    return conv_model(np.random.default_rng(8), 16, 16, 8)


def verdict_on(name: str, model: onnx.ModelProto, machine: Machine) -> CoverVerdict:
    return next(each for each in verdicts(model, machine) if each.instruction == name)


@pytest.mark.parametrize(
    ("instruction", "kind", "text"),
    [
        (requantize(WHOLE), CoverOutcome.COSTS, "as many words, and no plainer"),
        (requantize(WHOLE, zero="uint1"), CoverOutcome.DIFFERS, "its `zero` holds [0, 1], and the layer has"),
        (requantize(WHOLE.replace("round_shift((a", "((a").replace(", p.shift)", ">> p.shift)")), CoverOutcome.UNBOUND,
         "its `a` lies in acc, where no instruction leaves `round_shift((sum(x * w) + bias) * scale, shift)`"),
        (requantize("clamp(round_shift(a * p.scale, p.shift) + zero, low, high)"), CoverOutcome.COSTS,
         "of the busiest engine, 72 more of all engines: mma + add_bias + mine"),
        (requantize(WHOLE.replace("a + p.bias", "a * 3 + p.bias")), CoverOutcome.DIFFERS,
         "its `a * 3` stands where the layer has `sum(x * w)`"),
        (requantize(WHOLE, source="act"), CoverOutcome.DIFFERS,
         "its `a` holds [-128, 127], and the layer has `sum(x * w)` there"),
    ],
)  # fmt: skip
def test_says_what_keeps_an_invented_instruction_from_a_convolution(
    instruction: str, kind: CoverOutcome, text: str
) -> None:
    found = verdict_on("mine", conv(), invented("tiny8", instruction))
    assert (found.kind, text in found.text) == (kind, True), found


def test_an_instruction_without_which_another_would_be_taken_is_taken() -> None:
    machine = invented("tiny8", requantize(WHOLE) + "  requantize: null\n")
    assert verdict_on("mine", conv(), machine).kind is CoverOutcome.TAKEN


def test_taps_of_another_number_than_the_windows() -> None:
    """Of more taps than the window has, some are zero; of fewer, the window has parts."""
    for taps in (3, 4):
        machine = load_machine("dw16", (f"parameters.taps={taps}",))
        assert verdict_on("depthwise", conv_model(RNG, 16, 16, 8, group=16), machine).kind is CoverOutcome.TAKEN


def test_an_operand_in_another_memory() -> None:
    """The sum of two tensors, of which one is read where no tensor lies."""
    add = (
        "    engine: vec\n    loops: {i: 10, j: 10, k: 10}\n    from: {a: act, b: acc}\n    to: {y: act}\n"
        "    imm: {a_zero: int8, a_scale: uint16, b_zero: int8, b_scale: int17, shift: uint6, zero: int8, low: int8,"
        " high: int8}\n"
        "    do: y = clamp(round_shift((a - a_zero) * a_scale + (b - b_zero) * b_scale, shift) + zero, low, high)\n"
    )
    found = [each for each in verdicts(residual_model(RNG), invented("tiny8", add)) if each.instruction == "mine"]
    assert found[0].kind is CoverOutcome.COSTS and "more of all engines" in found[0].text, found


def test_costs_are_the_difference_of_what_is_compared() -> None:
    """A depthwise convolution on the array: 9 taps of 36 results, for 3 rows of the window in the lanes."""
    found = verdict_on("mma", conv_model(RNG, 16, 16, 8, group=16), load_machine("dw16"))
    assert found == CoverVerdict("conv", "mma", CoverOutcome.COSTS, f"{324 - 108:,} words more: mma + requantize")


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "conv": conv,
    "depthwise": lambda: conv_model(RNG, 16, 16, 8, group=16),
    "pool": lambda: pool_model(RNG, "MaxPool"),
    "average": lambda: pool_model(RNG, "AveragePool", same_scale=False),
    "add": lambda: residual_model(RNG),
}


@pytest.mark.parametrize("isa", slow_beyond(1, ["dw16", "tiny8"]))
@pytest.mark.parametrize("name", MODELS)
def test_no_instruction_is_silent(isa: str, name: str) -> None:
    machine = load_machine(isa)
    _require_all(verdicts(MODELS[name](), machine), machine)


@pytest.mark.slow
@pytest.mark.parametrize("isa", long_beyond(1, ["sequence16", "vector16", "dw16", "tiny8", "wide32", "base16", "rect"]))
def test_no_instruction_is_silent_on_operators_of_its_form(isa: str) -> None:
    """Each of the machine's instructions is of the form of some operator, and has a verdict with a reason there."""
    machine, of_form, done = load_machine(isa), set[str](), set[str]()
    for probe in PROBES:
        if probe.operator in done:
            continue
        try:
            found = verdicts(probe_model(probe, "int8"), machine)
        except CompileError:
            continue
        done.add(probe.operator)
        _require_all(found, machine)
        of_form |= {each.instruction for each in found if each.kind is not CoverOutcome.OTHER}
    moves = {"copy", "fill"}  # without an operation of their own
    assert {pattern.format.mnemonic for pattern in computing_patterns(machine)} - of_form <= moves


def _require_all(found: list[CoverVerdict], machine: Machine) -> None:
    names = [pattern.format.mnemonic for pattern in computing_patterns(machine)]
    nests = list(dict.fromkeys(each.nest for each in found))
    assert [(each.nest, each.instruction) for each in found] == [(nest, name) for nest in nests for name in names]
    for each in found:
        assert bool(each.text) == (each.kind is not CoverOutcome.TAKEN), each
        assert each.text.count("`") % 2 == 0, each
