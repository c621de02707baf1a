"""One network on one machine: compiled, checked, timed by the cycle model without values, with its energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

from tilewright.codesign.points.machine import machine_key
from tilewright.codesign.points.network import Network
from tilewright.codesign.price.energy import LayerEnergy, energy_of_layers
from tilewright.codesign.price.price import Price
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, Partitioned
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.errors import SimulatorError
from tilewright.simulator.profile import profile, utilisation
from tilewright.simulator.run_profile import LayerProfile, RunProfile

PJ_IN_MJ = 1e9


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """What a network takes on a machine, as plain figures.

    The cycles are the machine's own: those nodes that run on the host take time that is not in them. Energies are None
    where no price was given, on chip also in a process that has no figures for logic or for one of the memories that
    the network accesses: these are `unmeasured`. Of the memories in `estimated` the energy is estimated, which may be
    `estimated_error_mj` of the sum.
    """

    network: str
    network_hash: str
    machine: str
    machine_key: str
    effort: int
    cycles: int
    macs: int
    utilisation: float
    dram_bytes: int
    on_chip_mj: float | None
    dram_mj: float | None  # by the process's assumption for a byte
    host_nodes: int
    instructions: int
    program_bytes: int
    compile_seconds: float  # of the processor, the checker's included
    unmeasured: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    estimated_error_mj: float = 0.0
    images: int = 1  # of a run, whose cycles, bytes and energies all others are

    @property
    def cycles_per_image(self) -> float:
        """Throughput: those of a run, which are latency, divided by its images."""
        return self.cycles / self.images

    @property
    def mj_per_image(self) -> float | None:
        """On chip and of DRAM; None where one of them is not known."""
        if self.on_chip_mj is None or self.dram_mj is None:
            return None
        return (self.on_chip_mj + self.dram_mj) / self.images

    def as_json(self) -> dict[str, Any]:
        """By name; `images` only of a batch, so that figures of before have the same keys."""
        found = asdict(self)
        return found if self.images > 1 else {name: value for name, value in found.items() if name != "images"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there are no figures of a network on a machine."""

    network: str
    network_hash: str
    machine: str
    machine_key: str
    effort: int
    stage: str  # a row of STAGES, or `limit` where something outside stopped it
    reason: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Outcome = NetworkFigures | Failure

STAGES: Mapping[str, tuple[type[Exception], ...]] = {
    "compile": (CompileError,),
    "check": (IsaError,),
    "simulate": (SimulatorError,),
}
"""Where a point may end, with the errors that end it there; others are defects of ours."""


def outcome_from_json(value: Mapping[str, Any]) -> Outcome:
    """What `as_json` gave."""
    if "stage" in value:
        return Failure(**value)
    names = {key: tuple(value.get(key, ())) for key in ("unmeasured", "estimated")}
    return NetworkFigures(**{**value, **names})


@dataclass(frozen=True)
class MeasuredNetwork:
    """The programs of a network on a machine, with the profile of a run of each."""

    network: Network
    machine: Machine
    effort: int
    programs: tuple[Program, ...]
    profiles: tuple[RunProfile, ...]
    host_nodes: tuple[HostNode, ...]
    compile_seconds: float
    images: int = 1

    def layers(self) -> list[LayerProfile]:
        """The profiles of all programs' layers."""
        return [layer for each in self.profiles for layer in each.layers]


def evaluate(network: Network, machine: Machine, effort: int = 1, price: Price | None = None) -> Outcome:
    """The figures of a network on a machine, or why there are none; with a `price`, with energy.

    Deterministic but for `compile_seconds`. What a search finds for an effort above 0 is kept in the user's cache.
    """
    found = measure(network, machine, effort)
    return found if isinstance(found, Failure) else figures(found, price)


