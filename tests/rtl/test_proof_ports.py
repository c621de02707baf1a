"""The proofs of arbiters and memory ports hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from amaranth.hdl import Module

from tests.rtl.faults import failed_goals, unseen
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.memory import Interleave
from tilewright.rtl.arbiter import Arbiter
from tilewright.rtl.memory import BankedMemory
from tilewright.rtl.proof.ports import PortedMemory, arbiter, memory_ports, ported_memories

MACHINE = load_machine("tiny8")
COUNTS = [(1, 0), (1, 1), (2, 0), (3, 1), (5, 2), (7, 0)]


def busiest() -> PortedMemory:
    return max(ported_memories(MACHINE), key=lambda of: (len(of.reads), len(of.writes)))


@pytest.mark.parametrize(("count", "privileged"), COUNTS)
def test_grants_one_and_lets_nobody_wait_for_ever(count: int, privileged: int) -> None:
    assert failed_goals(arbiter(count, privileged)) == []


def test_every_access_goes_to_its_bank() -> None:
    assert [goal for of in ported_memories(MACHINE) for goal in failed_goals(memory_ports(of))] == []


def test_every_goal_of_an_arbiter_sees_a_fault() -> None:
    assert unseen(arbiter(4, 1), ["last_granted"], ["grants", "requests"]) == []


def test_every_goal_of_a_memory_sees_a_fault() -> None:
    of = busiest()
    outputs = [f"bank{bank}.{net}" for bank in range(of.memory.banks) for net in ("read_first", "write_words")]
    outputs += [f"read_{reader.name}__granted" for reader in of.reads]
    outputs += [f"write_{writer.name}__granted" for writer in of.writes]
    assert unseen(memory_ports(of), [], outputs) == []


def one_port(interleave: Interleave = Interleave.WORDS) -> PortedMemory:
    of = busiest()
    return dataclasses.replace(of, memory=dataclasses.replace(of.memory, ports=1, interleave=interleave))


@pytest.mark.parametrize("interleave", Interleave)
def test_every_access_of_one_port_goes_to_its_bank(interleave: Interleave) -> None:
    assert failed_goals(memory_ports(one_port(interleave))) == []


def test_every_goal_of_one_port_sees_a_fault() -> None:
    of = one_port()
    outputs = [f"bank{bank}.{net}" for bank in range(of.memory.banks) for net in ("read_first", "write_words", "read")]
    outputs += [f"read_{reader.name}__granted" for reader in of.reads]
    outputs += [f"write_{writer.name}__granted" for writer in of.writes]
    assert unseen(memory_ports(of), [], outputs) == []


def test_sees_a_read_that_comes_before_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write that loses is one that the datapath cannot hold back."""
    right = BankedMemory.build_arbiters

    def build_arbiters(self: BankedMemory, m: Module, kind: str, requesters: Any, ports: Any) -> Any:
        return list(right(self, m, kind, (*requesters[::-1],), [*ports[::-1]]))

    monkeypatch.setattr(BankedMemory, "build_arbiters", build_arbiters)
    assert any("in order" in goal for goal in failed_goals(memory_ports(one_port())))


def test_sees_that_the_first_always_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Arbiter.build_turns

    def build_turns(self: Arbiter, m: Module) -> None:
        right(self, m)
        with m.If(self.requests[0]):
            m.d.comb += self.grants.eq(1)

    monkeypatch.setattr(Arbiter, "build_turns", build_turns)
    assert set(failed_goals(arbiter(3, 0))) == {"arbiter of 3, 0 privileged: no starvation"}


def test_sees_two_banks_that_are_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BankedMemory.is_in_bank
    monkeypatch.setattr(BankedMemory, "is_in_bank", lambda self, address, number: right(self, address, number & ~1))
    assert failed_goals(memory_ports(busiest()))
