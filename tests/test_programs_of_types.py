"""Programs of every type that machines ship with are the same behind their files: binary, assembly, loaded and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tilewright
from tests.digits import FOLDER
from tests.rings import slow_beyond
from tests.type_machines import TYPES, Typed
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import save
from tilewright.isa.files.loader import load_machine

WIDE_FIRST = sorted(TYPES, key=lambda typed: typed.activations != "int16")


@pytest.mark.parametrize("typed", slow_beyond(2, WIDE_FIRST), ids=lambda typed: f"{typed.machine}-{typed.weights}")
def test_a_program_is_the_same_behind_its_files(typed: Typed, tmp_path: Path) -> None:
    """The first convolution of the network reads windows of an image with one channel, in elements of any type."""
    model = typed.quantized(onnx.load(FOLDER / "digits.onnx"), "random")
    program = tilewright.compile(model, typed.machine)
    assert program.binary.inputs[0].windows is not None
    program.save(tmp_path / "net.npu")
    loaded = tilewright.Program.load(tmp_path / "net.npu")
    inputs = dict(np.load(FOLDER / "example.npz"))
    expected, found = program.run(inputs).outputs, loaded.run(inputs).outputs
    assert {name: values.tolist() for name, values in found.items()} == {n: v.tolist() for n, v in expected.items()}
    save(assemble(disassemble(program.binary), load_machine(typed.machine)), tmp_path / "again.npu")
    assert (tmp_path / "again.npu").read_bytes() == (tmp_path / "net.npu").read_bytes()
