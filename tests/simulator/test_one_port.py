"""Cycles of programs where a bank has one port, derived by hand from docs/microarchitecture.md."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.generators import LIMITS, program_of
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import RunCounters
from tilewright.isa.timing import vec_write
from tilewright.simulator.cycles import simulate_cycles

BASE = load_machine("base16")
WORDS = 40
"""So many iterations or vectors that what goes on at their beginning and end is less than one in ten."""


def with_memories(text: str) -> Machine:
    return load_machine_text(f"extends: base16\nmemories: {text}\n", "one_port")


def run(machine: Machine, mnemonic: str, fields: Mapping[str, int]) -> RunCounters:
    instruction: Instruction = make_instruction(machine.format(mnemonic), fields)
    return simulate_cycles(program_of(machine, (instruction,)), place_regions(LIMITS))


def copied(machine: Machine, to: int) -> int:
    return run(machine, "copy", {"trip.k": WORDS, "a.k": 1, "y.k": 1, "y.base": to}).cycles


def test_a_copy_within_a_bank_reads_and_writes_in_turns() -> None:
    """From the first result on, each word takes a cycle to read and one to write; into another bank it takes one."""
    one_port = with_memories("{act: {ports: 1}}")
    bank = one_port.memories["act"].bank_depth
    within, apart = copied(one_port, 100), copied(one_port, bank)
    assert apart == copied(BASE, 100)
    first_result = apart - WORDS  # no read waits before it; behind it, as many words are read as before
    assert within - apart == pytest.approx(WORDS, abs=first_result)
    assert run(one_port, "copy", {"trip.k": WORDS, "a.k": 1, "y.k": 1, "y.base": 100}).engines["vec"].stall["port"] > 0


@pytest.mark.parametrize("to", range(100, 104))
def test_interleaved_copies_meet_their_own_results_in_one_of_four_places(to: int) -> None:
    """A result is written `vec_write` cycles after its word was read. Where that is in the bank of the word that is
    read then, this read waits a cycle; so as many cycles later, a cycle without a result lets the next read pass.
    """
    interleaved = with_memories("{act: {ports: 1, interleave: words}}")
    behind, banks = vec_write(BASE.format("copy")), BASE.memories["act"].banks
    lost = WORDS // behind if (to - behind) % banks == 0 else 0
    assert copied(interleaved, to) - copied(BASE, to) == pytest.approx(lost, abs=1)


def adding(machine: Machine) -> int:
    """Cycles of vectors that all add to sums in consecutive words."""
    fields = {"trip.x": WORDS, "a.x": 1, "c.x": 1, "accumulate": 1}
    return run(machine, "mma", fields).cycles


@pytest.mark.parametrize(
    ("memory", "cycles"),
    [
        ("{banks: 4, interleave: words}", WORDS),
        ("{banks: 2, interleave: words}", WORDS * 3 // 2),  # of three cycles, the third one's sums are written then
        ("{banks: 2}", WORDS * 2 - 2),  # two issue, and two wait while those are written
    ],
)
def test_vectors_that_add_wait_for_the_bank_of_their_sums(memory: str, cycles: int) -> None:
    machine = with_memories(f"{{acc: {{ports: 1, {memory[1:]}}}")
    assert adding(machine) - adding(BASE) == pytest.approx(cycles - WORDS, abs=1)


def test_vectors_that_do_not_add_need_not_wait() -> None:
    fields = {"trip.x": WORDS, "a.x": 1, "c.x": 1}
    machine = with_memories("{acc: {ports: 1}}")
    assert run(machine, "mma", fields).cycles == run(BASE, "mma", fields).cycles
    assert run(machine, "mma", fields).engines["mma"].stall["port"] == 0
