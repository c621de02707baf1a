"""Functions of one value as a table for each channel: the same bits, and only where that streams less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.machines import without
from tests.compiler.models import conv_model, random_inputs
from tests.compiler.pipelines import lowered, simulated
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.channel_tables import channel_tables
from tilewright.compiler.select.compared import compared_covers
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine


def normalisation(channels: int = 40, size: int = 18, **settings: Any) -> onnx.ModelProto:
    """A scale and an offset for each channel, rounded and limited: what a normalisation with its relu becomes."""
    return conv_model(np.random.default_rng(7), channels, channels, group=channels, kernel=1, size=size, **settings)


def steps(program: NestProgram, machine: Machine) -> list[tuple[str, ...]]:
    """The instructions that are chosen for each nest."""
    return [each.instructions for each in compared_covers(program, machine) if each.is_chosen]


@pytest.mark.parametrize("settings", [{"relu": True}, {"stride": 2, "size": 40}, {"batch": 3}, {"channels": 8}])
def test_the_table_has_the_values_that_the_nest_computes(settings: dict[str, Any]) -> None:
    model = normalisation(**settings)
    before = lowered(model)
    after = channel_tables(before, load_machine("base16"))
    assert [nest.expr.op.name for nest in after.nests] == ["LUT"]
    inputs = random_inputs(model, np.random.default_rng(5))
    one, other = (run_nests(program, inputs) for program in (before, after))
    for output in before.outputs:
        np.testing.assert_array_equal(one[output.name], other[output.name])


@pytest.mark.parametrize("isa", ["base16", "tensil8", "tensil32"])
def test_the_program_has_the_same_results_with_tables_as_without(isa: str) -> None:
    model, machine = normalisation(relu=True), load_machine(isa)
    by_tables, on_array = (compile_model(model, of) for of in (machine, without(machine, "lookup")))
    used = [{instruction.mnemonic for instruction in program.instructions} for program in (by_tables, on_array)]
    assert "lookup" in used[0] and "mma" not in used[0] and "mma" in used[1]
    inputs = random_inputs(model, np.random.default_rng(2))
    results = [simulated(program, inputs) for program in (by_tables, on_array)]
    for output, computed in results[0].items():
        np.testing.assert_array_equal(computed, results[1][output])


def test_few_pixels_are_computed_on_the_array() -> None:
    """A table for a block of lanes is 256 words to load, and there are 225 pixels."""
    machine = load_machine("base16")
    assert steps(lowered(normalisation(size=15)), machine) == [("mma", "requantize")]
    assert steps(lowered(normalisation(size=18)), machine) == [("lookup",)]


def test_tables_that_are_not_chosen_have_a_reason_and_those_that_are_have_none() -> None:
    machine, reasons = load_machine("base16"), []
    for size in (15, 18):
        compared = compared_covers(lowered(normalisation(size=size)), machine)
        reasons.append([each.obstacle for each in compared if each.form == "as tables"])
    assert reasons == [["loading its tables takes longer"], [""]]


def test_words_that_are_wider_than_the_bus_take_longer_to_load() -> None:
    program = lowered(normalisation(size=18))
    assert steps(program, load_machine("base16", ["dram.bus_bytes=8"])) == [("mma", "requantize")]


def test_what_one_instruction_computes_is_not_looked_up() -> None:
    model = conv_model(np.random.default_rng(7), 16, 16, size=18)
    machine, program = load_machine("base16"), lowered(model)
    assert channel_tables(program, machine) is program


def test_channels_that_do_not_differ_share_one_table() -> None:
    program = lowered(normalisation(size=18))
    (nest,) = program.nests
    same = {access.tensor for name, access in nest.reads.items() if name != "x"}
    alike = {
        name: np.broadcast_to(values[:1], values.shape) if name in same else values
        for name, values in program.constants.items()
    }
    made = channel_tables(replace(program, constants=alike), load_machine("base16"))
    table = made.nests[0].reads["t"]
    assert made.constants[table.tensor].shape == (1, 256) and not table.index[0].terms


def test_machines_without_lookups_keep_the_product() -> None:
    program = lowered(normalisation())
    assert channel_tables(program, without(load_machine("base16"), "lookup")) is program
