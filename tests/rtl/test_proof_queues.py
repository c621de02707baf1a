"""The proofs of queues and dispatch hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from amaranth.hdl import Module, Signal, Value

import tilewright.rtl.fifo as rtl_fifo
from tests.engines import ENGINES
from tests.rtl.faults import unseen
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Engine
from tilewright.rtl.dispatch import Dispatch
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.proof.queues import byte_queue, dispatch, instruction_queues, shown_queue
from tilewright.rtl.proof.result import Proof

MACHINE = load_machine("tiny8")


def queue_proof(depth: int) -> Proof:
    (proof,) = byte_queue(depth).proofs()
    return proof


@pytest.mark.parametrize("depth", [1, 2, 3, 16, 31, 32, 64])
def test_a_queue_keeps_its_entries_in_order(depth: int) -> None:
    assert queue_proof(depth).counterexample == ""


@pytest.mark.parametrize("depth", [1, 2, 3, 16])
def test_a_queue_that_shows_its_oldest_keeps_its_entries_in_order(depth: int) -> None:
    (proof,) = shown_queue(depth).proofs()
    assert proof.counterexample == ""


@pytest.mark.slow
def test_queues_and_dispatch_of_a_machine() -> None:
    proofs = [proof for subject in (*instruction_queues(MACHINE), dispatch(MACHINE)) for proof in subject.proofs()]
    assert [proof.counterexample for proof in proofs] == [""] * 7


def test_every_goal_of_a_queue_sees_a_fault() -> None:
    registers = ["level", "head", "write__addr", "entries[1]"]
    assert unseen(byte_queue(3), registers, ["input__ready", "output__valid", "output__payload"]) == []


def test_every_goal_of_a_queue_that_shows_its_oldest_sees_a_fault() -> None:
    registers = ["level", "head", "tail", "entries[1]", "oldest"]
    assert unseen(shown_queue(3), registers, ["input__ready", "output__valid", "output__payload"]) == []


@pytest.mark.long
def test_every_goal_of_dispatch_sees_a_fault() -> None:
    registers, outputs = [], ["is_done", "fault__valid", "fault__payload.code", "fault__payload.address"]
    for engine in ENGINES:
        registers += [f"{engine}_completed", f"{engine}_dispatched", f"{engine}_queue.level"]
        outputs += [
            f"instructions__{ENGINES.index(engine)}__valid",
            f"instructions__{ENGINES.index(engine)}__payload.bits",
            f"{engine}_queue.output__ready",
        ]
        outputs += [f"{engine}_queue.input__valid", f"{engine}_queue.input__payload.bits"]
    assert unseen(dispatch(MACHINE), registers, [*outputs, "assembler.output__ready"]) == []


@pytest.mark.parametrize("wrong", [Signal.__le__, lambda level, depth: level < depth - 1])
def test_sees_a_queue_that_is_ready_at_the_wrong_level(monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    right = Signal.__lt__

    def less(self: Value, other: object) -> Value:
        if getattr(self, "name", "") != "level":
            return right(self, other)
        monkeypatch.setattr(Signal, "__lt__", right)
        return wrong(self, other)  # type: ignore[operator]

    monkeypatch.setattr(Signal, "__lt__", less)
    assert queue_proof(3).counterexample.startswith("ready: false")


def test_sees_a_level_that_is_not_decremented(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Value.__sub__
    monkeypatch.setattr(
        Value, "__sub__", lambda self, other: self if getattr(other, "name", "") == "taken" else right(self, other)
    )
    assert queue_proof(3).counterexample.startswith("level: false")


def test_sees_a_pointer_that_does_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_fifo, "_after", lambda pointer, depth: pointer + 1)
    assert queue_proof(3).counterexample.startswith("invariant: false")


def test_sees_a_start_one_count_too_early_or_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dispatch.build_start

    def build_start(self: Dispatch, m: Module, engine: Engine, queue: Fifo, completed: Sequence[Signal]) -> None:
        right(self, m, engine, queue, [count + change for count in completed])

    monkeypatch.setattr(Dispatch, "build_start", build_start)
    change = 1
    assert dispatch(MACHINE).proofs()[0].counterexample.startswith("waits of load: false")
    change = -1  # as completed > wait would
    assert dispatch(MACHINE).proofs()[0].counterexample.startswith("offer of load: false")


def test_sees_a_wait_compared_with_another_count(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dispatch.build_fault

    def build_fault(self: Dispatch, m: Module, assembler: object, index: Signal, counts: Sequence[Signal]) -> Signal:
        return right(self, m, assembler, index, [count + 1 for count in counts])  # type: ignore

    monkeypatch.setattr(Dispatch, "build_fault", build_fault)
    assert dispatch(MACHINE).proofs()[2].counterexample.startswith("fault: false")


def test_sees_an_instruction_that_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dispatch.build_push

    def build_push(self: Dispatch, m: Module, assembler: object, queues: object, dispatched: Sequence[Signal]) -> None:
        right(self, m, assembler, queues, dispatched)  # type: ignore[arg-type]
        uncounted = dispatched[ENGINES.index("mma")]
        m.d.sync += uncounted.eq(uncounted)

    monkeypatch.setattr(Dispatch, "build_push", build_push)
    assert "false" in dispatch(MACHINE).proofs()[1].counterexample
