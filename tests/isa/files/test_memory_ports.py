"""The keys `ports` and `interleave` of memories: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.files.machine_file import MachineFileError
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.port_notes import port_notes
from tilewright.isa.timing import can_be_refused


def with_memories(text: str, base: str = "base16") -> Machine:
    return load_machine_text(f"extends: {base}\nmemories: {text}\n", "x.yaml")


def complaints(text: str, base: str = "base16") -> tuple[str, ...]:
    with pytest.raises(MachineFileError) as raised:
        with_memories(text, base)
    return raised.value.complaints


def test_says_ports_and_where_words_are() -> None:
    machine = with_memories("{act: {ports: 1, interleave: words}, wgt: {ports: 2, interleave: none}}")
    act, wgt, acc = (machine.memories[name] for name in ("act", "wgt", "acc"))
    assert (act.has_one_port, act.is_interleaved, act.stretches, act.stretch_words) == (True, True, 1, act.depth)
    assert (wgt.has_one_port, wgt.is_interleaved, wgt.stretches) == (False, False, wgt.banks)
    assert (acc.has_one_port, acc.is_interleaved, acc.stretch_words) == (False, False, acc.depth // acc.banks)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{act: {ports: 3}}", "memories.act.ports: 3 is out of range; expected 1 to 2"),
        ("{act: {ports: 0}}", "memories.act.ports: 0 is out of range; expected 1 to 2"),
        ("{act: {interleave: bits}}", "memories.act.interleave: expected words, none, not 'bits'"),
        (
            "{act: {banks: 3, depth: 3072, kib: null, interleave: words}}",
            "memories.act.interleave: words cannot be interleaved over 3 banks; expected a power of two of banks, "
            "or none",
        ),
        (
            "{lut: {ports: 1}}",
            "instructions.lookup: looks up in lut in any cycle: a memory of tables needs ports: 2",
        ),
    ],
)
def test_refuses(text: str, complaint: str) -> None:
    assert any(found.endswith(complaint) for found in complaints(text)), complaints(text)


def test_refuses_blocks_of_words_that_are_interleaved() -> None:
    found = complaints("{acc: {interleave: words}}", "rect")
    assert found[0].endswith(
        "instructions.mma: moves 2 words of c at once, but the words of acc are interleaved: expected one word; "
        "give it interleave: none, or words as wide as its blocks"
    )


SHARED = """
extends: base16
memories: {both: {element: int8, width: 16, kib: 16, banks: 2, ports: PORTS}}
array: {rows: 16, cols: 16}
engines:
  load: {writes: [act, wgt, acc, par, lut, both]}
  vec: {writes: [act, acc, both]}
  mma: {reads: [act, both]}
instructions:
  load_both: {engine: load, loops: {i: 10, j: 10, k: 12}, from: {d: dram}, to: {y: both}, do: y = d}
  copy_both: {engine: vec, loops: {i: 10, j: 10, k: 10}, from: {a: act}, to: {y: both}, do: y = a}
  mma: {from: {w: "rows * both[n, r, s, k]"}}
  mma_transposed: null
"""


@pytest.mark.parametrize(("ports", "is_refused"), [(1, True), (2, False)])
def test_a_result_can_be_refused_where_an_array_reads_its_weights_from_one_port(ports: int, is_refused: bool) -> None:
    machine = load_machine_text(SHARED.replace("PORTS", str(ports)), "shared.yaml")
    assert can_be_refused(machine, machine.format("copy_both")) is is_refused
    assert not can_be_refused(machine, machine.format("store_act"))


def test_notes_say_the_rate_of_a_bank_with_one_port() -> None:
    notes = port_notes(with_memories("{act: {ports: 1}, acc: {ports: 1}, par: {ports: 1}}"))
    assert [note for note in notes if "add," in note] == [
        "memories.act: a bank has one port, so that an iteration takes 3 cycles where all of it lies in one of 4 "
        "banks: add, mul, maximum, minimum"
    ]
    assert notes[2] == (
        "memories.acc: a bank has one port, so that mma issues 1 vectors in 2 cycles where it adds to sums; "
        "with 4 banks and interleave: words, one in each"
    )


def test_notes_say_nothing_of_banks_that_keep_up() -> None:
    assert port_notes(with_memories("{act: {ports: 1, interleave: words}, par: {ports: 1}}")) == ()
    assert port_notes(with_memories("{acc: {ports: 1, banks: 4, interleave: words}}")) == ()
