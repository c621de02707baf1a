"""A new instruction is YAML only: the README's own overlay, from assembler to hardware; and instructions taken away."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tests.accumulator_networks import FROM_ACCUMULATORS, FUSED
from tests.digits import MODEL, images
from tilewright.compiler.errors import CompileError
from tilewright.host.tensors import dram_image
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.files.lint import lint
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.manual import manual
from tilewright.isa.program.program import place_regions

MNEMONIC = "requantize_add"


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Machine:
    """base16 with the instruction that the README adds."""
    block = re.search(r"```yaml\n(# mine\.yaml.*?)```", (repository / "README.md").read_text(), re.DOTALL)
    assert block is not None
    path = tmp_path_factory.mktemp("overlay") / "mine.yaml"
    path.write_text(block[1])
    return load_machine(path)


def logits(program: tilewright.Program) -> np.ndarray:
    return np.concatenate([program.run({"image": image[None]}).outputs["logits"] for image in images()[:20]])


def test_the_compiler_selects_it_with_fewer_cycles_and_the_same_bits(fused: Machine) -> None:
    plain = tilewright.compile(MODEL, "base16")
    program = tilewright.compile(MODEL, fused)

    used = {instruction.mnemonic for instruction in program.binary.instructions}
    assert MNEMONIC in used
    assert "add" not in used
    assert program.profile()["cycles"] < plain.profile()["cycles"]
    assert np.array_equal(logits(program), logits(plain))


def test_it_assembles_and_disassembles(fused: Machine) -> None:
    binary = tilewright.compile(MODEL, fused).binary

    text = disassemble(binary)

    assert re.search(rf"^\s*{MNEMONIC} ", text, re.MULTILINE)
    assert assemble(text, fused).text == binary.text


def test_the_manual_lists_it(fused: Machine) -> None:
    assert f"### {MNEMONIC}" in manual(fused)
    assert MNEMONIC not in manual(load_machine("base16"))


@pytest.mark.parametrize("mnemonic", FUSED)
def test_what_reads_several_accumulators_has_a_page_and_no_fault(mnemonic: str, tmp_path: Path) -> None:
    path = tmp_path / "from_accumulators.yaml"
    path.write_text(FROM_ACCUMULATORS)
    assert lint(path) == ()
    assert f"### {mnemonic}" in manual(load_machine(path))


@pytest.mark.slow
def test_the_hardware_has_it_and_agrees(fused: Machine) -> None:
    from tilewright.rtl.run import run_rtl
    from tilewright.simulator.cycles import simulate_cycles
    from tilewright.simulator.values import simulate_values

    binary = tilewright.compile(MODEL, fused).binary
    bases = place_regions(binary.limits)
    dram = dram_image(binary, {"image": images()[:1]})

    state, counters = run_rtl(binary, dram, bases)

    expected = simulate_values(binary, dram, bases)
    assert np.array_equal(state.dram, expected.dram)
    for name, memory in expected.memories.items():
        assert np.array_equal(state.memories[name], memory), name
    assert counters.cycles == simulate_cycles(binary, bases).cycles


@pytest.mark.parametrize("removed", ["fill", "copy", "rescale"])
def test_without_an_optional_instruction_the_bits_stay(removed: str) -> None:
    without = tilewright.compile(MODEL, "base16", [f"instructions.{removed}=null"])

    assert removed not in {instruction.mnemonic for instruction in without.binary.instructions}
    assert np.array_equal(logits(without), logits(tilewright.compile(MODEL, "base16")))


def test_with_the_fused_one_the_plain_add_is_optional(fused: Machine, tmp_path: Path) -> None:
    path = tmp_path / "fused.yaml"
    path.write_text(fused.text)

    without = tilewright.compile(MODEL, path, ["instructions.add=null"])

    assert np.array_equal(logits(without), logits(tilewright.compile(MODEL, "base16")))


@pytest.mark.parametrize(
    ("removed", "operator", "primitive"),
    [
        ("max_pool", "maxpool (MaxPool)", "`max_over(a)`"),
        ("mma", "conv1 (Conv)", "`sum(x * w)`"),
        ("requantize", "conv1 (Conv)", "round_shift(acc * scale, shift)"),
        ("add", "block.add (Add)", "round_shift("),
    ],
)
def test_without_a_needed_one_the_error_names_operator_and_primitive(
    removed: str, operator: str, primitive: str
) -> None:
    with pytest.raises(CompileError) as caught:
        tilewright.compile(MODEL, "base16", [f"instructions.{removed}=null"], host=False)

    message = str(caught.value)
    assert operator in message
    assert primitive in message
    assert len(message.splitlines()) <= 2
