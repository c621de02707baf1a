"""How often the clock reaches what is behind clock gates: an estimate from what a layer's instructions do.

The counts are those of instructions: vectors, tiles, iterations, beats. A register is taken to be written by everything
that passes its unit. So the estimate is rather too high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codesign.price.price import Price
from tilewright.codesign.price.units import UNITS
from tilewright.codesign.templates.facet import LayerWork
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.engine import Direction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.demands import moved_bytes
from tilewright.rtl.bus import read_channels


@dataclass(frozen=True, slots=True)
class Clocked:
    """Of a layer: flip-flops that are clocked, summed over its cycles, and gates that are open."""

    flip_flops: float
    gates: float


def clocked(price: Price, instructions: Sequence[Instruction], cycles: int) -> Clocked:
    """What the clock reaches while a layer of so many cycles runs its instructions."""
    machine = price.machine
    work = {name: _work(machine, name, instructions, cycles) for name in machine.engines}
    in_flight = {
        unit: facet_of(engine.template).cycles_in_flight(machine, engine, work[engine.name])
        for engine in machine.engines.values()
        for unit in facet_of(engine.template).units(machine, engine).values()
    }
    events = _events(machine, work, in_flight, instructions)
    flip_flops = gates = 0.0
    for unit in price.units:
        always = unit.flip_flops - unit.payload - unit.gated
        times = min(cycles, events.get(unit.name, _of_engine(unit.name, in_flight, cycles)))
        reached = unit.payload * min(cycles, in_flight.get(unit.name, cycles)) + unit.clocked * times
        flip_flops += always * cycles + reached
        if behind := unit.payload + unit.gated:
            gates += unit.clock_gates * reached / behind
    return Clocked(flip_flops, gates)


def _work(machine: Machine, engine: str, instructions: Sequence[Instruction], cycles: int) -> LayerWork:
    own = tuple(each for each in instructions if each.engine.name == engine)
    return LayerWork(own, sum(moved_bytes(each, machine) for each in own), cycles)


def _events(
    machine: Machine, work: Mapping[str, LayerWork], in_flight: Mapping[str, int], instructions: Sequence[Instruction]
) -> dict[str, int]:
    """By unit: how often something comes by that may clock what has an enable of its own."""
    bus = machine.dram.bus_bytes
    program = sum(-(-each.format.bytes // bus) for each in instructions)
    read = sum(-(-work[engine.name].moved_bytes // bus) for engine in machine.dma(Direction.IN))
    events = dict(in_flight)
    for name, own in work.items():
        events[f"queue dispatch.{name}_queue"] = 2 * len(own.instructions)  # one comes, and it goes
        events |= facet_of(machine.engines[name].template).events(machine, machine.engines[name], own)
    events[UNITS["registers"]] = 0  # the host writes them between runs
    events[UNITS["dispatch"]] = program + 2 * len(instructions)
    events |= dict.fromkeys((UNITS["fetch"], "queue fetch.buffer"), 2 * program)
    return events | {f"read channel {port or ''}".strip(): program + read for port in read_channels(machine)}


def _of_engine(unit: str, in_flight: Mapping[str, int], cycles: int) -> int:
    """Of a queue in an engine, such as `queue load.packer.beats`, what the engine's control has."""
    engine = unit.removeprefix("queue ").partition(".")[0]
    return in_flight.get(engine, in_flight.get(f"{engine} control", cycles))
