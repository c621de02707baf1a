"""The cycle model: small programs whose cycles are derived by hand from docs/microarchitecture.md, and laws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.generators import LIMITS, program_of, random_program
from tests.rings import slow_beyond
from tilewright.isa import timing
from tilewright.isa.files.loader import load_machine
from tilewright.isa.kernels.kernel import kept_on_disk
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import RunCounters
from tilewright.isa.templates.dma import first_burst
from tilewright.simulator.cycles import _room, simulate_cycles
from tilewright.simulator.kernel import nests
from tilewright.simulator.kernel.layout import record

burst_bytes = kept_on_disk(nests.burst_bytes)

BASE = load_machine("base16")
LATENCY = BASE.dram.latency_cycles


def queued(beats: int) -> int:
    """The first cycle in which an instruction is at the head of its queue, whose last word is in this beat, from 1 on.

    Fetch's request enters the address register in cycle 0 and is on the bus in 1; its first beat comes in 1 + latency
    and is in the buffer a cycle later; then a beat a cycle is taken by dispatch, where the instruction is whole, and
    dispatched, in cycle 2 + latency + beats; in the cycle after, the instruction is at the queue.
    """
    return 1 + LATENCY + beats + 2


QUEUED = queued(3)
"""When the first instruction is there, if it has 33 to 48 bytes: as load_act, store_act and mma, which have 40."""

QUEUED_SHORT = queued(2)
"""The same of one with 17 to 32 bytes: as fill, which has 24, copy, which has 28, and max_pool, which has 32."""


def instruction(mnemonic: str, fields: Mapping[str, int], machine: Machine = BASE) -> Instruction:
    return make_instruction(machine.format(mnemonic), fields)


def run(*instructions: Instruction, machine: Machine = BASE) -> RunCounters:
    return simulate_cycles(program_of(machine, instructions), place_regions(LIMITS))


def load_words(words: int) -> Instruction:
    fields = {"trip.k": words, "d.region": REGIONS.index("weights"), "d.k": 16, "y.k": 1}
    return instruction("load_act", fields)


def test_an_empty_program_is_over_at_once() -> None:
    assert run().cycles == 0


def test_first_instruction_starts_when_it_is_fetched() -> None:
    assert run(instruction("fill", {})).started.tolist() == [QUEUED_SHORT]


def dispatched(bus_bytes: int, *mnemonics: str) -> list[int]:
    """When each instruction is dispatched, counted from when the first is."""
    machine = load_machine("base16", [f"dram.bus_bytes={bus_bytes}"])
    counters = run(*(instruction(name, {}, machine) for name in mnemonics), machine=machine)
    cycles = counters.dispatched.tolist()
    return [cycle - cycles[0] for cycle in cycles]


def test_an_instruction_is_dispatched_when_the_beat_with_its_last_word_has_come() -> None:
    # Of 24, 28 and 28 bytes on a bus of 16, the last words are in beats 2, 4 and 5.
    assert dispatched(16, "fill", "copy", "copy") == [0, 2, 3]
    # On a bus of 4, each word is a beat.
    assert dispatched(4, "fill", "copy", "copy") == [0, 7, 14]
    # On one of 1, each byte is.
    assert dispatched(1, "fill", "copy") == [0, 28]


def test_one_instruction_is_dispatched_in_a_cycle() -> None:
    # Two are whole in the first beat of 64 bytes, and the others in the second.
    assert dispatched(64, "fill", "fill", "fill", "fill") == [0, 1, 2, 3]


def test_a_load_takes_latency_and_a_cycle_a_word() -> None:
    # Active in QUEUED + 1, where its burst enters the address register; on the bus in + 2; first beat in + 2 + latency,
    # in the buffer in + 3, in the window in + 4, where the first word is emitted; written in + 5. Word n follows n
    # cycles later; the write of the last, word 3, retires the load, which shows one cycle later.
    counters = run(load_words(4))
    assert counters.retired.tolist() == [QUEUED + 5 + LATENCY + 3 + 1]
    assert counters.cycles == counters.retired[0]
    load = counters.engines["load"]
    # It waits for DRAM from its first active cycle to the one before the first word, and in that of its last write.
    assert (load.idle, load.busy, load.stall["dram"]) == (QUEUED, 1 + 4, 3 + LATENCY + 1)
    assert counters.dram_bytes_read == (3 + 4) * 16


def test_a_load_goes_through_all_its_loops() -> None:
    """2 · 3 rows of 4 words that lie apart: six bursts, none joins the next. The nest is as deep as an mma's."""
    deep = load_machine("base16", ["instructions.load_act.loops={a: 2, b: 2, c: 2, i: 4, j: 4, k: 8}"])
    loops = {"trip.a": 2, "trip.j": 3, "trip.k": 4}
    places = {"d.region": REGIONS.index("weights"), "d.a": 1024, "d.j": 128, "d.k": 16, "y.a": 12, "y.j": 4, "y.k": 1}
    counters = run(instruction("load_act", loops | places, deep), machine=deep)
    beats = -(-deep.format("load_act").bits // 128)
    assert counters.dram_bytes_read == (beats + 2 * 3 * 4) * 16
    assert counters.engines["load"].busy == 1 + 2 * 3 * 4


def test_a_fill_takes_a_cycle_a_word_and_the_pipeline() -> None:
    # Active in QUEUED_SHORT + 1, an iteration a cycle; a result asks for its write vec_write after its iteration.
    counters = run(instruction("fill", {"trip.k": 10, "y.k": 1}))
    assert counters.retired.tolist() == [QUEUED_SHORT + 1 + 9 + timing.vec_write(BASE.format("fill")) + 1]
    assert counters.engines["vec"].busy == 1 + 10


def test_two_sources_in_one_bank_take_turns() -> None:
    # a and b are in bank 0: two cycles an iteration. With b in bank 1, one.
    bank = BASE.memories["act"].bank_depth
    same = {"trip.k": 10, "a.k": 1, "b.base": 100, "b.k": 1, "y.base": 200, "y.k": 1}
    in_turns, at_once = run(instruction("add", same)), run(instruction("add", {**same, "b.base": bank}))
    assert in_turns.cycles - at_once.cycles == 10
    assert (in_turns.engines["vec"].stall["port"], at_once.engines["vec"].stall["port"]) == (10, 0)


def test_only_the_last_iteration_of_a_group_is_written() -> None:
    # 12 iterations give 3 results; the last iteration's result is written vec_write after it issued.
    counters = run(instruction("max_pool", {"trip.x": 3, "trip.r": 2, "trip.s": 2, "a.s": 1, "y.base": 50, "y.x": 1}))
    assert counters.retired.tolist() == [QUEUED_SHORT + 1 + 11 + timing.vec_write(BASE.format("max_pool")) + 1]


def mma(vectors: int, tiles: int, **fields: int) -> Instruction:
    values = {"trip.k": tiles, "trip.x": vectors, "a.x": 1, "w.k": 16, "c.x": 1, **fields}
    return instruction("mma", values)


def test_an_mma_streams_without_bubbles() -> None:
    # First weight row in QUEUED + 1, first vector MMA_WEIGHT_LEAD later, then 3 tiles of 20 vectors without a pause.
    counters = run(mma(20, 3))
    last = QUEUED + 1 + timing.MMA_WEIGHT_LEAD + 3 * 20 - 1
    assert counters.retired.tolist() == [last + timing.mma_write(BASE.array) + 1]
    assert counters.engines["mma"].stall["weights"] == timing.MMA_WEIGHT_LEAD


def test_a_short_tile_waits_for_its_weights() -> None:
    # Tiles of 4 vectors: rows are read one a cycle, 16 a tile, so a tile begins every 16 cycles; the last one's vectors
    # are issued from MMA_WEIGHT_LEAD after its first row on.
    counters = run(mma(4, 3))
    last = QUEUED + 1 + 2 * BASE.array.rows + timing.MMA_WEIGHT_LEAD + 4 - 1
    assert counters.retired.tolist() == [last + timing.mma_write(BASE.array) + 1]


def test_the_next_mma_loses_two_cycles() -> None:
    one, two = run(mma(20, 1)), run(mma(20, 1), mma(20, 1))
    lost = 2
    assert two.retired[1] - one.retired[0] == 20 + lost


def test_a_wait_for_the_completion_of_another() -> None:
    # The load's completion shows in the cycle `retired`, in which the copy may start.
    waiting = instruction("copy", {"trip.k": 4, "a.k": 1, "y.base": 100, "y.k": 1, "wait.load": 1})
    counters = run(load_words(4), waiting)
    assert counters.started[1] == counters.retired[0]
    # The copy is fetched one instruction later, and is at the head of its queue until it starts.
    assert counters.engines["vec"].wait["load"] == counters.started[1] - queued(5)  # of 40 + 28 bytes


def test_a_store_ends_with_the_last_response() -> None:
    # Active in QUEUED + 1: a word is granted a cycle, is in the buffer two cycles later (+ 3), in the window in + 4,
    # where its beat is formed; on the bus in + 5. Beat n follows n cycles later; the response comes latency after it.
    fields = {"trip.k": 3, "y.k": 1, "d.region": REGIONS.index("outputs"), "d.k": 16}
    counters = run(instruction("store_act", fields))
    assert counters.retired.tolist() == [QUEUED + 5 + 2 + LATENCY + 1]
    assert counters.dram_bytes_written == 3 * 16


def test_reports_an_impossible_wait() -> None:
    fill = instruction("fill", {})
    counters = run(fill, fill.replace({"wait.load": 3}))
    assert counters.fault == Fault(FaultCode.WAIT, 1, 3)


def test_cuts_bursts_as_the_timing_contract_says() -> None:
    rng = np.random.default_rng(1)
    for bus_bytes in (1, 4, 16, 128):
        p = np.zeros(1, record("burst_boundary", "burst_beats", "bus_bytes"))[0]
        p["burst_boundary"], p["burst_beats"] = timing.BURST_BOUNDARY_BYTES, timing.BURST_BEATS
        p["bus_bytes"] = bus_bytes
        for _ in range(50):
            address, left = int(rng.integers(0, 20000)), int(rng.integers(1, 6000))
            assert burst_bytes(p, address, left) == first_burst(address, left, bus_bytes).bytes


@pytest.mark.parametrize("name", slow_beyond(3, ["base16", "tiny8", "rect", "vector-only"]))
def test_every_cycle_of_an_engine_is_counted_once(name: str) -> None:
    machine = load_machine(name)
    for seed in range(8):
        program = random_program(machine, np.random.default_rng(seed), 14)
        counters = simulate_cycles(program, place_regions(program.limits))
        for engine, of in counters.engines.items():
            total = of.busy + sum(of.wait.values()) + sum(of.stall.values()) + of.idle
            assert total == counters.cycles, f"{engine}, seed {seed}"
        assert np.all(counters.retired > counters.started)
        assert counters.retired.max() == counters.cycles


def test_the_kernel_for_any_number_of_engines_counts_as_the_one_for_one_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = [random_program(load_machine("rect"), np.random.default_rng(seed), 14) for seed in range(8)]

    def runs() -> list[RunCounters]:
        return [simulate_cycles(program, place_regions(program.limits)) for program in programs]

    for_one_of_each = runs()
    monkeypatch.setattr("tilewright.simulator.cycles._room", lambda machine: _room(load_machine("quad8")))
    for one, other in zip(for_one_of_each, runs(), strict=True):
        assert (one.cycles, one.engines) == (other.cycles, other.engines)
        for name in ("dispatched", "started", "retired"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_machines_with_other_numbers_of_engines_share_a_kernel() -> None:
    rooms = [tuple(_room(load_machine(name)).values()) for name in ("vector-only", "base16-2dma", "quad8", "base16")]

    assert len(set(rooms[:3])) == 1 and rooms[3] != rooms[0]


@pytest.mark.parametrize(
    "better",
    ["dram.latency_cycles=8", "dram.outstanding_beats=512", "engines.load.queue=32"],
)
def test_a_better_memory_is_never_slower(better: str) -> None:
    for seed in range(6):
        cycles = []
        for overrides in ((), (better,)):
            machine = load_machine("tiny8", overrides)
            program = random_program(machine, np.random.default_rng(seed), 14)
            cycles.append(simulate_cycles(program, place_regions(program.limits)).cycles)
        assert cycles[1] <= cycles[0], f"seed {seed}"


def test_a_wider_bus_is_never_slower() -> None:
    # Waits, words and bursts stay the same: only the beats of a program of plain copies become fewer.
    cycles = []
    for bus_bytes in (4, 8, 16, 32):
        machine = load_machine("base16", (f"dram.bus_bytes={bus_bytes}",))
        loads = [instruction("load_act", load_fields(n), machine) for n in range(4)]
        cycles.append(run(*loads, machine=machine).cycles)
    assert cycles == sorted(cycles, reverse=True) and cycles[0] > cycles[-1]


def load_fields(number: int) -> dict[str, int]:
    return {
        "trip.j": 5,
        "trip.k": 20,
        "d.region": REGIONS.index("weights"),
        "d.base": 7 * number,
        "d.j": 1000,
        "d.k": 16,
        "y.base": 100 * number,
        "y.j": 20,
        "y.k": 1,
    }


def test_a_program_waiting_on_dram_is_the_same_with_cycles_skipped() -> None:
    """With a latency of thousands nearly all cycles are skipped: the answer moves by that of each round trip."""
    near, far = (load_machine("base16", (f"dram.latency_cycles={n}",)) for n in (64, 5064))
    cycles = [run(instruction("load_act", load_fields(0), machine), machine=machine).cycles for machine in (near, far)]
    assert cycles[1] - cycles[0] == 2 * 5000  # one fetch, then one load whose bursts are all asked for at once
