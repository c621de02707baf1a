"""The proofs of queues and dispatch hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module, Signal, Value, unsigned

import rtl.fifo
from isa.loader import load_machine
from rtl.dispatch import Dispatch
from rtl.fifo import Fifo
from rtl.proof.queues import prove_dispatch, prove_queue, prove_queues

MACHINE = load_machine("tiny8")


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_queue_keeps_its_entries_in_order(depth: int) -> None:
    assert prove_queue(Fifo(unsigned(4), depth)).counterexample == ""


def test_queues_and_dispatch_of_a_machine() -> None:
    proofs = [*prove_queues(MACHINE), *prove_dispatch(MACHINE)]
    assert [proof.counterexample for proof in proofs] == [""] * 4


@pytest.mark.parametrize("wrong", [Signal.__le__, lambda level, depth: level < depth - 1])
def test_sees_a_queue_that_is_ready_at_the_wrong_level(monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    right = Signal.__lt__

    def less(self: Value, other: object) -> Value:
        if getattr(self, "name", "") != "level":
            return right(self, other)
        monkeypatch.setattr(Signal, "__lt__", right)
        return wrong(self, other)  # type: ignore[operator]

    monkeypatch.setattr(Signal, "__lt__", less)
    assert prove_queue(Fifo(unsigned(4), 3)).counterexample.startswith("ready: false")


def test_sees_a_level_that_is_not_decremented(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Value.__sub__
    monkeypatch.setattr(
        Value, "__sub__", lambda self, other: self if getattr(other, "name", "") == "taken" else right(self, other)
    )
    assert prove_queue(Fifo(unsigned(4), 3)).counterexample.startswith("level: false")


def test_sees_a_pointer_that_does_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.fifo.Fifo, "after", lambda self, pointer: pointer + 1)
    assert prove_queue(Fifo(unsigned(4), 3)).counterexample.startswith("invariant: false")


def test_sees_a_start_one_count_too_early_or_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dispatch.build_start

    def build_start(self: Dispatch, m: Module, engine: str, queue: Fifo, completed: dict[str, Signal]) -> None:
        right(self, m, engine, queue, {name: count + change for name, count in completed.items()})  # type: ignore[misc]

    monkeypatch.setattr(Dispatch, "build_start", build_start)
    change = 1
    assert prove_dispatch(MACHINE)[0].counterexample.startswith("waits of load: false")
    change = -1  # as completed > wait would
    assert prove_dispatch(MACHINE)[0].counterexample.startswith("offer of load: false")


def test_sees_a_wait_compared_with_another_count(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dispatch.build_fault

    def build_fault(self: Dispatch, m: Module, assembler: object, index: Signal, counts: dict[str, Signal]) -> None:
        right(self, m, assembler, index, {name: count + 1 for name, count in counts.items()})  # type: ignore

    monkeypatch.setattr(Dispatch, "build_fault", build_fault)
    assert prove_dispatch(MACHINE)[2].counterexample.startswith("fault: false")


def test_sees_an_instruction_that_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Dispatch.build_push

    def build_push(self: Dispatch, m: Module, assembler: object, queues: object, dispatched: dict[str, Signal]) -> None:
        right(self, m, assembler, queues, dispatched)  # type: ignore[arg-type]
        m.d.sync += dispatched["mma"].eq(dispatched["mma"])

    monkeypatch.setattr(Dispatch, "build_push", build_push)
    assert "false" in prove_dispatch(MACHINE)[1].counterexample
