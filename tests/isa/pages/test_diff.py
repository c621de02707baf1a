"""What changed between two machines, in words: each kind of change on its own, told exactly."""

from __future__ import annotations

import pytest

from tilewright.isa import timing
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.language.facts import Circuit
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.diff import difference

COMPATIBLE = (
    "binary: every instruction word of base16 means the same on b, but a file names its machine's hash: compile again"
)


def changed(overlay: str) -> list[str]:
    """What is different in an overlay of base16 that is called b."""
    return list(difference(load_machine("base16"), load_machine_text(f"extends: base16\n{overlay}", "b")))


@pytest.mark.parametrize("name", shipped_machines())
def test_a_machine_does_not_differ_from_itself(name: str) -> None:
    assert difference(load_machine(name), load_machine(name)) == ()


def test_tells_latency_as_compatible() -> None:
    latency, round_trip, binary = changed("dram: {latency_cycles: 100, bus_bytes: 16}")
    assert (latency, binary) == ("dram.latency_cycles: 64 → 100", COMPATIBLE)
    assert round_trip.startswith("timing.dma_round_trip: 70 → 106 cycles. ")


def test_tells_another_text_of_the_same_machine_as_compatible() -> None:
    assert changed("about: The same.") == [COMPATIBLE]


def test_tells_queues_banks_and_reach() -> None:
    assert changed("engines: {vec: {queue: 2, reads: [wgt, act, acc, par, lut]}}\nmemories: {act: {banks: 8}}") == [
        "memories.act: 4 → 8 banks",
        "engines.vec.queue: 4 → 2",
        "engines.vec.reads: also wgt",
        COMPATIBLE,
    ]


def test_tells_the_results_that_may_wait() -> None:
    assert "engines.vec.results: 4 → 2" in changed("engines: {vec: {results: 2}}")
    assert "engines.vec.results: 4 → usual" in changed("engines: {vec: {results: null}}")


def test_tells_a_smaller_memory_down_to_the_bits() -> None:
    # 16 KiB of 128-byte words are 128 words, 7 bits of address; 4 KiB are 32 words, 5 bits. The base stands after the
    # opcode (8), four waits (64) and three trip counts (30 or 32), and three strides and two more operands follow.
    lines = changed("memories: {par: {kib: 4}}")

    assert lines == [
        "memories.par: 16 → 4 KiB, 128 → 32 words",
        "instructions.load_par: fields y.base to y.k: 2 bits narrower each, y.base uint7 → uint5 at bit 238",
        "instructions.load_par: bits in all: 269 → 261",
        "instructions.requantize: fields p.base to p.k: 2 bits narrower each, p.base uint7 → uint5 at bit 149",
        "instructions.requantize: fields y.base to high: 8 bits lower",
        "instructions.requantize: bits in all: 263 → 255",
        "instructions.requantize: bytes: 36 → 32",
        "instructions.add_bias: fields p.base to p.k: 2 bits narrower each, p.base uint7 → uint5 at bit 149",
        "instructions.add_bias: fields y.base to y.k: 8 bits lower",
        "instructions.add_bias: bits in all: 227 → 219",
        "instructions.add_bias: bytes: 32 → 28",
        "binary: not compatible: other words for load_par, requantize, add_bias; fewer words in par",
    ]


def test_tells_a_field_that_is_narrower_and_elsewhere() -> None:
    # Four wait counts of 12 bits in place of 16 move all that follows by 16; half the words are one bit less.
    lines = changed("wait_bits: 12\nmemories: {act: {kib: 128}}")

    assert "wait_bits: 16 → 12" in lines
    assert (
        "instructions.fill: fields wait.load to wait.store: 4 bits narrower each, wait.load uint16 → uint12 at bit 8"
        in lines
    )
    assert "instructions.fill: fields trip.i to trip.k: 16 bits lower" in lines
    assert (
        "instructions.fill: fields y.base to y.k: 1 bit narrower each, y.base uint14 → uint13 at bit 102 → 86" in lines
    )


def test_tells_a_memory_that_is_smaller_in_the_same_bits() -> None:
    # 200 KiB of 16-byte words are 12800, which needs 14 bits as 16384 does.
    assert changed("memories: {act: {kib: 200}}") == [
        "memories.act: 256 → 200 KiB, 16384 → 12800 words",
        "binary: not compatible: fewer words in act",
    ]


def test_tells_memories_that_come_and_go() -> None:
    assert changed("memories: {spare: {element: uint8, width: lanes, depth: 256, banks: 1}}")[0] == (
        "memories.spare: added, 4 KiB: 256 words of 16 × uint8"
    )
    with_spare = load_machine_text(
        "extends: base16\nmemories: {spare: {element: uint8, width: lanes, depth: 256, banks: 1}}", "b"
    )
    assert difference(with_spare, load_machine("base16"))[0] == "memories.spare: removed"


