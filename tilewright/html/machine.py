"""A machine as a picture: DRAM, engines and memories, with an arrow wherever an engine reads or writes."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.html.svg import arrow, box, picture, text
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.pages.show import kib_text
from tilewright.templates.table import facet_of

LEFT, LEAST_PITCH = 180, 132
ENGINE_TOP, LEAST_WIDTH = 60, 960
DRAM_WIDTH, BOX_HEIGHT = 120, 70
LEVEL = 4
"""Between two lines above the engines."""


def machine_picture(machine: Machine) -> str:
    """The machine as SVG: engines above, memories below, DRAM beside them; wider and higher where there are many."""
    most = max(len(machine.engines), len(machine.memories))
    width = max(LEAST_WIDTH, LEFT + 20 + most * LEAST_PITCH)
    memory_top = ENGINE_TOP + LEVEL * len(machine.engines) + 154
    return picture(width, memory_top + 128, f"The machine {machine.name}", _parts(machine, width, memory_top))


def _parts(machine: Machine, width: int, memory_top: int) -> Iterator[str]:
    engines, memories = list(machine.engines.values()), list(machine.memories.values())
    step, pitch = (width - LEFT - 20) / len(engines), (width - LEFT - 20) / max(1, len(memories))
    at = {memory.name: LEFT + pitch * (number + 0.5) for number, memory in enumerate(memories)}
    top, bottom = ENGINE_TOP + LEVEL * len(engines), memory_top + BOX_HEIGHT + 18
    yield text(24, 32, f"{machine.name}: {machine.arrays_text}, {machine.lanes} lanes", "title")
    yield box(24, top, DRAM_WIDTH, bottom - top)
    yield text(84, (top + bottom) / 2 - 10, "DRAM", "title middle")
    yield text(84, (top + bottom) / 2 + 10, f"{machine.dram.bus_bytes} bytes a cycle", "small quiet middle")
    for number, engine in enumerate(engines):
        facet = facet_of(engine.template)
        centre, colour = LEFT + step * (number + 0.5), facet.colour(engine)
        yield box(centre - step / 2 + 6, top, step - 12, BOX_HEIGHT, fill=colour)
        yield text(centre, top + 28, engine.name, "title middle on")
        yield text(centre, top + 48, facet.about(engine, machine), "small middle on")
        spread = min(7, (pitch - 40) / len(engines))
        shift = spread * (number - (len(engines) - 1) / 2)
        for memory in memories:
            reads, writes = memory.name in engine.reads, memory.name in engine.writes
            high, low = (centre + shift, top + BOX_HEIGHT), (at[memory.name] + shift, memory_top)
            if reads or writes:
                yield arrow([high, low] if writes else [low, high], colour, both_ways=reads and writes)
        yield from _way_to_dram(engine, centre, number, top, colour)
    for memory in memories:
        yield box(at[memory.name] - pitch / 2 + 6, memory_top, pitch - 12, BOX_HEIGHT + 18)
        yield text(at[memory.name], memory_top + 26, memory.name, "title middle")
        yield text(at[memory.name], memory_top + 44, f"{kib_text(memory)} KiB", "small middle")
        yield text(at[memory.name], memory_top + 60, f"{memory.word_bytes} bytes a word", "small quiet middle")
        one_port = ", one port" * memory.has_one_port
        banks = f"{memory.banks} bank{'s' * (memory.banks > 1)} of {memory.depth // memory.banks:,} words{one_port}"
        yield text(at[memory.name], memory_top + 76, banks, "small quiet middle")
    legend = (
        "An arrow points from what is read to what is written. A bank reads a word and writes a word in each cycle; "
        "engines that want the same take turns."
    )
    yield text(24, bottom + 24, legend, "small quiet")


def _way_to_dram(engine: Engine, centre: float, number: int, top: int, colour: str) -> Iterator[str]:
    """A line above the engines, or straight to the side for the first one."""
    if DRAM not in (*engine.reads, *engine.writes):
        return
    level, side = top - 8 - LEVEL * number, LEFT - 18 + 2 * number
    way = [(144, top + 20 - 4 * number), (side, top + 20 - 4 * number), (side, level), (centre, level), (centre, top)]
    if number == 0:
        way = [(144, top + 35), (LEFT + 6, top + 35)]
    yield arrow(
        way if DRAM in engine.reads else way[::-1], colour, both_ways=DRAM in engine.reads and DRAM in engine.writes
    )
