"""A DMA engine's bursts: inside 4 KiB and the region, as long as they may be, together a run's bytes in order."""

from __future__ import annotations

import z3

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.templates.dma import chip_operand, dram_operand
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.bus import ADDRESS_BITS
from tilewright.rtl.proof.engine import INDUCTIVE
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.nest import walker_claims
from tilewright.rtl.proof.netlist import NetlistRun, netlist
from tilewright.rtl.proof.numbers import natural, number, signed
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.runs import Bursts

METHOD = f"{INDUCTIVE}, regions that stay, a start only when free"


def bursts_of(machine: Machine, engine: Engine) -> Subject:
    """The bursts of an engine that moves between DRAM and memories, and the walker of its runs."""
    bursts = Bursts(machine, machine.formats_of(engine))
    claims = [
        Claim(f"bursts of {engine}: legal", METHOD, lambda run: legal_goals(machine, bursts, run)),
        Claim(f"bursts of {engine}: inside their regions", METHOD, lambda run: region_goals(machine, run)),
        Claim(f"bursts of {engine}: cover a run in order", METHOD, lambda run: cover_goals(machine, bursts, run)),
    ]
    return Subject(netlist(bursts), [*claims, *walker_claims(bursts.walker, f"{engine} runs", "walker.")])


def offset_of(run: NetlistRun, cycle: int = 0) -> z3.BitVecRef:
    """The first byte of the current burst in its region."""
    return signed(run.at("offset", cycle))


def done_of(run: NetlistRun, cycle: int = 0) -> z3.BitVecRef:
    """The bytes of the current run before the current burst."""
    return natural(run.at("run_bytes", cycle)) - natural(run.at("left", cycle))


def invariant(machine: Machine, run: NetlistRun, cycle: int = 0) -> z3.BoolRef:
    """What the registers say of an active burst: where it is, what its run and its region have left, and its size."""
    bus = machine.dram.bus_bytes
    offset, left, size = offset_of(run, cycle), natural(run.at("left", cycle)), natural(run.at("size", cycle))
    _, limit = region_of(machine, run, cycle)
    to_boundary = BURST_BOUNDARY_BYTES - (offset & (BURST_BOUNDARY_BYTES - 1))
    to_longest = BURST_BEATS * bus - (offset & (bus - 1))
    to_end = z3.If(to_boundary < to_longest, to_boundary, to_longest)
    beats = ((offset & (bus - 1)) + size + bus - 1) >> (bus - 1).bit_length()

    def page(byte: z3.BitVecRef) -> z3.BitVecRef:
        return byte & -BURST_BOUNDARY_BYTES

    return z3.Implies(
        run.holds("is_active", cycle),
        all_of(
            z3.ULE(number(1), left),
            z3.ULE(left, natural(run.at("run_bytes", cycle))),
            offset == signed(run.at("walker.address_run", cycle)) + done_of(run, cycle),
            natural(run.at("limit", cycle)) == limit,
            run.holds("is_before", cycle) == all_of(offset >= 0, page(offset) < page(limit)),
            run.holds("is_at", cycle) == (page(offset) == page(limit)),
            z3.Implies(run.holds("is_at", cycle), signed(run.at("room", cycle)) == limit - offset),
            size == z3.If(left < to_end, left, to_end),
            run.holds("ends_run", cycle) == (size == left),
            natural(run.at("beats", cycle)) == beats,
        ),
    )


def region_of(machine: Machine, run: NetlistRun, cycle: int = 0) -> tuple[z3.BitVecRef, z3.BitVecRef]:
    """Base and limit of the current instruction's region, as the host set them."""
    region, regions = run.at("region", cycle), run.at("regions", cycle)
    entry = regions.size() // len(REGIONS)
    limit_bits = machine.dram.offset_bits + 1
    base, limit = number(0), number(0)
    for position in range(len(REGIONS)):
        low = position * entry
        chosen = region == position
        base = z3.If(chosen, natural(z3.Extract(low + entry - limit_bits - 1, low, regions)), base)
        limit = z3.If(chosen, natural(z3.Extract(low + entry - 1, low + entry - limit_bits, regions)), limit)
    return base, limit


def known_goals(machine: Machine, bursts: Bursts, run: NetlistRun) -> list[Goal]:
    """The registers say so after reset, and from cycle to cycle: what a step takes was worked out before it."""
    known = any_of(*(is_format(format, run) for format in bursts.formats))
    used = [
        z3.Implies(run.holds("step", 0), run.holds("is_active", 0)),
        z3.Implies(run.holds("start", 0), all_of(known, is_free(run))),
        run.at("regions", 1) == run.at("regions", 0),
    ]
    return [
        Goal("invariant", [invariant(machine, run), *used], invariant(machine, run, 1)),
        Goal("reset", [run.starts_from_reset()], invariant(machine, run)),
    ]


def is_free(run: NetlistRun) -> z3.BoolRef:
    """No instruction is active, or its last burst is stepped over."""
    return any_of(z3.Not(run.holds("is_active", 0)), all_of(run.holds("step", 0), run.holds("is_last", 0)))


