"""What `explain` says of a program alone: its own instructions, what passes between layers, what is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tests.digits import MODEL
from tests.tilewright.command_line import Command
from tilewright.explain.program import explain_program
from tilewright.program import Program


@pytest.fixture(scope="module")
def program() -> Program:
    return tw.compile(str(MODEL), "tiny8", effort=0)


@pytest.fixture(scope="module")
def found(program: Program) -> dict[str, Any]:
    return explain_program(program)


def test_layers_and_cycles_are_those_of_the_profile(program: Program, found: dict[str, Any]) -> None:
    layers = program.profile()["layers"]
    assert [(of["name"], of["cycles"]) for of in found["layers"]] == [(of["name"], of["cycles"]) for of in layers]


def test_every_instruction_is_counted_once(program: Program, found: dict[str, Any]) -> None:
    kinds = [kind for layer in found["layers"] for kind in layer["instructions"]]
    assert sum(kind["count"] for kind in kinds) == len(program.binary.instructions)
    assert all(sum(size["count"] for size in kind["sizes"]) == kind["count"] for kind in kinds)


def test_a_residual_block_reads_of_both_its_branches(found: dict[str, Any]) -> None:
    reads = {layer["name"]: {one["from"] for one in layer["reads"]} for layer in found["layers"]}
    assert reads == {
        "conv1": {"an input"},
        "conv2": {"conv1"},
        "block.conv1": {"conv2"},
        "block.conv2": {"conv2", "block.conv1"},
        "maxpool": {"block.conv2"},
        "average": {"maxpool"},
        "dense": {"average"},
    }


def test_says_what_goes_through_dram() -> None:
    small = tw.compile(str(MODEL), "tiny8", ["memories.act.kib=1"], effort=0)
    reads = [one for layer in explain_program(small)["layers"] for one in layer["reads"]]
    through = [one for one in reads if not one["is_on_chip"] and one["from"] != "an input"]
    assert through and all(one["where"].startswith("DRAM, ") for one in through)


def test_loads_add_up_to_what_the_bus_reads(program: Program, found: dict[str, Any]) -> None:
    machine, count = program.machine, len(program.binary.instructions)
    loaded = sum(one["bytes"] for layer in found["layers"] for one in layer["loaded"])
    read = program.profile()["dram_bytes"]["read"] - len(program.binary.text)
    assert read - machine.dram.bus_bytes * count <= loaded <= read


def test_the_command_gives_the_same_as_json(tilewright: Command, program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "net.npu")
    ended = tilewright("explain", tmp_path / "net.npu", "block.conv2", "--json", "-")
    expected = next(of for of in explain_program(program)["layers"] if of["name"] == "block.conv2")
    assert json.loads(ended.out) == {"isa": "tiny8", "program_cycles": program.profile()["cycles"], **expected}


def test_an_unknown_layer_is_answered_with_those_that_there_are(
    tilewright: Command, program: Program, tmp_path: Path
) -> None:
    program.save(tmp_path / "net.npu")
    ended = tilewright("explain", tmp_path / "net.npu", "conv9")
    assert (ended.code, ended.err) == (
        1,
        "error: no layer 'conv9'; there are: conv1, conv2, block.conv1, block.conv2, maxpool, average, dense\n",
    )
