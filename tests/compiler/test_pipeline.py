"""The compiler as a whole: bits of ONNX Runtime, the same bytes every time, every pass re-entered from its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.models import (
    conv_model,
    flatten_gemm_model,
    gemm_model,
    pool_model,
    random_inputs,
    residual_model,
    run_onnx,
    small_cnn,
)
from tests.compiler.tile_programs import TileBuilder
from tilewright.compiler import pipeline
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.passes import in_order
from tilewright.compiler.pipeline import PASSES, compile_model, pass_named, pass_names, resume
from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.compiler.running import PassList
from tilewright.compiler.tile.text import print_tiles
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.values import simulate_values

MODELS = {
    "conv": conv_model,
    "strided": lambda rng: conv_model(rng, 5, 20, 9, 3, stride=2, pads=[1, 1, 1, 1], dilations=2),
    "residual": residual_model,
    "max_pool": pool_model,
    "average": lambda rng: pool_model(rng, "GlobalAveragePool"),
    "gemm": gemm_model,
    "flatten": flatten_gemm_model,
    "small_cnn": small_cnn,
}


def largest_error(program: Program, model: onnx.ModelProto) -> float:
    """In steps of the output's quantisation, on random inputs."""
    inputs = random_inputs(model, np.random.default_rng(1))
    final = simulate_values(program, dram_image(program, inputs), place_regions(program.limits))
    outputs, expected = read_outputs(program, final.dram), run_onnx(model, inputs)
    return max(float(np.abs(outputs[of.name] - expected[of.name]).max()) / of.scale for of in program.outputs)


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("name", MODELS)
def test_computes_what_onnx_runtime_computes(name: str, machine: str) -> None:
    model = MODELS[name](np.random.default_rng(0))
    program = compile_model(model, load_machine(machine))
    assert largest_error(program, model) < 1.01


@pytest.mark.parametrize("name", MODELS)
def test_what_each_pass_gives_keeps_the_rules_of_its_level(name: str) -> None:
    model = MODELS[name](np.random.default_rng(0))
    verified = compile_model(model, load_machine("tiny8"), Options(effort=0, verifies=True))
    assert to_bytes(verified) == to_bytes(compile_model(model, load_machine("tiny8"), Options(effort=0)))


def test_a_pass_that_breaks_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: NestProgram) -> Iterator[RuleViolation]:
        yield RuleViolation(None, "nest 'x'", "is not so", "so")

    rules = (Rule("soundness", "It is so.", broken),)
    monkeypatch.setattr(pipeline, "PASSES", PassList.standard(tuple(
        replace(step, after=replace(step.after, rules=rules)) if step.name == "fuse" else step for step in PASSES.passes
    )))  # fmt: skip
    model = gemm_model(np.random.default_rng(0))
    compile_model(model, load_machine("tiny8"), Options(effort=0))
    with pytest.raises(CompileError) as refused:
        compile_model(model, load_machine("tiny8"), Options(effort=0, verifies=True))
    assert str(refused.value) == "pass fuse: nest 'x': rule soundness: is not so; expected so"


def test_the_digits_network_compiles_to_the_same_bytes(repository: Path) -> None:
    path = repository / "programs" / "digits" / "digits_int8.onnx"
    machine = load_machine("base16")
    assert to_bytes(compile_model(path, machine)) == to_bytes(compile_model(path.read_bytes(), machine))


def test_every_pass_is_dumped_in_order() -> None:
    dumped: list[tuple[str, str]] = []
    model = gemm_model(np.random.default_rng(0))
    compile_model(model, load_machine("tiny8"), dump=lambda name, text: dumped.append((name, text)))
    assert tuple(name for name, _ in dumped) == pass_names()
    assert all(text for _, text in dumped)


@pytest.mark.parametrize("machine", ["base16", "tiny8", "vector16"])
@pytest.mark.parametrize("name", ["strided", "residual", "average", "small_cnn"])
def test_goes_on_from_the_text_of_every_pass_to_the_same_bytes(name: str, machine: str) -> None:
    target = load_machine(machine)
    dumped: dict[str, str] = {}
    content = to_bytes(compile_model(MODELS[name](np.random.default_rng(0)), target, dump=dumped.__setitem__))
    different = [after for after in readable() if to_bytes(resume(after, dumped[after], target)) != content]
    assert different == []


