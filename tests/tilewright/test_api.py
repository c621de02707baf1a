"""The Python API: compile, save, load, run on every executor, profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.models import random_inputs, run_onnx, small_cnn
from tests.engines import ENGINES
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program as Binary


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return small_cnn(np.random.default_rng(0))


@pytest.fixture(scope="module")
def program(model: onnx.ModelProto) -> tilewright.Program:
    return tilewright.compile(model, "tiny8")


@pytest.fixture
def inputs(model: onnx.ModelProto) -> Mapping[str, NDArray[Any]]:
    return random_inputs(model, np.random.default_rng(1))


def test_compiles_a_path_bytes_and_a_proto_to_the_same_program(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    sources = (model, model.SerializeToString(), str(tmp_path / "model.onnx"), tmp_path / "model.onnx")
    texts = [tilewright.compile(source, "tiny8").binary.text for source in sources]
    assert texts == [texts[0]] * len(sources)


def test_takes_a_machine_by_name_path_or_value(model: onnx.ModelProto) -> None:
    by_value = tilewright.compile(model, load_machine("tiny8", ["memories.act.kib=32"]))
    by_name = tilewright.compile(model, "tiny8", overrides=["memories.act.kib=32"])
    assert by_value.binary.text == by_name.binary.text


def test_overrides_need_a_machines_file(model: onnx.ModelProto) -> None:
    with pytest.raises(tilewright.InputError) as refused:
        tilewright.compile(model, load_machine("tiny8"), overrides=["memories.act.kib=32"])
    assert str(refused.value) == "overrides change a machine's file; give the machine by name or path"


def test_executors_agree_in_every_bit(program: tilewright.Program, inputs: Mapping[str, NDArray[Any]]) -> None:
    on_simulator, on_interpreter = (program.run(inputs, on=on) for on in ("sim", "interpreter"))
    assert np.array_equal(on_simulator.outputs["logits"], on_interpreter.outputs["logits"])
    assert on_interpreter.profile is None


@pytest.mark.slow
def test_the_hardware_agrees_in_every_bit_and_cycle(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> None:
    program = tilewright.compile(model, "tiny8", overrides=["counters=all"])
    on_simulator, on_rtl = (program.run(inputs, on=on) for on in ("sim", "rtl"))
    assert np.array_equal(on_simulator.outputs["logits"], on_rtl.outputs["logits"])
    assert on_simulator.profile is not None and set(on_simulator.profile["engines"]) == set(ENGINES)
    assert on_simulator.profile == on_rtl.profile


@pytest.mark.slow
def test_hardware_with_few_counters_tells_all_but_what_its_engines_did(
    program: tilewright.Program, inputs: Mapping[str, NDArray[Any]]
) -> None:
    on_simulator, on_rtl = (program.run(inputs, on=on) for on in ("sim", "rtl"))
    assert on_simulator.profile is not None
    assert on_rtl.profile == {**on_simulator.profile, "engines": {}}


def test_outputs_are_close_to_onnx_runtimes(
    program: tilewright.Program, model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]
) -> None:
    outputs, expected = program.run(inputs).outputs["logits"], run_onnx(model, inputs)["logits"]
    assert outputs.shape == expected.shape
    assert outputs.dtype == expected.dtype
    assert np.abs(outputs - expected).max() <= 3 * program.outputs[0].scale


def test_load_undoes_save(program: tilewright.Program, inputs: Mapping[str, NDArray[Any]], tmp_path: Path) -> None:
    program.save(tmp_path / "net.npu")
    loaded = tilewright.Program.load(tmp_path / "net.npu")
    assert loaded.layers == program.layers
    assert np.array_equal(loaded.run(inputs).outputs["logits"], program.run(inputs).outputs["logits"])


def test_load_refuses_another_machines_program(program: tilewright.Program, tmp_path: Path) -> None:
    program.save(tmp_path / "net.npu")
    with pytest.raises(IsaError):
        tilewright.Program.load(tmp_path / "net.npu", load_machine("base16"))


def test_layers_name_the_onnx_nodes(program: tilewright.Program) -> None:
    nodes = [node for layer in program.layers for node in layer.nodes]
    assert {"conv1", "conv2", "block.conv1", "maxpool", "average", "dense"} <= set(nodes)


def test_a_run_checks_a_program_unless_the_compiler_has(
    model: onnx.ModelProto, program: tilewright.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Checked(Exception):
        pass

    def refuse(*_: object) -> None:
        raise Checked

    program.save(tmp_path / "net.npu")
    monkeypatch.setattr(tilewright.program, "check", refuse)
    compiled = tilewright.compile(model, "tiny8")
    assert compiled.run(compiled.zero_inputs()).outputs
    for unknown in (tilewright.Program.load(tmp_path / "net.npu"), tilewright.Program(compiled.binary)):
        with pytest.raises(Checked):
            unknown.run(unknown.zero_inputs())
    with pytest.raises(Checked):
        compiled.check()


def test_a_compiled_program_has_no_findings(program: tilewright.Program) -> None:
    assert program.check() == ()


def test_the_profile_adds_up(program: tilewright.Program) -> None:
    profile = program.profile()
    assert sum(layer["cycles"] for layer in profile["layers"]) == profile["cycles"]
    for engine in profile["engines"].values():
        spent = engine["busy"] + sum(engine["wait"].values()) + sum(engine["stall"].values()) + engine["idle"]
        assert spent == profile["cycles"]


def test_the_interpreter_has_no_profile(program: tilewright.Program) -> None:
    with pytest.raises(tilewright.InputError) as refused:
        program.profile(on="interpreter")
    assert str(refused.value) == "'interpreter' has no clock; profile on: sim, rtl"


def test_refuses_to_run_what_the_checker_refuses(copy_program: Binary) -> None:
    racing = copy_program.instructions[1].replace({"wait.load": 0})
    program = tilewright.Program(replace(copy_program, instructions=(copy_program.instructions[0], racing)))
    with pytest.raises(tilewright.InputError) as refused:
        program.run(program.zero_inputs())
    assert "race" in str(refused.value)
    assert program.run(program.zero_inputs(), unchecked=True).outputs["out0"].shape == (1, 16, 6, 1)


def test_names_what_does_not_exist() -> None:
    with pytest.raises(AttributeError):
        tilewright.nonsense  # noqa: B018


@pytest.mark.parametrize("effort", [-1, 3])
def test_an_effort_that_there_is_not(effort: int) -> None:
    model = "programs/digits/digits_int8.onnx"
    asked = (
        lambda: tilewright.compile(model, "tiny8", effort=effort),
        lambda: tilewright.compare([model], ["tiny8"], effort=effort),
        lambda: tilewright.advise([model], "tiny8", effort=effort),
    )
    for ask in asked:
        with pytest.raises(tilewright.InputError, match=f"an effort of {effort}; expected 0 to 2"):
            ask()
