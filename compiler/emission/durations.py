"""How long each operation of a tile program takes, from the timing contract, when nothing else is in its way.

An estimate for ordering: ports are free, and DRAM is the reference memory of docs/microarchitecture.md. The cycle model
of the simulator says how long a program really takes.
"""

from __future__ import annotations

from tilewright.compiler.tile.footprint import reads_destination
from tilewright.compiler.tile.program import TileOperation, TileProgram, forms
from tilewright.isa.machine.encoding import InstructionFormat
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