def test_tells_instructions_that_come_and_go() -> None:
    last = list(load_machine("base16").formats)[-1]
    lines = changed(
        f"instructions:\n  {last}: null\n"
        "  relu: {engine: vec, opcode: 40, loops: {i: 10}, from: {a: act}, to: {y: act}, do: 'y = max(a, 0)'}"
    )

    # 8 opcode, 4 · 16 waits, 10 trip count, then 14 + 15 bits of base and stride for each of the two operands.
    assert lines == [
        f"instructions.{last}: removed",
        "instructions.relu: added, vec opcode 40, 140 bits in 20 bytes: y = max(a, 0)",
        f"binary: not compatible: {last} missing",
    ]


def test_tells_a_wider_immediate_and_what_moves() -> None:
    assert changed("instructions: {requantize: {imm: {zero: int16}}}") == [
        "instructions.requantize: imm.zero: int8 → int16",
        "instructions.requantize: field zero: 8 bits wider, int8 → int16 at bit 239",
        "instructions.requantize: fields low to high: 8 bits higher",
        "instructions.requantize: bits in all: 263 → 271",
        "binary: not compatible: other words for requantize",
    ]


def test_tells_a_new_immediate_field_and_statement_with_its_stages() -> None:
    lines = changed("instructions: {copy: {imm: {n: uint3}, do: 'y = round_shift(a, n)'}}")

    stages = timing.CIRCUIT_STAGES[Circuit.ROUNDED_SHIFT]
    assert lines == [
        "instructions.copy: imm.n added: uint3",
        "instructions.copy: do: y = a → y = round_shift(a, n)",
        "instructions.copy: field n added, uint3 at bit 220",
        "instructions.copy: bits in all: 220 → 223",
        f"timing of copy, in stages: 0 → {stages}",
        "binary: not compatible: other words for copy",
    ]


def test_tells_a_removed_field() -> None:
    lines = changed("instructions: {fill: {imm: {value: null}, do: y = 7}}")

    assert "instructions.fill: field value removed, int8 at bit 161" in lines


def test_tells_loops_reduce_operands_and_flags() -> None:
    lines = changed(
        "instructions:\n"
        "  max_pool: {loops: {s: 5}, reduce: [s], to: {y: 'act[c, y, x, r]'}}\n"
        "  mma: {flags: []}"
    )  # fmt: skip

    assert [line for line in lines if not any(of in line for of in ("field", "bits in all", "bytes:"))] == [
        "instructions.mma: accumulate: yes → no",
        "instructions.max_pool: loops: c8 y10 x10 r4 s4 → c8 y10 x10 r4 s5",
        "instructions.max_pool: reduce: r, s → s",
        "instructions.max_pool: to.y: act[c, y, x] → act[c, y, x, r]",
        "binary: not compatible: other words for mma, max_pool",
    ]


def test_tells_rounding_where_it_matters() -> None:
    assert changed("rounding: away") == [
        "rounding: even → away",
        "binary: not compatible: the same words mean something else: requantize, rescale, add, mul",
    ]


def test_tells_a_wider_array_with_its_latencies() -> None:
    base16, rect = load_machine("base16"), load_machine("rect")

    lines = difference(base16, rect)

    assert lines[0] == "array: 16×16 → 16×32, 256 → 512 MACs a cycle"
    assert "memories.wgt: 128 → 256 KiB, 16 × int8 → 32 × int8 a word" in lines
    assert "instructions.mma: to.c: acc[n, y, x] → 2 * acc[n, y, x]" in lines
    before, after = timing.mma_read(base16.array), timing.mma_read(rect.array)
    read = f"timing.mma_read: {before} → {after} cycles. From the issue of an "
    assert any(line.startswith(read) for line in lines)


def test_the_array_s_shape_is_part_of_what_its_instructions_mean_and_no_others() -> None:
    assert changed("array: {rows: 32, cols: 16}")[-1] == (
        "binary: not compatible: mma_transposed missing; other words for add_sums; "
        "the same words mean something else: mma"
    )


def test_every_latency_of_the_timing_contract_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_latency(machine: Machine) -> int:
        """From here to there: not told."""
        return machine.lanes

    new_latency.__annotations__ = {"machine": "Machine", "return": "int"}
    monkeypatch.setattr(timing, "new_latency", new_latency, raising=False)

    lines = difference(load_machine("base16"), load_machine("tiny8"))

    assert "timing.new_latency: 16 → 8 cycles. From here to there." in lines


def test_another_bus_leaves_every_instruction_as_it_is() -> None:
    lines = changed("dram: {bus_bytes: 64}")

    assert lines[-1] == COMPATIBLE
