"""What the hardware of a part depends on, for those parts of which this is little: equal facts make equal hardware.

Each part is listed with all that its ports and its `elaborate` read; what stands here too much costs time, what is
missing gives wrong counts. The tests change each key of each shipped machine, and compare with counts of all of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import singledispatch

from amaranth.hdl import Shape
from amaranth.lib import wiring

from tilewright.codesign.price.parts import ProcessingElement
from tilewright.isa.machine.encoding import OPCODE, InstructionFormat, Operand
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.dma import dram_operand, moved_word_bytes
from tilewright.isa.templates.vector import ROWS
from tilewright.isa.timing import can_be_refused
from tilewright.rtl.arbiter import Arbiter
from tilewright.rtl.beats import Window
from tilewright.rtl.bus import ReadChannel, id_bits
from tilewright.rtl.counters import Counters, bus_channels
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.datapath_widths import looked_up, result_bits, source_bits, table_address_bits
from tilewright.rtl.dispatch import Dispatch
from tilewright.rtl.fetch import Fetch
from tilewright.rtl.fifo import BlockFifo, Fifo
from tilewright.rtl.interfaces import index_bits
from tilewright.rtl.lane_tree import LaneTree
from tilewright.rtl.load import LoadEngine
from tilewright.rtl.memory import BankedMemory
from tilewright.rtl.mma import MmaEngine
from tilewright.rtl.nest import FormatWalk, NestWalker
from tilewright.rtl.nest_ahead import NestAhead
from tilewright.rtl.ports import read_ports, write_ports
from tilewright.rtl.registers import Registers, isa_hash_word
from tilewright.rtl.runs import Bursts
from tilewright.rtl.store import StoreEngine
from tilewright.rtl.table_memory import TableMemory
from tilewright.rtl.vector import VectorEngine


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
    return part.bus_bytes, part.clients


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
    return machine.counting, engines, machine.dram.bus_bytes, bus_channels(machine)


@facts_of.register
def _(part: Registers) -> Hashable:
    return part.map, part.machine.dram.offset_bits, isa_hash_word(part.machine)


@facts_of.register
def _(part: BankedMemory) -> Hashable:
    return part.memory, part.reads, part.writes, part.pipeline


@facts_of.register
def _(part: TableMemory) -> Hashable:
    return part.memory, part.writes, part.lanes, part.has_enable


@facts_of.register
def _(part: NestWalker) -> Hashable:
    names = {operand.memory for walk in part.walks for operand in walk.operands.values()}
    found = [part.machine.memories[name] for name in sorted(names - {DRAM})]
    memories = tuple((memory.name, memory.depth, memory.stretch_words) for memory in found)
    offset_bits = part.machine.dram.offset_bits if DRAM in names else None
    return (
        part.machine.clock_gating,
        part.machine.longest_instruction_bytes,
        offset_bits,
        memories,
        tuple(_of_walk(walk) for walk in part.walks),
    )


@facts_of.register
def _(part: NestAhead) -> Hashable:
    return facts_of(part.walker), index_bits(part.machine)


def _of_walk(walk: FormatWalk) -> Hashable:
    """Its loops and operands by their names and in their order, and the place of each field that is read."""
    format = walk.format
    operands = tuple((slot, each.name, each.memory, each.loops, each.block) for slot, each in walk.operands.items())
    fields = [OPCODE, *(f"trip.{loop.name}" for loop in walk.loops if loop.name not in walk.counts)]
    fields += [name for operand in walk.operands.values() for name in _fields_of(walk, operand)]
    places = _places(format, fields)
    groups = tuple((name, tuple(sorted(loops))) for name, loops in walk.groups.items())
    return format.opcode, walk.loops, operands, places, groups, tuple(walk.counts.items())


def _fields_of(walk: FormatWalk, operand: Operand) -> list[str]:
    strided = (loop.name for loop in walk.loops if loop.name in operand.loops and loop.name != ROWS)
    return [f"{operand.name}.{name}" for name in ("base", *strided)]


def _places(format: InstructionFormat, names: Iterable[str]) -> Hashable:
    return tuple((format.field(name).low_bit, format.field(name).type) for name in names)


@facts_of.register
def _(part: Bursts) -> Hashable:
    """What its walker depends on, and of each format the region and the bytes of a word."""
    regions = tuple(_places(each, [f"{dram_operand(each).name}.region"]) for each in part.formats)
    words = tuple(moved_word_bytes(each, part.machine) for each in part.formats)
    return facts_of(part.walker), regions, words, index_bits(part.machine), part.bus_bytes


@facts_of.register
def _(part: Dispatch) -> Hashable:
    """What its queues keep, how long the instructions are, and where each format has its opcode and waits."""
    machine = part.machine
    engines = tuple(
        (each.name, each.queue_depth, tuple(of.opcode for of in machine.formats_of(each))) for each in part.engines
    )
    waits = tuple(_places(each, [f"wait.{name}" for name in machine.engines]) for each in machine.formats.values())
    lengths = tuple(sorted((of.opcode, of.bytes) for of in machine.formats.values()))
    return machine.pipeline, engines, tuple(part.kept), waits, machine.wait_bits, lengths, machine.dram.bus_bytes


@facts_of.register
def _(part: LoadEngine) -> Hashable:
    return _of_engine(part.machine, part.engine)


@facts_of.register
def _(part: StoreEngine) -> Hashable:
    """Its port's address channel has an ID, which it leaves at 0."""
    return _of_engine(part.machine, part.engine), id_bits(part.machine, part.engine.dma.port)


@facts_of.register(MmaEngine)
@facts_of.register(VectorEngine)
def _(part: MmaEngine | VectorEngine) -> Hashable:
    return _of_engine(part.machine, part.engine)


def _of_engine(machine: Machine, engine: Engine) -> Hashable:
    """Its settings, its formats and its ports, with all of the memories that these name: more than it reads."""
    formats = machine.formats_of(engine)
    names = {operand.memory for format in formats for operand in format.operands}
    memories = tuple(memory for memory in machine.memories.values() if memory.name in names)
    ports = tuple(
        (port.member, port.memory, port.requester)
        for port in (*read_ports(machine), *write_ports(machine))
        if port.engine is engine
    )
    sizes = machine.dram, machine.longest_instruction_bytes, machine.wait_bits, len(machine.engines)
    own = engine.name, engine.settings, engine.pipeline, machine.clock_gating
    return *own, memories, ports, sizes, tuple(_of_format(machine, each) for each in formats)


def _of_format(machine: Machine, format: InstructionFormat) -> Hashable:
    loops, operands, immediates = format.loops, format.operands, tuple(format.immediates.items())
    meaning = format.mnemonic, format.opcode, format.statement, format.has_accumulate, can_be_refused(machine, format)
    return meaning, loops, operands, immediates, format.fields


@facts_of.register
def _(part: VectorDatapath) -> Hashable:
    """All of the formats but for the places of their fields; of the memories, the widths of words and of addresses."""
    machine, engine = part.machine, part.engine
    found = [machine.memories[name] for name in looked_up(machine, engine)]
    tables = [(memory.name, memory.address_bits, memory.element) for memory in found]
    widths = (
        *(engine.vector.lanes, engine.vector.parts, source_bits(machine, engine)),
        *(
            table_address_bits(machine, engine),
            result_bits(machine, engine),
            tables,
            machine.clock_gating,
            engine.pipeline,
        ),
    )
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
    array = part.array
    return (
        part.row,
        part.selects,
        array.product,
        array.product_registers,
        repr(part.activation.shape()),
        repr(part.weight.shape()),
    )
