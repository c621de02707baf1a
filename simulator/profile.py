"""The profile of a program: what its run cost and why, from the counters and the trace of the run.

What each field means is in docs/profile.md. The counters may come from the cycle model or from the hardware.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import FETCH_PORT, Machine
from tilewright.isa.pages.show import port_users
from tilewright.isa.program.program import Layer, Program
from tilewright.isa.program.state import PortCounters, RunCounters
from tilewright.isa.templates.table import works_of
from tilewright.isa.templates.work import Work
from tilewright.simulator.cycle_owners import IDLE, cycle_owners, in_flight_order, loss_of
from tilewright.simulator.losses import Loss
from tilewright.simulator.run_profile import DramBytes, LayerProfile, PortTraffic, Resource, RunProfile


def profile(program: Program, counters: RunCounters) -> RunProfile:
    """The profile of a run. The layers' cycles and each engine's add up to `cycles`."""
    machine = program.machine
    works, fetched = list(works_of(machine, program.instructions)), _fetched_beats(program)
    layers = _layer_profiles(program, counters, works, fetched)
    array_macs = sum(layer.array_macs for layer in layers)
    return RunProfile(
        isa=machine.name,
        cycles=counters.cycles,
        macs=sum(layer.macs for layer in layers),
        array_macs=array_macs,
        utilisation=utilisation(array_macs, counters.cycles, machine),
        bound_cycles=_bound_cycles(machine, works, sum(fetched)),
        dram_bytes=DramBytes(counters.dram_bytes_read, counters.dram_bytes_written),
        layers=layers,
        engines=counters.engines,
        axi_ports=_ports(machine, works, sum(fetched), counters),
    )


def _bound_cycles(machine: Machine, works: Sequence[Work], fetched: int) -> dict[Resource, int]:
    """What may bound instructions of so many beats from below, in cycles; of equal ones the first counts.

    Engines of a kind share their work; each AXI port moves what its own ask for.
    """
    arrays, vectors = max(1, len(machine.of(Template.SYSTOLIC))), max(1, len(machine.of(Template.VECTOR)))
    return {
        Resource.COMPUTE: -(-sum(work.vectors for work in works) // arrays),
        Resource.DRAM: max(max(ways) for ways in _port_beats(machine, works, fetched)),
        Resource.VECTOR: -(-sum(work.iterations for work in works) // vectors),
        Resource.WEIGHTS: -(-sum(work.weight_rows for work in works) // arrays),
    }


def _port_beats(machine: Machine, works: Sequence[Work], fetched: int) -> list[tuple[int, int]]:
    """For each AXI port the beats of instructions, read and written; their own fetch is included."""
    reads, writes = ([0] * machine.dram.ports for _ in range(2))
    reads[FETCH_PORT] += fetched
    for work in works:
        reads[work.port] += work.read_beats
        writes[work.port] += work.write_beats
    return list(zip(reads, writes, strict=True))


def _ports(machine: Machine, works: Sequence[Work], fetched: int, counters: RunCounters) -> tuple[PortTraffic, ...]:
    """What passes each port, if there are several: as counted, or as the program says where nothing counts it."""
    if machine.dram.ports == 1:
        return ()
    written = [0] * machine.dram.ports
    for work in works:
        written[work.port] += work.bytes_written
    beats, users = _port_beats(machine, works, fetched), port_users(machine)
    said = [PortCounters(reads * machine.dram.bus_bytes, own) for own, (reads, _) in zip(written, beats, strict=True)]
    return tuple(
        PortTraffic(tuple(who), port.bytes_read, port.bytes_written, max(both) / max(1, counters.cycles))
        for who, port, both in zip(users, counters.ports or said, beats, strict=True)
    )


def _fetched_beats(program: Program) -> list[int]:
    """Of each instruction, the beats of the program that begin in it: a beat may end in another."""
    sizes = (instruction.format.bytes for instruction in program.instructions)
    begun = [-(-place // program.machine.dram.bus_bytes) for place in accumulate(sizes, initial=0)]
    return [after - before for before, after in pairwise(begun)]


def _bound(bounds: Mapping[Resource, int]) -> Resource:
    return max(bounds, key=lambda resource: bounds[resource]) if any(bounds.values()) else Resource.NONE


def utilisation(array_macs: int, cycles: int, machine: Machine) -> float:
    """The share of the arrays' places that multiply what the network asks for, over these cycles."""
    places = cycles * machine.products_a_cycle
    return array_macs / places if places else 0.0


