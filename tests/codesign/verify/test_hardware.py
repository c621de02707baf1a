"""The hardware of a machine is compared byte by byte and cycle by cycle, and its absence is said."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tilewright.codesign.points.network import Network
from tilewright.codesign.verify import hardware
from tilewright.codesign.verify.hardware import operator_programs, verify_datapath, verify_hardware
from tilewright.codesign.verify.verdict import VerifyOutcome, holds
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.state import MachineState, RunCounters
from tilewright.rtl.simulation.tools import RtlError
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values

TINY = load_machine("tiny8")
Runs = list[tuple[MachineState, RunCounters]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """What the hardware answers: as the simulator does, for the programs of two operators."""
    programs = [next(operator_programs(TINY))]
    found: Runs = []

    def run(machine: Machine, jobs: Sequence[Any]) -> Runs:
        if not found:
            found.extend((simulate_values(*job), simulate_cycles(job[0], job[2])) for job in jobs)
        return found

    monkeypatch.setattr(hardware, "operator_programs", lambda machine: iter(programs))
    monkeypatch.setattr(hardware, "run_rtl_many", run)
    assert verify_hardware(TINY) == holds("1 programs of one operator each, with 7 of the machine's 22 instructions")
    return found


def test_a_byte_that_differs_fails(runs: Runs) -> None:
    runs[0][0].memories["act"][7, 0] ^= 1
    assert verify_hardware(TINY).text == "Conv: 1 bytes of act differ"


def test_a_cycle_that_differs_fails(runs: Runs) -> None:
    state, counters = runs[0]
    runs[0] = state, replace(counters, cycles=counters.cycles + 1)
    verdict = verify_hardware(TINY)
    assert verdict.fails
    assert verdict.text == f"Conv: {counters.cycles + 1} cycles on the hardware, {counters.cycles} in the simulator"


def test_an_instruction_at_another_time_fails(runs: Runs) -> None:
    runs[0][1].started[2] += 1
    assert verify_hardware(TINY).text == "Conv: instructions start in other cycles"


def test_without_tools_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RtlError("no Verilator here")

    monkeypatch.setattr(hardware, "require_tools", missing)
    assert verify_hardware(TINY).outcome is verify_datapath(TINY).outcome is VerifyOutcome.NOT_DONE
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install z3-solver" in verify_datapath(TINY).text


@pytest.mark.slow
def test_the_hardware_of_a_shipped_machine_is_the_simulator_s() -> None:
    verdict = verify_hardware(TINY)
    assert verdict.outcome is VerifyOutcome.HOLDS, verdict.text


@pytest.mark.slow
def test_the_datapath_of_a_small_machine_is_proved() -> None:
    assert verify_datapath(TINY) == holds("13 proofs")


@pytest.mark.slow
def test_values_are_those_of_onnx_runtime(request: pytest.FixtureRequest) -> None:
    from tilewright.values.verified import compare_bits

    model = request.config.rootpath / "programs/digits/digits_int8.onnx"
    verdict = compare_bits(Network("digits", model.read_bytes()), TINY, 0)
    assert verdict == holds("6 tensors, all 2,602 values equal")
    assert compare_bits(Network("none", b""), TINY, 0).outcome is VerifyOutcome.NOT_DONE
