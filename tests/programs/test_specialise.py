"""The studies of programs/specialise: their machines are sound, networks use them, and the hardware does the same."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import onnx
import pytest

from programs.networks.registry import int8_network
from tests.codesign.specialise.test_candidates import depthwise
from tests.compiler.models import random_inputs as inputs_of
from tests.compiler.pipelines import base16, simulated
from tests.test_simulator_equals_rtl import assert_same_bytes, assert_same_counters
from tilewright.better_machines import specialise
from tilewright.bundle.vector_c import random_inputs
from tilewright.codesign.explore.space_file import SpaceReader
from tilewright.codesign.specialise.overlay import machine_file
from tilewright.codesign.specialise.tables import lines
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import place_regions
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values

NETWORKS = {"keyword": ("ds-cnn",), "images": ("mobilenetv1-0.25",), "all": ("ds-cnn", "mobilenetv1-0.25")}
"""The networks of each study that are built; that of all three has the decoder, too."""

STUDIES = {"keyword": "ds-cnn", "images": "mobilenetv1-0.25", "all": "ds-cnn"}
"""A network of each study whose instructions pay."""


def machine_of(repository: Path, study: str) -> Machine:
    return load_machine(repository / "programs/specialise" / f"{study}.yaml")


@pytest.mark.parametrize("study", STUDIES)
def test_networks_use_its_instructions_and_the_bits_stay(study: str, repository: Path) -> None:
    machine, model = machine_of(repository, study), depthwise()
    inputs = inputs_of(model, np.random.default_rng(0))
    added = set(machine.formats) - set(base16().formats)

    program = compile_model(model, machine)

    assert added and added <= {each.mnemonic for each in program.instructions}
    expected = simulated(compile_model(model, base16()), inputs)
    assert {name: value.tolist() for name, value in simulated(program, inputs).items()} == {
        name: value.tolist() for name, value in expected.items()
    }


@pytest.mark.parametrize("study", STUDIES)
def test_its_page_shows_its_file(study: str, repository: Path) -> None:
    """Page and file are of one run."""
    folder = repository / "programs/specialise"
    text = (folder / f"{study}.yaml").read_text()
    assert f"<pre>{escape(text)}</pre>" in (folder / f"{study}.html").read_text()


def test_the_space_to_be_verified_is_sound(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "ds-cnn.onnx").touch()
    text = (repository / "programs/specialise/verified.yaml").read_text()
    space = SpaceReader("verified.yaml", tmp_path).read(text)
    assert [axis.share for axis in space.axes] == [0.1]


def network_of(study: str, repository: Path) -> onnx.ModelProto:
    """The one that runs on the hardware: the decoder for the study of all three."""
    if study == "all":
        return onnx.load(repository / "programs/decoder/step_int8.onnx")
    return int8_network(STUDIES[study])


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES)
def test_a_network_of_the_study_on_the_hardware_is_the_simulators(study: str, repository: Path) -> None:
    """All but what the host does, such as the softmax of keyword spotting."""
    machine = machine_of(repository, study)
    compiled = compile_partitioned(network_of(study, repository), machine)
    programs = compiled.programs if isinstance(compiled, Partitioned) else (compiled,)
    jobs = [(of, host.dram_image(of, random_inputs(of, 0)), place_regions(of.limits)) for of in programs]

    ran = run_rtl_many(machine, jobs)

    for (program, dram, bases), (state, counters) in zip(jobs, ran, strict=True):
        assert_same_bytes(simulate_values(program, dram, bases), state, study)
        assert_same_counters(simulate_cycles(program, bases), counters, study)


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES)
def test_the_command_writes_its_file_again(study: str, repository: Path, tmp_path: Path) -> None:
    """The file is what the command writes today, and the page has today's cycles."""
    folder, networks = repository / "programs/specialise", []
    for name in NETWORKS[study]:
        networks.append(tmp_path / f"{name}.onnx")
        networks[-1].write_bytes(int8_network(name).SerializeToString())
    if study == "all":
        networks.append(repository / "programs/decoder/step_int8.onnx")

    found = specialise(networks, "base16", control=False, removals=False, clock=False)

    assert machine_file(found, "base16") == (folder / f"{study}.yaml").read_text()
    page = (folder / f"{study}.html").read_text()
    for network in found.networks:
        before, after = (f'data-value="{round(cycles)}"' for cycles in network.cycles)
        assert network.network in page and before in page and after in page


@pytest.mark.long
def test_nothing_pays_for_the_decoder(repository: Path) -> None:
    """Its page says why."""
    decoder = repository / "programs/decoder/step_int8.onnx"

    found = specialise([decoder], "base16", control=False, removals=False, clock=False)

    first, *_ = lines(found)
    assert first.startswith("Nothing pays on base16 within") and not found.choice.chosen
    assert escape(first) in (repository / "programs/specialise/decoder.html").read_text()
