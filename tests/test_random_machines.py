"""Machines that nobody thought of: each loads, prints, encodes, compiles networks, and computes what it should.

A machine that fails is shrunk and kept: `python -m tests.test_random_machines SEED` writes it to `tests/machines`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tests.shrink
from tests import machine_laws
from tests.machine_laws import (
    MODELS,
    Outcome,
    hold_accuracy,
    hold_encoding_laws,
    hold_network_laws,
    hold_remedies,
    hold_text_laws,
    specification,
)
from tests.random_machines import overlay_text, random_machine, random_machine_text, random_overlay
from tests.rings import long_beyond
from tests.shrink import KEPT, keep, shrink
from tilewright.host.tensors import dram_image
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.manual import manual
from tilewright.isa.program.program import place_regions
from tilewright.rtl.run import run_rtl_many
from tilewright.rtl.verilog import TOP, emit_verilog
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values

MACHINES = 100
VERILOG = range(0, 100, 20)
"""Machines whose Verilog is made."""


def hold_laws(text: str, name: str, seed: int) -> Outcome:
    machine = hold_text_laws(text, name)
    hold_encoding_laws(machine, seed)
    outcome = hold_network_laws(machine)
    hold_accuracy(machine, outcome)
    hold_remedies(machine, outcome)
    return outcome


@pytest.mark.parametrize("seed", [6, 22, 39, 68])
def test_four_machines(seed: int) -> None:
    machine = hold_text_laws(random_machine_text(seed), f"random{seed}.yaml")
    hold_encoding_laws(machine, seed, 40)
    outcome = hold_network_laws(machine, ("padded convolution", "residual", "max pool", "gemm"), interpreted=0)
    hold_accuracy(machine, outcome)


@pytest.mark.slow
@pytest.mark.parametrize("first", long_beyond(3, range(0, MACHINES, 10)))
def test_many_machines(first: int) -> None:
    """Ten machines at a time, of whose networks fewer than a tenth may be too large."""
    refused = compiled = 0
    for seed in range(first, first + 10):
        outcome = hold_laws(random_machine_text(seed), f"random{seed}.yaml", seed)
        refused += len(outcome.refused)
        compiled += len(outcome.compiled)
    assert compiled + refused == 10 * len(MODELS)
    assert refused < 0.1 * (compiled + refused)


@pytest.mark.slow
@pytest.mark.parametrize("seed", VERILOG)
def test_verilog_of_many_machines(seed: int) -> None:
    assert f"module {TOP}(" in emit_verilog(random_machine(seed))


def small_machines(count: int) -> list[Machine]:
    """The first machines of the generator whose array has few elements."""
    found, seed = [], 0
    while len(found) < count:
        machine = random_machine(seed)
        if machine.array.rows * machine.array.cols <= 64:
            found.append(machine)
        seed += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("position", long_beyond(2, range(4)))
def test_hardware_of_small_machines_runs_the_networks(position: int) -> None:
    machine = small_machines(4)[position]
    names = ("strided convolution", "residual", "max pool", "gemm")
    programs = hold_network_laws(machine, names, interpreted=0).compiled
    assert programs
    jobs = []
    for name, program in programs.items():
        inputs, _ = specification(name)[1][0]
        jobs.append((program, dram_image(program, inputs), place_regions(program.limits)))
    for job, (state, counters) in zip(jobs, run_rtl_many(machine, jobs), strict=True):
        program, _, bases = job
        simulated = simulate_values(*job)
        assert counters.fault is None
        assert np.array_equal(state.dram, simulated.dram), machine.name
        for memory, stored in simulated.memories.items():
            assert np.array_equal(state.memories[memory], stored), f"{machine.name}: {memory}"
        assert counters.cycles == simulate_cycles(program, bases).cycles, machine.name


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(KEPT.glob("*.yaml")), ids=lambda path: path.stem)
def test_machines_that_once_failed(path: Path) -> None:
    hold_laws(path.read_text(), path.name, 0)


def test_a_refusal_proposes_a_change_that_the_file_takes() -> None:
    text = (KEPT / "depth_in_words.yaml").read_text()
    refused = hold_network_laws(load_machine_text(text, "depth_in_words"), ("residual",)).refused
    assert list(refused.values()) == [
        "conv (Conv) + add (Add) + relu (Relu): its smallest tile needs 14 bytes of act, 8 are free; "
        "try --set memories.act.depth=14"
    ]


# -- shrinking ---------------------------------------------------------------------------------------------------------


def test_shrinks_to_what_the_failure_needs() -> None:
    def fails(overlay: dict[str, Any]) -> bool:
        try:
            machine = load_machine_text(overlay_text(overlay), "shrinking")
        except IsaError:
            return False
        return machine.dram.bus_bytes == 4 and "copy" not in machine.formats

    overlay = random_overlay(0)
    overlay["dram"]["bus_bytes"] = 4
    overlay["instructions"]["copy"] = None
    assert shrink(overlay, fails) == {
        "extends": "base16",
        "dram": {"bus_bytes": 4},
        "instructions": {"copy": None},
    }


def breaks_laws(overlay: dict[str, Any]) -> bool:
    """A valid machine that breaks a law; a file that does not load breaks none."""
    try:
        load_machine_text(overlay_text(overlay), "shrinking")
    except IsaError:
        return False
    try:
        hold_laws(overlay_text(overlay), "shrinking", 0)
    except Exception:  # whatever goes wrong is the failure that is kept
        return True
    return False


def keep_failing(seed: int) -> Path:
    """Shrink the machine of a seed, which breaks a law, and keep it."""
    return keep(random_overlay(seed), f"random{seed}", breaks_laws)


def test_keeps_a_failing_machine_as_a_small_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a manual that forgets every instruction of machines with this seed's bus."""
    overlay = random_overlay(3)
    bus = overlay["dram"]["bus_bytes"]
    monkeypatch.setattr(tests.shrink, "KEPT", tmp_path)
    for law in ("hold_encoding_laws", "hold_network_laws", "hold_accuracy", "hold_remedies"):
        monkeypatch.setattr(f"{__name__}.{law}", lambda *_: None)  # what holds, slowly
    with pytest.raises(AssertionError, match="there is no failure to keep"):
        keep_failing(3)
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as fault:
        fault.setattr(machine_laws, "manual", lambda of: "" if of.dram.bus_bytes == bus else manual(of))
        path = keep_failing(3)
        assert path == tmp_path / "random3.yaml"
        assert yaml.safe_load(path.read_text()) == {"extends": "base16", "dram": {"bus_bytes": bus}}
        with pytest.raises(AssertionError):
            hold_laws(path.read_text(), path.name, 0)
    hold_laws(path.read_text(), path.name, 0)


if __name__ == "__main__":
    print(keep_failing(int(sys.argv[1])))
