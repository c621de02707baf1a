"""How long each operation of a tile program takes if nothing else is in its way; by that, when to start each load.

An estimate for ordering, from the timing contract: ports are free, and DRAM is the reference memory of
docs/microarchitecture.md. The cycle model of the simulator says how long a program really takes.

A load should start neither so late that its reader waits, nor so early that it fills the memory. All other engines are
taken to run as fast as they can, with every load at once. That gives the cycle in which each load's words are needed.
Backwards from there, one load before the other, it gives the latest start of each: its engine takes one after the
other, and so do the beats of all engines on one AXI port. Where DMA is slower than the rest, the latest starts pile up
towards the front, and loads run ahead as far as memory allows.

Example: three loads of 100 cycles, needed in cycles 500, 520 and 900, must start by 320, 420 and 800. If another
engine has the first, on the same port, and 60 of its cycles are beats, it must start by 360; on a port of its own, by
400.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.compiler.emission.dependences import Dependences
from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.tile.footprint import reads_destination
from tilewright.compiler.tile.program import TileOperation, TileProgram, forms
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.dma import dram_period
from tilewright.isa.templates.table import facet_of
from tilewright.isa.templates.work import Task, Work


def durations(program: TileProgram) -> list[Work]:
    """The work of every operation, in program order: how long it is busy, and until when it is complete."""
    machine, known = program.machine, dict[tuple[int, int], Work]()  # by form and place
    facets = {name: (format, facet_of(format.engine.template)) for name, format in machine.formats.items()}
    period = dram_period(machine)
    found = []
    for operation, form in zip(program.operations, program.of_each(forms), strict=True):
        format, facet = facets[operation.mnemonic]
        place = 0
        if format.in_dram is not None:
            base = operation.bases[format.in_dram.name]
            place = (base.offset + (program.buffers[base.buffer].offset or 0)) % period
        work = known.get((form, place))
        if work is None:
            work = known[form, place] = facet.work(machine, _task(format, operation, place))
        found.append(work)
    return found


def _task(format: InstructionFormat, operation: TileOperation, place: int) -> Task:
    fields, outside = operation.fields, format.in_dram
    trips = tuple([fields.get(f"trip.{loop.name}", 1) for loop in format.loops])
    strides = () if outside is None else tuple([fields.get(f"{outside.name}.{loop.name}", 0) for loop in format.loops])
    return Task(format, trips, reads_destination(format, operation), place, strides)


EARLY_ROUND_TRIPS = 8
"""A load starts earlier than it must by so many accesses to DRAM: room for what the plan does not know."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`loads` as their words are needed; by operation, its planned start, and of a load the first cycle for it."""

    loads: tuple[int, ...]
    starts: Sequence[int]
    from_cycle: Sequence[int]


def fills(engine: Engine) -> bool:
    """Whether an engine fills memories from DRAM: its operations, the loads, may change their order."""
    return DRAM in engine.reads


def plan_loads(
    engines: Sequence[Engine], durations: Sequence[Work], before: Dependences, round_trip: int
) -> LoadPlan:  # fmt: skip
    """The plan for operations in program order; `round_trip` is the time of one access to DRAM."""
    starts = starts_in_order(engines, durations, before)
    needed = _needed(engines, starts, before)
    loads = sorted((i for i, engine in enumerate(engines) if fills(engine)), key=lambda i: (needed[i], i))
    from_cycle = [0] * len(engines)
    latest, of_port = dict.fromkeys(engines, NEVER), defaultdict[int, int](lambda: NEVER)
    for index in reversed(loads):
        if needed[index] == NEVER:  # nobody reads it, and what stands behind it may wait for its turn
            continue
        engine, taken = engines[index], durations[index]
        start = min(latest[engine], needed[index] - round_trip) - taken.busy
        latest[engine] = of_port[taken.port] = min(start, of_port[taken.port] - taken.read_beats)
        from_cycle[index] = latest[engine] - EARLY_ROUND_TRIPS * round_trip
    return LoadPlan(tuple(loads), starts, from_cycle)


def starts_in_order(engines: Sequence[Engine], durations: Sequence[Work], before: Dependences) -> list[int]:
    """The cycle in which each operation starts if loads take no turns and memories have no end."""
    free = dict.fromkeys(engines, 0)
    starts, ends = [0] * len(engines), [0] * len(engines)
    for index, engine in enumerate(engines):
        ready = max((ends[earlier] for earlier in before.completed[index]), default=0)
        starts[index] = ready if fills(engine) else max(ready, free[engine])
        free[engine] = starts[index] + durations[index].busy
        ends[index] = starts[index] + durations[index].complete
    return starts


def _needed(engines: Sequence[Engine], starts: Sequence[int], before: Dependences) -> list[int]:
    """The cycle in which an operation's words are first needed by one of another engine, also by way of other loads."""
    needed = [NEVER if fills(engine) else start for engine, start in zip(engines, starts, strict=True)]
    for index in reversed(range(len(engines))):
        for earlier in (*before.completed[index], *before.started[index]):
            if fills(engines[earlier]):
                needed[earlier] = min(needed[earlier], needed[index])
    return needed
