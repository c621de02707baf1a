"""A machine as a picture: DRAM, engines and memories, with an arrow wherever an engine reads or writes."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.pages.show import kib_text
from tilewright.pictures.svg import arrow, box, picture, text
from tilewright.templates.table import facet_of

WIDTH = 960
ENGINE_TOP, MEMORY_TOP = 60, 230
DRAM_WIDTH, BOX_HEIGHT = 120, 70


def machine_picture(machine: Machine) -> str:
    """The machine as SVG: engines above, memories below, DRAM beside them."""
    return picture(WIDTH, MEMORY_TOP + 110, f"The machine {machine.name}", _parts(machine))


def _parts(machine: Machine) -> Iterator[str]:
    engines, memories = list(machine.engines.values()), list(machine.memories.values())
    step, pitch = (WIDTH - 200) / len(engines), (WIDTH - 200) / len(memories)
    at = {memory.name: 180 + pitch * (number + 0.5) for number, memory in enumerate(memories)}
    bottom = MEMORY_TOP + BOX_HEIGHT
    yield text(
        24,
        32,
        f"{machine.name}: {machine.arrays_text}, {machine.lanes} lanes",
        "title",
    )
    yield box(24, ENGINE_TOP, DRAM_WIDTH, bottom - ENGINE_TOP)
    yield text(84, 160, "DRAM", "title middle")
    yield text(84, 180, f"{machine.dram.bus_bytes} bytes a cycle", "small quiet middle")
    for number, engine in enumerate(engines):
        facet = facet_of(engine.template)
        centre, colour = 180 + step * (number + 0.5), facet.colour(engine)
        yield box(centre - step / 2 + 12, ENGINE_TOP, step - 24, BOX_HEIGHT, fill=colour)
        yield text(centre, ENGINE_TOP + 28, engine.name, "title middle on")
        yield text(centre, ENGINE_TOP + 48, facet.about(engine, machine), "small middle on")
        shift = 7 * (number - (len(engines) - 1) / 2)
        for memory in memories:
            reads, writes = memory.name in engine.reads, memory.name in engine.writes
            high, low = (centre + shift, ENGINE_TOP + BOX_HEIGHT), (at[memory.name] + shift, MEMORY_TOP)
            if reads or writes:
                yield arrow([high, low] if writes else [low, high], colour, both_ways=reads and writes)
        yield from _way_to_dram(engine, centre, number, colour)
    for memory in memories:
        yield box(at[memory.name] - pitch / 2 + 10, MEMORY_TOP, pitch - 20, BOX_HEIGHT)
        yield text(at[memory.name], MEMORY_TOP + 26, memory.name, "title middle")
        yield text(at[memory.name], MEMORY_TOP + 44, f"{kib_text(memory)} KiB", "small middle")
        yield text(at[memory.name], MEMORY_TOP + 60, f"{memory.depth:,} words", "small quiet middle")
    yield text(180, bottom + 28, "An arrow points from what is read to what is written.", "small quiet")


def _way_to_dram(engine: Engine, centre: float, number: int, colour: str) -> Iterator[str]:
    """A line above the engines, or straight to the side for the first one."""
    if DRAM not in (*engine.reads, *engine.writes):
        return
    level = ENGINE_TOP - 8 - 4 * number
    way = [(144, ENGINE_TOP + 20), (172, ENGINE_TOP + 20), (172, level), (centre, level), (centre, ENGINE_TOP)]
    if number == 0:
        way = [(144, ENGINE_TOP + 35), (192, ENGINE_TOP + 35)]
    yield arrow(
        way if DRAM in engine.reads else way[::-1], colour, both_ways=DRAM in engine.reads and DRAM in engine.writes
    )
