"""The compiler as a whole: bits of ONNX Runtime, the same bytes every time, every stage re-entered from its text."""

from __future__ import annotations

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
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import PASSES, Options, attempts, compile_model, pass_names, resume
from tilewright.compiler.tile.text import print_tiles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.host import dram_image, read_outputs
from tilewright.isa.binary.elf_writer import to_bytes
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


def test_the_digits_network_compiles_to_the_same_bytes(repository: Path) -> None:
    path = repository / "programs" / "digits" / "digits_int8.onnx"
    machine = load_machine("base16")
    assert to_bytes(compile_model(path, machine)) == to_bytes(compile_model(path.read_bytes(), machine))


def test_every_stage_is_dumped_in_order() -> None:
    dumped: list[tuple[str, str]] = []
    model = gemm_model(np.random.default_rng(0))
    compile_model(model, load_machine("tiny8"), dump=lambda name, text: dumped.append((name, text)))
    assert tuple(name for name, _ in dumped) == pass_names()
    assert all(text for _, text in dumped)


@pytest.mark.parametrize("name", [step.name for step in PASSES if step.parse is not None])
def test_goes_on_from_a_stages_text_to_the_same_program(name: str) -> None:
    machine = load_machine("tiny8")
    dumped: dict[str, str] = {}
    program = compile_model(small_cnn(np.random.default_rng(0)), machine, dump=dumped.__setitem__)
    assert to_bytes(resume(name, dumped[name], machine)) == to_bytes(program)


def test_an_unknown_stage_is_named() -> None:
    with pytest.raises(CompileError) as refused:
        resume("tiles", "", load_machine("tiny8"))
    assert str(refused.value) == f"no pass 'tiles'; there are: {', '.join(pass_names())}"


def test_a_stage_that_has_no_way_back_is_named() -> None:
    with pytest.raises(CompileError) as refused:
        resume("waits", "", load_machine("tiny8"))
    assert str(refused.value) == (
        "the text of 'waits' cannot be read back; that of these can: import, simplify, lower, batches, copies, "
        "fuse, plain-sums, column-sums, windows, select, tile, schedule"
    )


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


def test_attempts_begin_with_what_was_asked_for() -> None:
    asked = Options(TilingOptions(budget_fraction=0.25), loads_ahead=3)
    tried = list(attempts(asked))
    assert tried[0] == asked
    assert tried[-1] == Options(TilingOptions(budget_fraction=0.125, residency="none"), 0)
