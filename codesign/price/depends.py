"""What the hardware of a part depends on, for those parts of which this is little: equal facts make equal hardware.

Each part is listed with all that its ports and its `elaborate` read; what stands here too much costs time, what is
missing gives wrong counts. The tests change each key of each shipped machine, and compare with counts of all of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import singledispatch

from amaranth.hdl import Shape
from amaranth.lib import wiring

from tilewright.codesign.price.parts import ProcessingElement
from tilewright.isa.machine.encoding import OPCODE, Operand
from tilewright.isa.machine.memory import DRAM
from tilewright.rtl.arbiter import Arbiter
from tilewright.rtl.beats import Window
from tilewright.rtl.bus import ReadChannel
from tilewright.rtl.counters import Counters
from tilewright.rtl.datapath import VectorDatapath, result_bits, source_bits, table_address_bits
from tilewright.rtl.fetch import Fetch
from tilewright.rtl.fifo import BlockFifo, Fifo
from tilewright.rtl.lane_tree import LaneTree
from tilewright.rtl.memory import BankedMemory
from tilewright.rtl.nest import NestWalker, Walk
from tilewright.rtl.table_memory import TableMemory


@singledispatch
def facts_of(part: wiring.Component) -> Hashable:
    """All that the part depends on, beside its class; None if that is not known here."""
    return None


@facts_of.register
def _(part: Arbiter) -> Hashable:
    return part.count, part.privileged


@facts_of.register
def _(part: Window) -> Hashable:
    return part.beat_bytes, part.put_step, part.take_step


@facts_of.register
def _(part: ReadChannel) -> Hashable:
    return (part.bus_bytes,)


@facts_of.register
def _(part: Fetch) -> Hashable:
    return part.bus_bytes, part.buffer_beats, part.limit_bits


@facts_of.register(Fifo)
@facts_of.register(BlockFifo)
def _(part: Fifo | BlockFifo) -> Hashable:
    return repr(part.shape), part.depth


@facts_of.register
def _(part: Counters) -> Hashable:
    machine = part.machine
    engines = tuple((engine.name, engine.number, engine.template) for engine in machine.engines.values())
    return machine.counting, engines, machine.dram.bus_bytes


@facts_of.register
def _(part: BankedMemory) -> Hashable:
    return part.memory, part.reads, part.writes


@facts_of.register
def _(part: TableMemory) -> Hashable:
    return part.memory, part.writes


@facts_of.register
def _(part: NestWalker) -> Hashable:
    names = {operand.memory for walk in part.walks for operand in walk.operands.values()}
    memories = tuple(part.machine.memories[name] for name in sorted(names - {DRAM}))
    offset_bits = part.machine.dram.offset_bits if DRAM in names else None
    return part.machine.instruction_bytes, offset_bits, memories, tuple(_of_walk(walk) for walk in part.walks)


def _of_walk(walk: Walk) -> Hashable:
    """Its loops and operands by their names and in their order, and the place of each field that is read."""
    format = walk.format
    operands = tuple((slot, each.name, each.memory, each.loops, each.block) for slot, each in walk.operands.items())
    fields = [OPCODE, *(f"trip.{loop.name}" for loop in walk.loops)]
    fields += [name for operand in walk.operands.values() for name in _fields_of(walk, operand)]
    places = tuple((format.field(name).low_bit, format.field(name).type) for name in fields)
    groups = tuple((name, tuple(sorted(loops))) for name, loops in walk.groups.items())
    return format.opcode, walk.loops, operands, places, groups


def _fields_of(walk: Walk, operand: Operand) -> list[str]:
    strided = (loop.name for loop in walk.loops if loop.name in operand.loops)
    return [f"{operand.name}.{name}" for name in ("base", *strided)]


@facts_of.register
def _(part: VectorDatapath) -> Hashable:
    """All of the formats but for the places of their fields; of the memories, the widths of words and of addresses."""
    machine = part.machine
    found = [machine.memories[name] for name in machine.table_memories]
    tables = [(memory.name, memory.address_bits, memory.element) for memory in found]
    widths = (machine.vector.lanes, source_bits(machine), table_address_bits(machine), result_bits(machine), tables)
    formats = [
        (of.mnemonic, of.opcode, of.sources, of.destination, of.immediates, of.has_accumulate, of.statement)
        for of in part.formats
    ]
    return repr((widths, formats))


@facts_of.register
def _(part: LaneTree) -> Hashable:
    return part.op, part.stages, repr(part.values.shape()), repr(Shape.cast(part.result.shape()))


@facts_of.register
def _(part: ProcessingElement) -> Hashable:
    return part.row, part.selects, part.array.product, repr(part.activation.shape()), repr(part.weight.shape())