@pytest.mark.parametrize("machine", ["base16", "tiny8", "vector16"])
def test_the_text_of_what_a_text_says_is_the_same_text(machine: str) -> None:
    target = load_machine(machine)
    dumped: dict[str, str] = {}
    compile_model(small_cnn(np.random.default_rng(0)), target, dump=dumped.__setitem__)
    levels = {name: pass_named(name).after for name in readable()}
    assert [
        name for name, level in levels.items() if level.print(level.parse(dumped[name], target)) != dumped[name]
    ] == []


def test_dumps_the_passes_that_are_left() -> None:
    machine = load_machine("tiny8")
    dumped: dict[str, str] = {}
    compile_model(gemm_model(np.random.default_rng(0)), machine, dump=dumped.__setitem__)
    again: dict[str, str] = {}
    resume("tile", dumped["tile"], machine, dump=again.__setitem__)
    assert again == {name: dumped[name] for name in ("schedule", "allocate", "waits", "pace", "ports", "emit")}


def test_what_is_resumed_from_the_last_pass_is_checked() -> None:
    machine = load_machine("tiny8")
    dumped: dict[str, str] = {}
    compile_model(gemm_model(np.random.default_rng(0)), machine, dump=dumped.__setitem__)
    with pytest.raises(IsaError) as refused:
        resume("emit", dumped["emit"].replace(" wait(", " wait(load=0) # wait("), machine)
    assert "race" in str(refused.value)


def test_a_text_that_no_pass_gives_is_refused() -> None:
    machine = load_machine("tiny8")
    dumped: dict[str, str] = {}
    compile_model(gemm_model(np.random.default_rng(0)), machine, dump=dumped.__setitem__)
    edited = dumped["lower"].replace('outputs = [{name = "result"', 'outputs = [{name = "nothing"')
    assert edited != dumped["lower"]
    with pytest.raises(CompileError) as refused:
        resume("lower", edited, machine)
    assert str(refused.value) == ("line 1: output 'nothing': rule hosts: has no buffer; expected one of x, result")


def test_an_unknown_pass_is_named() -> None:
    with pytest.raises(CompileError) as refused:
        resume("tiles", "", load_machine("tiny8"))
    assert str(refused.value) == f"there is no pass 'tiles'; expected one of {', '.join(pass_names())}"


def test_passes_stand_in_an_order_in_which_each_reads_what_the_one_before_gives() -> None:
    lower, tile = pass_named("lower"), pass_named("tile")
    with pytest.raises(CompileError) as refused:
        in_order((pass_named("simplify"), tile, lower))
    assert str(refused.value) == "pass 'tile': takes covers, and 'simplify' before it gives graph"
    with pytest.raises(CompileError) as refused:
        in_order((lower, pass_named("import")))
    assert str(refused.value) == "pass 'import': takes a model, and 'lower' before it gives nests"


def readable() -> list[str]:
    """The passes whose text can be read back: all but one."""
    return [name for name in pass_names()]


@pytest.mark.parametrize("act", [4, 8])
@pytest.mark.parametrize("wgt", [4, 8])
def test_small_memories_cost_time_and_no_bits(act: int, wgt: int) -> None:
    model = small_cnn(np.random.default_rng(3), channels=16, size=16)
    small = load_machine("base16", [f"memories.act.kib={act}", f"memories.wgt.kib={wgt}", "memories.acc.kib=8"])
    assert largest_error(compile_model(model, small), model) <= largest_error(
        compile_model(model, load_machine("base16")), model
    )


def test_what_cannot_fit_says_what_would_do() -> None:
    small, enough = (load_machine("base16", [f"memories.acc.kib={kib}"]) for kib in (1, 3))
    with pytest.raises(CompileError) as refused:
        resume("tile", forty_sums(small), small)
    assert str(refused.value) == (
        f"layer0: acc needs 40 words at the same time, {small.name} has 16; try --set memories.acc.kib=3"
    )
    assert resume("tile", forty_sums(enough), enough).machine == enough


def forty_sums(machine: Machine) -> str:
    """A tile program's text with one buffer of 40 accumulators."""
    builder = TileBuilder(machine, np.random.default_rng(0))
    builder.store(builder.matmul(vectors=40))
    return print_tiles(builder.program())