def measure(network: Network, machine: Machine, effort: int = 1) -> MeasuredNetwork | Failure:
    """Compile a network, which includes the checker, and run its programs in the cycle model.

    A network without instructions, wholly the host's, is a failure.
    """
    start = process_time()
    try:
        compiled = compile_partitioned(
            network.content,
            machine,
            Options(shapes=network.shapes, batch=network.batch, effort=effort),
            session=network.session,
        )
        seconds = process_time() - start
        programs = compiled.programs if isinstance(compiled, Partitioned) else (compiled,)
        profiles = tuple(profile(each, simulate_cycles(each, place_regions(each.limits))) for each in programs)
    except (CompileError, IsaError, SimulatorError) as error:
        return failure(network, machine, effort, stage_of(error), str(error).splitlines()[0])
    host_nodes = compiled.host_nodes if isinstance(compiled, Partitioned) else ()
    if not any(program.instructions for program in programs):
        return failure(network, machine, effort, "compile", _why_none(host_nodes))
    return MeasuredNetwork(network, machine, effort, programs, profiles, host_nodes, seconds, compiled.images or 1)


def _why_none(host_nodes: Sequence[HostNode]) -> str:
    """Why a network has no instruction: then there is nothing to time, and its 0 cycles would be the best of all."""
    reasons = [f": {node.reason.splitlines()[0]}" for node in host_nodes[:1]]
    return f"the machine runs no part of the network{''.join(reasons)}"


def stage_of(error: Exception) -> str:
    return next(stage for stage, errors in STAGES.items() if isinstance(error, errors))


def failure(network: Network, machine: Machine, effort: int, stage: str, reason: str) -> Failure:
    return Failure(network.name, network.hash, machine.name, machine_key(machine), effort, stage, reason)


def figures(found: MeasuredNetwork, price: Price | None = None) -> NetworkFigures:
    """The figures of what was measured; with a `price`, with energy."""
    machine = found.machine
    cycles = sum(each.cycles for each in found.profiles)
    array_macs = sum(each.array_macs for each in found.profiles)
    instructions = sum(len(program.instructions) for program in found.programs)
    energies = None if price is None else _energies(found, price)
    estimated, error = ((), 0.0) if energies is None or price is None else _estimated(energies, price)
    return NetworkFigures(
        network=found.network.name,
        network_hash=found.network.hash,
        machine=machine.name,
        machine_key=machine_key(machine),
        effort=found.effort,
        cycles=cycles,
        macs=sum(each.macs for each in found.profiles),
        utilisation=utilisation(array_macs, cycles, machine),
        dram_bytes=sum(each.dram_bytes.moved for each in found.profiles),
        on_chip_mj=None if energies is None else _on_chip_mj(energies),
        dram_mj=None if energies is None else sum(layer.dram_pj for layer in energies) / PJ_IN_MJ,
        host_nodes=len(found.host_nodes),
        instructions=instructions,
        program_bytes=sum(program.limits["program"] for program in found.programs),
        compile_seconds=found.compile_seconds,
        unmeasured=() if energies is None else _unmeasured(energies),
        estimated=estimated,
        estimated_error_mj=error,
        images=found.images,
    )


def _energies(found: MeasuredNetwork, price: Price) -> list[LayerEnergy]:
    return [
        layer
        for program, each in zip(found.programs, found.profiles, strict=True)
        for layer in energy_of_layers(price, program, each, price.process.dram_pj_per_byte)
    ]


def _on_chip_mj(layers: Sequence[LayerEnergy]) -> float | None:
    """Of logic and memories; None where one of them is not known: such a sum would be less than it is."""
    total = 0.0
    for layer in layers:
        if layer.logic_pj is None or layer.memory_pj is None:
            return None
        total += layer.memory_pj + sum(layer.logic_pj.values())
    return total / PJ_IN_MJ


def _unmeasured(layers: Sequence[LayerEnergy]) -> tuple[str, ...]:
    names = (name for layer in layers for name, energy in layer.memories_pj.items() if energy is None)
    return tuple(dict.fromkeys(names))


def _estimated(layers: Sequence[LayerEnergy], price: Price) -> tuple[tuple[str, ...], float]:
    """The memories in the sum whose energy is estimated, and how many mJ that may be off."""
    names, error = [], 0.0
    for memory in price.memories:
        total = sum(layer.memories_pj.get(memory.name) or 0.0 for layer in layers)
        if memory.is_energy_estimated and total:
            names.append(memory.name)
            error += memory.energy_error * total / PJ_IN_MJ
    return tuple(names), error