def legal_goals(machine: Machine, bursts: Bursts, run: NetlistRun) -> list[Goal]:
    """No burst is empty, crosses 4 KiB or has too many beats; each is the longest of those."""
    given = [invariant(machine, run), run.holds("is_active", 0)]
    bus, told = machine.dram.bus_bytes, run.at("request", 0)
    offset, left = offset_of(run), natural(run.at("left", 0))
    place, data = (bus - 1).bit_length(), run.at("bytes", 0)
    first_byte, last_byte = (natural(z3.Extract(low + place - 1, low, data)) for low in (0, place))
    size = natural(z3.Extract(data.size() - 1, 2 * place, data)) * bus + last_byte + 1 - first_byte
    told_beats = natural(z3.Extract(told.size() - 1, ADDRESS_BITS, told)) + 1
    last = offset + size - 1
    same_page = offset & -BURST_BOUNDARY_BYTES == last & -BURST_BOUNDARY_BYTES
    first_beat, last_beat = (byte >> (bus - 1).bit_length() for byte in (offset, last))
    beats = last_beat - first_beat + 1
    ends_page = (last + 1) & (BURST_BOUNDARY_BYTES - 1) == 0
    ends_beats = all_of(beats == BURST_BEATS, (last + 1) & (bus - 1) == 0)
    return [
        *known_goals(machine, bursts, run),
        Goal("first byte", given, first_byte == offset & (bus - 1)),
        Goal("size", given, all_of(size >= 1, size <= left, size == natural(run.at("size", 0)))),
        Goal("boundary", given, same_page),
        Goal(
            "beats",
            given,
            all_of(natural(run.at("beats", 0)) == beats, told_beats == beats, beats <= BURST_BEATS),
        ),
        Goal("longest", given, any_of(size == left, ends_page, ends_beats)),
    ]


def region_goals(machine: Machine, run: NetlistRun) -> list[Goal]:
    """A burst is a fault exactly if one of its bytes is outside; one that is not is at the region's base + offset.

    Bases are those of pages, whose lower bits the host's registers do not hold.
    """
    given = [invariant(machine, run), run.holds("is_active", 0)]
    offset, size = offset_of(run), natural(run.at("size", 0))
    base, limit = region_of(machine, run)
    inside = all_of(offset >= 0, offset + size <= limit)
    outside = z3.If(all_of(offset >= 0, offset < limit), limit, offset)
    is_page = base & (BURST_BOUNDARY_BYTES - 1) == 0

    def is_sum(address: z3.BitVecRef, byte: z3.BitVecRef) -> z3.BoolRef:
        return z3.Extract(ADDRESS_BITS - 1, 0, address) == z3.Extract(ADDRESS_BITS - 1, 0, base + byte)

    return [
        Goal("fault", given, run.holds("fault", 0) == z3.Not(inside)),
        Goal("address", [*given, is_page, inside], is_sum(run.at("request", 0), offset)),
        Goal("fault address", [*given, is_page, z3.Not(inside)], is_sum(run.at("fault_address", 0), outside)),
    ]


def cover_goals(machine: Machine, bursts: Bursts, run: NetlistRun) -> list[Goal]:
    """A run starts at its first byte; each burst begins where the one before ended; the run ends with its last byte."""
    step, start = run.holds("step", 0), run.holds("start", 0)
    active, ends = run.holds("is_active", 0), run.holds("is_last", 0)
    given = [invariant(machine, run), active, z3.Not(start), step]
    size, left = natural(run.at("size", 0)), natural(run.at("left", 0))
    moves = run.holds("walker.step", 0)
    follows = all_of(
        z3.Not(moves),
        natural(run.at("left", 1)) == left - size,
        offset_of(run, 1) == offset_of(run) + size,
        run.holds("is_active", 1),
    )
    next_run = all_of(moves, done_of(run, 1) == 0, run.holds("is_active", 1) == z3.Not(run.holds("walker.last", 0)))
    waits = [active, z3.Not(start), z3.Not(step)]
    registers = ("offset", "left", "size", "beats", "room", "run_bytes", "region", "is_active", "walker.address_run")
    stays = all_of(*(run.at(name, 1) == run.at(name, 0) for name in registers))
    return [
        Goal("next burst", given, z3.If(size == left, next_run, follows)),
        Goal(
            "last burst", [invariant(machine, run), active], ends == all_of(size == left, run.holds("walker.last", 0))
        ),
        Goal("waiting", waits, stays),
        *(start_goal(machine, format, run) for format in bursts.formats),
    ]


def start_goal(machine: Machine, format: InstructionFormat, run: NetlistRun) -> Goal:
    """At the start of a format's instruction: its runs have all bytes of the innermost loop, or of one word."""
    word, bits = machine.memories[chip_operand(format).memory].word_bytes, run.at("instruction", 0)
    operand, innermost = dram_operand(format), format.loops[-1].name
    stride, trip = format.field(f"{operand.name}.{innermost}"), format.field(f"trip.{innermost}")
    in_line = signed(z3.Extract(stride.low_bit + stride.type.bits - 1, stride.low_bit, bits)) == word
    trips = natural(z3.Extract(trip.low_bit + trip.type.bits - 1, trip.low_bit, bits)) + 1
    wanted = all_of(
        natural(run.at("run_bytes", 1)) == z3.If(in_line, trips * word, number(word)),
        run.holds("walker.collapse", 0) == in_line,
        done_of(run, 1) == 0,
        run.holds("is_active", 1),
    )
    return Goal(f"start of {format.mnemonic}", [run.holds("start", 0), is_free(run), is_format(format, run)], wanted)


def is_format(format: InstructionFormat, run: NetlistRun) -> z3.BoolRef:
    """The instruction at the input has a format's opcode; dispatch lets no other through."""
    opcode = format.field(OPCODE)
    high = opcode.low_bit + opcode.type.bits - 1
    return z3.Extract(high, opcode.low_bit, run.at("instruction", 0)) == format.opcode