# -- layers ------------------------------------------------------------------------------------------------------------


def _layer_profiles(
    program: Program, counters: RunCounters, works: Sequence[Work], fetched: Sequence[int]
) -> tuple[LayerProfile, ...]:
    layers = layers_of(program)
    of_layer = instructions_of_layers(program, layers)
    cycles_by_engine = cycle_owners(program, of_layer, counters).cycles(len(layers)).tolist()
    return tuple(
        _layer_profile(program.machine, layer, [works[n] for n in indices], sum(fetched[n] for n in indices), by_engine)
        for layer, indices, by_engine in zip(layers, of_layer, cycles_by_engine, strict=True)
    )


def _layer_profile(
    machine: Machine, layer: Layer, works: Sequence[Work], fetched: int, by_engine: Sequence[int]
) -> LayerProfile:
    """Of a layer whose instructions ask for these works and are so many beats; `by_engine` as `_loss` has it."""
    cycles, array_macs = sum(by_engine), _array_macs(machine, layer, works)
    bounds = _bound_cycles(machine, works, fetched)
    return LayerProfile(
        name=layer.name,
        nodes=tuple(layer.nodes),
        cycles=cycles,
        macs=layer.macs,
        array_macs=array_macs,
        utilisation=utilisation(array_macs, cycles, machine),
        dram_bytes=DramBytes(
            sum(reads for reads, _ in _port_beats(machine, works, fetched)) * machine.dram.bus_bytes,
            sum(work.bytes_written for work in works),
        ),
        bound_cycles=bounds,
        bound=_bound(bounds),
        loss=_loss(machine, array_macs, works, by_engine),
    )


def layers_of(program: Program) -> tuple[Layer, ...]:
    """A program's layers. One without, such as hand-written assembly, is one: every place of the array is a product."""
    if program.layers:
        return program.layers
    machine = program.machine
    vectors = sum(work.vectors for work in works_of(machine, program.instructions))
    return (Layer(name="program", first_instruction=0, nodes=(), macs=_most_macs(machine, vectors)),)


def instructions_of_layers(program: Program, layers: Sequence[Layer]) -> list[list[int]]:
    """The instructions that serve each layer: by provenance, otherwise up to where the next layer begins."""
    found: list[list[int]] = [[] for _ in layers]
    if len(program.provenance) == len(program.instructions) and program.layers:
        for index, position in enumerate(program.provenance):
            found[position].append(index)
        return found
    firsts = [*(layer.first_instruction for layer in layers), len(program.instructions)]
    firsts[0] = 0  # what comes before the first layer prepares for it
    return [list(range(first, following)) for first, following in zip(firsts, firsts[1:], strict=False)]


def _array_macs(machine: Machine, layer: Layer, works: Sequence[Work]) -> int:
    """Those of a layer's products that the array computes, at most one in each place for each vector.

    A layer without vectors computes its products elsewhere: a depthwise convolution on the vector engine.
    """
    return min(layer.macs, _most_macs(machine, sum(work.vectors for work in works)))


def _most_macs(machine: Machine, vectors: int) -> int:
    """Products of as many vectors, with every place of an array in use."""
    arrays = len(machine.of(Template.SYSTOLIC))
    return vectors * machine.products_a_cycle // arrays if arrays else 0


def _loss(machine: Machine, array_macs: int, works: Sequence[Work], by_engine: Sequence[int]) -> dict[Loss, float]:
    """Cycles beyond those of full arrays, by cause: together, all but array_macs / products a cycle; none is negative.

    `by_engine` are the layer's cycles by engine, as `in_flight_order` has them, then the idle ones.
    """
    vectors = sum(work.vectors for work in works) / max(1, len(machine.of(Template.SYSTOLIC)))
    loss = dict.fromkeys(Loss, 0.0)
    loss[Loss.EDGE] = vectors - (array_macs / machine.products_a_cycle if array_macs else 0.0)
    for engine, cycles in zip(in_flight_order(machine), by_engine, strict=False):
        loss[loss_of(engine)] += float(cycles)
    loss[Loss.ARRAY] -= vectors
    loss[Loss.IDLE] = float(by_engine[IDLE])
    return loss
