"""Every program in programs/ on the hardware: the bytes it is known to give, and the simulator's in every cycle."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright
from tests.digits import MODEL, images
from tests.engines import OTHER_ENGINES
from tests.rings import long_beyond
from tests.test_simulator_equals_rtl import assert_same_bytes, assert_same_counters
from tilewright.host import tensors as host
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import dram_image, place_regions
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values


@pytest.fixture(scope="module")
def reference(repository: Path) -> ModuleType:
    """The script that computes the kernels' inputs and expected outputs."""
    spec = importlib.util.spec_from_file_location("reference", repository / "programs" / "kernels" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_kernels_give_their_expected_outputs(repository: Path, reference: ModuleType) -> None:
    machine = load_machine("base16")
    paths = sorted((repository / "programs" / "kernels").glob("*.s"))
    jobs = []
    for path in paths:
        program = assemble(path.read_text(), machine, path.name)
        content = reference.read_text(path.with_suffix(".input")).tobytes()
        jobs.append((program, dram_image(program, content), place_regions(program.limits)))

    runs = run_rtl_many(machine, jobs)

    assert len(runs) == 5
    for path, (program, dram, bases), (state, counters) in zip(paths, jobs, runs, strict=True):
        expected = reference.read_text(path.with_suffix(".expected"))
        outputs = state.dram[bases["outputs"] : bases["outputs"] + program.output_bytes].tobytes()
        assert np.frombuffer(outputs, expected.dtype).tolist() == expected.tolist(), path.stem
        assert_same_bytes(simulate_values(program, dram, bases), state, path.stem)
        assert_same_counters(simulate_cycles(program, bases), counters, path.stem)


@pytest.mark.slow
@pytest.mark.parametrize("isa", long_beyond(4, ["base16", "tiny8", "vector-only", "tiny8-1p", "rect", *OTHER_ENGINES]))
def test_the_digits_network_on_three_images(isa: str) -> None:
    binary = tilewright.compile(MODEL, isa).binary
    bases = place_regions(binary.limits)
    drams = [host.dram_image(binary, {"image": image[None]}) for image in images()[:3]]

    runs = run_rtl_many(binary.machine, [(binary, dram, bases) for dram in drams])

    expected_counters = simulate_cycles(binary, bases)
    for number, (dram, (state, counters)) in enumerate(zip(drams, runs, strict=True)):
        assert_same_bytes(simulate_values(binary, dram, bases), state, f"image {number}")
        assert_same_counters(expected_counters, counters, f"image {number}")
