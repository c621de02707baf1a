"""The hardware of a machine against the simulator, and its vector datapath against its instructions."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.codesign.verify.verdict import Verdict, fails, holds, not_done
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.probe_model import probe_model
from tilewright.compiler.partition.probes import PROBES
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, dram_image, place_regions
from tilewright.isa.program.state import MachineState, RunCounters
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.rtl.run import run_rtl_many
from tilewright.rtl.simulation.tools import RtlError, require_tools, shared_python
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import simulate_values

SEED = 14
"""Of the programs' inputs."""

SOLVERS = {"z3": "z3-solver", "bitwuzla": "bitwuzla"}
"""The modules that proofs need, and the packages that bring them."""


def verify_hardware(machine: Machine) -> Verdict:
    """Run programs of one operator each on the hardware and in the simulator: every byte, every cycle."""
    try:
        require_tools()
        shared_python()
    except RtlError as error:
        return not_done(str(error))
    programs = dict(operator_programs(machine))
    images = {name: _image(program, name) for name, program in programs.items()}
    jobs = [(program, images[name], place_regions(program.limits)) for name, program in programs.items()]
    try:
        runs = run_rtl_many(machine, jobs)
    except RtlError as error:
        return fails(str(error))
    for (name, program), (_, dram, bases), (state, counters) in zip(programs.items(), jobs, runs, strict=True):
        found = difference(simulate_values(program, dram, bases), simulate_cycles(program, bases), state, counters)
        if found:
            return fails(f"{name}: {found}")
    used = {instruction.mnemonic for program in programs.values() for instruction in program.instructions}
    return holds(
        f"{len(programs)} programs of one operator each, with {len(used)} of the machine's {len(machine.formats)} "
        "instructions"
    )


def operator_programs(machine: Machine) -> Iterator[tuple[str, Program]]:
    """A program for each operator that the machine runs, in the first form that it runs, by the operator's name."""
    done = set[str]()
    for probe in PROBES:
        if probe.operator in done:
            continue
        try:
            program = compile_model(probe_model(probe, DEFAULT_TYPE.name), machine, Options(effort=0))
        except CompileError:
            continue  # the host would run it
        done.add(probe.operator)
        yield probe.operator, program


def _image(program: Program, name: str) -> NDArray[np.uint8]:
    rng = np.random.default_rng([SEED, *name.encode()])
    return dram_image(program, rng.bytes(program.input_bytes))


def difference(state: MachineState, counters: RunCounters, hardware: MachineState, measured: RunCounters) -> str:
    """The first thing in which the hardware differs from the simulator; nothing if it differs in none."""
    if measured.fault is not None:
        return f"the hardware stops with {measured.fault}"
    for name, stored in {**state.memories, "DRAM": state.dram}.items():
        other = hardware.dram if name == "DRAM" else hardware.memories[name]
        unequal = int(np.count_nonzero(stored != other))
        if unequal:
            return f"{unequal:,} bytes of {name} differ"
    if counters.cycles != measured.cycles:
        return f"{measured.cycles:,} cycles on the hardware, {counters.cycles:,} in the simulator"
    for what, own, other_times in (
        ("start", counters.started, measured.started),
        ("end", counters.retired, measured.retired),
    ):
        if own.tolist() != other_times.tolist():
            return f"instructions {what} in other cycles"
    return ""


def verify_datapath(machine: Machine) -> Verdict:
    """Prove each vector instruction's hardware, for all inputs, by an SMT solver."""
    for module, package in SOLVERS.items():
        if importlib.util.find_spec(module) is None:
            return not_done(f"proofs need {module}, not installed here; install it: pip install {package}")
    try:
        require_tools()
    except RtlError as error:
        return not_done(str(error))
    from tilewright.rtl.proof.datapath import prove_datapath

    proofs = [proof for engine in machine.of(Template.VECTOR) for proof in prove_datapath(machine, engine)]
    for proof in proofs:
        if not proof.holds:
            return fails(f"{proof.claim}: {proof.counterexample}")
    return holds(f"{len(proofs)} proofs")
