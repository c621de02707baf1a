"""A machine of uint8 activations computes with the codes of the file; one of int8 stores them shifted and says so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import conv_model, random_inputs, run_onnx, small_cnn
from tests.compiler.pipelines import simulated
from tests.rings import slow_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.rtl.proof.all import datapath_proofs

UNSIGNED = ("memories.act.element=uint8", "memories.lut.element=uint8")

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""

FAST = Options(effort=0)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("base16", UNSIGNED)


@pytest.mark.parametrize("activation", slow_beyond(1, (np.uint8, np.int8)))
def test_results_are_onnx_runtimes(activation: type, machine: Machine) -> None:
    model = small_cnn(np.random.default_rng(2), activation=activation)
    inputs = random_inputs(model, np.random.default_rng(0))
    found, meant = simulated(compile_model(model, machine, FAST), inputs), run_onnx(model, inputs)
    for name, values in meant.items():
        np.testing.assert_array_equal(found[name], values)


def test_a_program_is_read_back_from_its_file_and_from_its_text(machine: Machine) -> None:
    program = compile_model(conv_model(np.random.default_rng(1)), machine, Options(effort=0, verifies=True))
    assert program.inputs[0].integers == program.inputs[0].held == "uint8"
    content = to_bytes(program)
    assert to_bytes(from_bytes(content, "net.npu", machine)) == content
    assert to_bytes(assemble(disassemble(program), machine)) == content


def test_codes_are_stored_as_they_are(machine: Machine) -> None:
    model = conv_model(np.random.default_rng(1), activation=np.uint8)
    program = compile_model(model, machine, FAST)
    assert program.inputs[0].held == "uint8"
    assert not [about for about in program.metadata if about.startswith("activations")]


@pytest.mark.parametrize(
    ("activation", "name", "remark"),
    [
        (np.uint8, "base16", "are int8 in memory, less 128, in conv"),
        (np.int8, "base16-a16", "are int16 in memory, in conv"),
        (np.int8, "base16", ""),
    ],
)
def test_what_is_stored_otherwise_is_reported(activation: type, name: str, remark: str) -> None:
    model = conv_model(np.random.default_rng(1), activation=activation)
    program = compile_model(model, load_machine(name), FAST)
    assert program.metadata.get(f"activations of {np.dtype(activation)}", "") == remark


def test_signed_activations_are_shifted_the_other_way(machine: Machine) -> None:
    program = compile_model(conv_model(np.random.default_rng(1)), machine, FAST)
    assert program.metadata["activations of int8"] == "are uint8 in memory, plus 128, in conv"


@pytest.mark.slow
def test_programs_are_the_simulators_on_the_hardware() -> None:
    small = load_machine("base16", [*UNSIGNED, *SMALL])
    model = small_cnn(np.random.default_rng(2), activation=np.uint8)
    program = compile_model(model, small, FAST)
    image = host.dram_image(program, random_inputs(model, np.random.default_rng(0)))
    assert_equal(small, [(program, image, place_regions(program.limits))], [0])


@pytest.mark.long
def test_the_datapath_is_proved(machine: Machine) -> None:
    proofs = [proof for _, proof in datapath_proofs([machine])]
    assert proofs and all(proof.holds for proof in proofs)
