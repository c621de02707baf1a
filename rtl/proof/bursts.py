"""A DMA engine's bursts: inside 4 KiB and the region, as long as they may be, together a run's bytes in order."""

from __future__ import annotations

import z3

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.proof.engine import INDUCTIVE
from tilewright.rtl.proof.nest import walker_claims
from tilewright.rtl.proof.netlist import Run, netlist
from tilewright.rtl.proof.numbers import natural, number, signed
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.runs import Bursts, chip_operand, dram_operand


def bursts_of(machine: Machine, engine: str) -> Subject:
    """The bursts of an engine that moves between DRAM and memories, and the walker of its runs."""
    bursts = Bursts(machine, machine.formats_of(engine))
    claims = [
        Claim(f"bursts of {engine}: legal", INDUCTIVE, lambda run: legal_goals(machine, run)),
        Claim(f"bursts of {engine}: inside their regions", INDUCTIVE, lambda run: region_goals(machine, run)),
        Claim(f"bursts of {engine}: cover a run in order", INDUCTIVE, lambda run: cover_goals(machine, bursts, run)),
    ]
    return Subject(netlist(bursts), [*claims, *walker_claims(bursts.walker, f"{engine} runs", "walker.")])


def offset_of(run: Run, cycle: int = 0) -> z3.BitVecRef:
    """The first byte of the current burst in its region: the run's first byte, and what is done of the run."""
    return signed(run.at("walker.address_run", cycle)) + natural(run.at("consumed", cycle))


def invariant(run: Run, cycle: int = 0) -> z3.BoolRef:
    """A run that is active has bytes left."""
    done, all_bytes = run.at("consumed", cycle), run.at("run_bytes", cycle)
    return z3.Implies(run.holds("is_active", cycle), z3.ULT(done, all_bytes))


def legal_goals(machine: Machine, run: Run) -> list[Goal]:
    """No burst is empty, crosses 4 KiB or has too many beats; each is the longest of those."""
    given = [invariant(run), run.holds("is_active", 0)]
    bus = machine.dram.bus_bytes
    offset, size = offset_of(run), natural(run.at("size", 0))
    left = natural(run.at("run_bytes", 0)) - natural(run.at("consumed", 0))
    last = offset + size - 1
    same_page = offset & -BURST_BOUNDARY_BYTES == last & -BURST_BOUNDARY_BYTES
    first_beat, last_beat = (byte >> (bus - 1).bit_length() for byte in (offset, last))
    beats = last_beat - first_beat + 1
    ends_page = (last + 1) & (BURST_BOUNDARY_BYTES - 1) == 0
    ends_beats = z3.And(beats == BURST_BEATS, (last + 1) & (bus - 1) == 0)
    return [
        Goal("size", given, z3.And(size >= 1, size <= left)),
        Goal("boundary", given, same_page),
        Goal("beats", given, z3.And(natural(run.at("beats", 0)) == beats, beats <= BURST_BEATS)),
        Goal("longest", given, z3.Or(size == left, ends_page, ends_beats)),
    ]


def region_goals(machine: Machine, run: Run) -> list[Goal]:
    """A burst is a fault exactly if one of its bytes is outside; one that is not is at the region's base + offset."""
    given = [invariant(run), run.holds("is_active", 0)]
    offset, size, region = offset_of(run), natural(run.at("size", 0)), run.at("region", 0)
    regions = run.at("regions", 0)
    entry = regions.size() // len(REGIONS)
    limit_bits = machine.dram.offset_bits + 1
    base, limit = number(0), number(0)
    for position in range(len(REGIONS)):
        low = position * entry
        chosen = region == position
        base = z3.If(chosen, natural(z3.Extract(low + entry - limit_bits - 1, low, regions)), base)
        limit = z3.If(chosen, natural(z3.Extract(low + entry - 1, low + entry - limit_bits, regions)), limit)
    inside = z3.And(offset >= 0, offset + size <= limit)
    address = run.at("request", 0)
    bits = entry - limit_bits
    return [
        Goal("fault", given, run.holds("fault", 0) == z3.Not(inside)),
        Goal(
            "address",
            [*given, inside],
            z3.Extract(bits - 1, 0, address) == z3.Extract(bits - 1, 0, base + offset),
        ),
    ]


def cover_goals(machine: Machine, bursts: Bursts, run: Run) -> list[Goal]:
    """A run starts at its first byte; each burst begins where the one before ended; the run ends with its last byte."""
    step, start = run.holds("step", 0), run.holds("start", 0)
    active = run.holds("is_active", 0)
    given = [invariant(run), active, z3.Not(start), step]
    size, all_bytes = natural(run.at("size", 0)), natural(run.at("run_bytes", 0))
    done, done_next = natural(run.at("consumed", 0)), natural(run.at("consumed", 1))
    ends = done + size == all_bytes
    moves = run.holds("walker.step", 0)
    follows = z3.And(
        z3.Not(moves), done_next == done + size, offset_of(run, 1) == offset_of(run) + size, run.holds("is_active", 1)
    )
    next_run = z3.And(moves, done_next == 0, run.holds("is_active", 1) == z3.Not(run.holds("walker.last", 0)))
    known = z3.Or(*(is_format(format, run) for format in bursts.formats))
    idle = [z3.Not(start), z3.Not(step)]
    stays = z3.And(*(run.at(name, 1) == run.at(name, 0) for name in ("consumed", "run_bytes", "walker.address_run")))
    return [
        Goal("next burst", given, z3.If(ends, next_run, follows)),
        Goal("waiting", idle, stays),
        Goal("invariant", [invariant(run), z3.Implies(step, active), z3.Implies(start, known)], invariant(run, 1)),
        Goal("reset", [run.starts_from_reset()], invariant(run)),
        *(start_goal(machine, format, run) for format in bursts.formats),
    ]


def start_goal(machine: Machine, format: InstructionFormat, run: Run) -> Goal:
    """At the start of a format's instruction: its runs have all bytes of the innermost loop, or of one word."""
    word, bits = machine.memories[chip_operand(format).memory].word_bytes, run.at("instruction", 0)
    operand, innermost = dram_operand(format), format.loops[-1].name
    stride, trip = format.field(f"{operand.name}.{innermost}"), format.field(f"trip.{innermost}")
    in_line = signed(z3.Extract(stride.low_bit + stride.type.bits - 1, stride.low_bit, bits)) == word
    trips = natural(z3.Extract(trip.low_bit + trip.type.bits - 1, trip.low_bit, bits)) + 1
    wanted = z3.And(
        natural(run.at("run_bytes", 1)) == z3.If(in_line, trips * word, number(word)),
        run.holds("walker.collapse", 0) == in_line,
        run.at("consumed", 1) == 0,
        run.holds("is_active", 1),
    )
    return Goal(f"start of {format.mnemonic}", [run.holds("start", 0), is_format(format, run)], wanted)


def is_format(format: InstructionFormat, run: Run) -> z3.BoolRef:
    """The instruction at the input has a format's opcode; dispatch lets no other through."""
    opcode = format.field(OPCODE)
    high = opcode.low_bit + opcode.type.bits - 1
    return z3.Extract(high, opcode.low_bit, run.at("instruction", 0)) == format.opcode
