"""Each hand-written kernel passes the checker, and every software executor gives its expected outputs."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.check.checker import check
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, dram_image, place_regions
from tilewright.isa.program.state import MachineState
from tilewright.program import Program as Runnable
from tilewright.simulator.interpreter import interpret
from tilewright.simulator.values import simulate_values

KERNELS = ["gemm", "conv", "requantize", "max_pool", "copy"]


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    """The folder of the kernels."""
    return repository / "programs" / "kernels"


@pytest.fixture(scope="module")
def reference(folder: Path) -> ModuleType:
    """The script that computes inputs and expected outputs."""
    spec = importlib.util.spec_from_file_location("kernel_reference", folder / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernel(folder: Path, name: str) -> Program:
    """The assembled program of one kernel."""
    return assemble((folder / f"{name}.s").read_text(), load_machine("base16"), f"{name}.s")


def test_covers_every_kernel(folder: Path, reference: ModuleType) -> None:
    assert sorted(path.stem for path in folder.glob("*.s")) == sorted(KERNELS) == sorted(reference.KERNELS)


@pytest.mark.parametrize("name", KERNELS)
def test_passes_the_checker(folder: Path, name: str) -> None:
    assert check(kernel(folder, name)) == ()


@pytest.mark.parametrize("name", KERNELS)
def test_files_are_what_the_reference_computes(folder: Path, reference: ModuleType, name: str) -> None:
    source, expected = reference.KERNELS[name]()
    committed = [(folder / f"{name}.{kind}").read_text() for kind in ("input", "expected")]
    assert committed == [reference.as_text(source), reference.as_text(expected)]


@pytest.mark.parametrize("execute", [simulate_values, interpret], ids=["values", "interpreter"])
@pytest.mark.parametrize("name", KERNELS)
def test_gives_the_expected_outputs(
    folder: Path, reference: ModuleType, name: str, execute: Callable[..., MachineState]
) -> None:
    program = kernel(folder, name)
    bases = place_regions(program.limits)
    source = reference.read_text(folder / f"{name}.input").tobytes()
    state = execute(program, dram_image(program, source), bases)
    expected = reference.read_text(folder / f"{name}.expected")
    outputs = state.dram[bases["outputs"] : bases["outputs"] + program.output_bytes].tobytes()
    assert np.frombuffer(outputs, expected.dtype).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["gemm", "conv", "requantize", "copy"])
def test_takes_and_gives_arrays_by_the_names_in_its_text(folder: Path, reference: ModuleType, name: str) -> None:
    source, expected = reference.KERNELS[name]()
    program = Runnable(kernel(folder, name))
    sizes = [math.prod(tensor.shape) for tensor in program.inputs]
    parts = np.split(source.reshape(-1), np.cumsum(sizes)[:-1])
    inputs = {of.name: part.reshape(of.shape) for of, part in zip(program.inputs, parts, strict=True)}
    (output,) = program.run(inputs).outputs.values()
    assert output.dtype == expected.dtype
    assert output.tolist() == expected.tolist()


def test_takes_blocks_of_channels_as_one_image(folder: Path, reference: ModuleType) -> None:
    blocks, expected = reference.max_pool()
    image, largest = (
        array.transpose(0, 3, 1, 2).reshape(1, 32, size, size) for array, size in [(blocks, 4), (expected, 2)]
    )
    assert Runnable(kernel(folder, "max_pool")).run({"image": image}).outputs["largest"].tolist() == largest.tolist()


@pytest.mark.parametrize("name", KERNELS)
def test_survives_disassembly_and_the_binary(folder: Path, name: str) -> None:
    program = kernel(folder, name)
    image = to_bytes(program)
    assert to_bytes(assemble(disassemble(program), program.machine)) == image
    assert from_bytes(image, name) == program


def test_needs_every_wait(folder: Path) -> None:
    needless = []
    for name in KERNELS:
        program = kernel(folder, name)
        for index, instruction in enumerate(program.instructions):
            for engine, count in instruction.waits.items():
                if count:
                    weaker = list(program.instructions)
                    weaker[index] = instruction.replace({f"wait.{engine}": count - 1})
                    if not check(replace(program, instructions=tuple(weaker))):
                        needless.append((name, index, engine))
    assert needless == []
