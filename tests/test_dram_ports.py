"""A machine with two AXI ports, each with a load and a store: what passes them side by side, and faults on one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generators import LIMITS, program_of
from tests.test_simulator_equals_rtl import assert_equal, faulty_instructions, job, random_jobs
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import PortCounters
from tilewright.rtl.counters import counter_names
from tilewright.rtl.registers import register_map
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.profile import profile
from tilewright.simulator.values import PreparedProgram

TWO_PORTS = """
extends: tiny8
name: two-ports
lanes: 4
array: {rows: 4, cols: 4}
counters: all
dram: {bus_bytes: 4, ports: %d}
engines:
  load2: {template: dma, queue: 2, reads: [dram], writes: [act, wgt, acc, par], port: %d}
  out2: {template: dma, queue: 2, reads: [act, acc], writes: [dram], port: 1}
instructions:
  load_act: {engine: [load, load2]}
  load_wgt: {engine: [load, load2]}
  store_act: {engine: [store, out2]}
"""

WORDS = 200


def two_ports(port_of_load2: int = 1) -> Machine:
    return load_machine_text(TWO_PORTS % (2, port_of_load2), "two-ports.yaml")


def transfer(machine: Machine, mnemonic: str, words: int = WORDS, base: int = 0, **values: int) -> Instruction:
    """So many words of activations that follow each other, on chip and in the workspace region, a beat each."""
    trips = {"trip.k": words, "d.k": machine.lanes, "y.k": 1, "y.base": base, "d.region": 2}
    return make_instruction(machine.format(mnemonic), {**trips, **values})


def cycles(machine: Machine, *instructions: Instruction) -> int:
    program = program_of(machine, instructions)
    return simulate_cycles(program, place_regions(program.limits)).cycles


@pytest.mark.slow
@pytest.mark.parametrize("both", [("load_act", "load_act_load2"), ("store_act", "store_act_out2")])
def test_transfers_through_two_ports_take_no_longer_than_one(both: tuple[str, str]) -> None:
    machine = two_ports()
    bank = machine.memories["act"].bank_depth
    one, other = (transfer(machine, mnemonic, base=at * bank) for at, mnemonic in enumerate(both))
    alone = cycles(machine, one)

    assert alone <= cycles(machine, one, other) <= alone + 20, "the second begins when it is fetched"


def test_transfers_through_one_port_take_turns() -> None:
    machine = two_ports(port_of_load2=0)
    bank = machine.memories["act"].bank_depth
    one, other = transfer(machine, "load_act"), transfer(machine, "load_act_load2", base=bank)

    assert cycles(machine, one, other) >= cycles(machine, one) + WORDS


def test_no_beat_waits_for_those_of_another_port() -> None:
    """A load that a full bank keeps from writing leaves its beats on its own port alone."""
    machine = two_ports()
    words = machine.memories["act"].bank_depth
    busy = transfer(machine, "load_act", words), transfer(machine, "load_act_load2", words)

    assert cycles(machine, *busy) >= 2 * words, "both write one bank, which takes a word a cycle"
    program = program_of(machine, (*busy, transfer(machine, "load_wgt", WORDS)))
    found = simulate_cycles(program, place_regions(program.limits))
    assert found.engines["load2"].stall["port"] > 0
    assert found.retired[0] < words + 200, "the first load is not delayed by the second's beats"


def test_the_profile_says_what_passed_each_port() -> None:
    machine = two_ports()
    program = program_of(machine, (transfer(machine, "load_act_load2"), transfer(machine, "store_act", 10)))
    counters = simulate_cycles(program, place_regions(program.limits))
    first, second = profile(program, counters).axi_ports

    fetched = -(-program.limits["program"] // 4) * 4
    assert (first.users, first.read, first.written) == (("fetch", "load", "store"), fetched, 10 * 4)
    assert (second.users, second.read, second.written) == (("load2", "out2"), WORDS * 4, 0)
    assert second.share == WORDS / counters.cycles
    assert first.read + second.read == counters.dram_bytes_read
    assert counters.ports == (PortCounters(fetched, 10 * 4), PortCounters(WORDS * 4, 0))


def test_the_hardware_counts_what_passes_each_way_of_each_port() -> None:
    names = [name for name in counter_names(two_ports()) if name.startswith("port")]

    assert names == [f"port{port}.{way}" for way in ("bytes_read", "bytes_written") for port in (0, 1)]
    assert not any(name.startswith("port") for name in counter_names(load_machine("tiny8", ["counters=all"])))
    about = {register.name: register.about for register in register_map(two_ports())}
    assert about["counter.port0.bytes_read"] == "bytes of the beats read through AXI port 0, fetch included"
    assert about["counter.port1.bytes_written"] == "bytes written through AXI port 1"


@pytest.mark.slow
def test_the_simulator_is_the_hardware() -> None:
    machine, seeds = two_ports(), range(12)
    hardware = run_rtl_many(machine, random_jobs(machine, range(1), 30))

    assert all(counters.ports for _, counters in hardware)
    assert_equal(machine, random_jobs(machine, seeds, 30), seeds)


@pytest.mark.slow
def test_a_fault_on_one_port_ends_the_run_whatever_the_other_moves() -> None:
    machine, rng = two_ports(), np.random.default_rng(7)
    own = [each for each in faulty_instructions(machine) if each.engine.name in ("load2", "out2")]
    busy = transfer(machine, "load_act", 100), transfer(machine, "store_act", 60, base=100)
    programs = [program_of(machine, (*busy, each)) for each in own]
    jobs = [job(program, rng) for program in programs]

    for (program, _, bases), (_, counters) in zip(jobs, run_rtl_many(machine, jobs), strict=True):
        assert counters.fault is not None and counters.fault == PreparedProgram(program, bases).fault
    assert len(own) == 6 * len([each for each in machine.formats.values() if each.engine.name in ("load2", "out2")])


@pytest.mark.slow
@pytest.mark.parametrize("mnemonic", ["load_act_load2", "store_act_out2"])
def test_an_error_of_the_bus_is_told_of_the_instruction_on_its_port(mnemonic: str) -> None:
    """The last region lies beyond the memory's end."""
    machine, rng = two_ports(), np.random.default_rng(1)
    beyond = transfer(machine, mnemonic, 20, **{"d.region": 4})
    program = program_of(machine, (transfer(machine, "load_act", 100), beyond))
    _, dram, bases = job(program, rng)
    ((_, counters),) = run_rtl_many(machine, [(program, dram[: bases["outputs"]], bases)])

    assert counters.fault is not None
    assert (counters.fault.code, counters.fault.instruction) == (FaultCode.BUS, 1)
    assert LIMITS["outputs"] > 80
