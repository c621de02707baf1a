"""The proofs of fetch, the read channel and the window of bytes hold for what ships, and fail for wrong hardware."""

from __future__ import annotations

import pytest

import tilewright.rtl.fetch as rtl_fetch
from tests.rtl.faults import failed_goals, unseen
from tests.test_dram_ports import two_ports
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import FETCH_PORT, Machine
from tilewright.rtl.beats import Window
from tilewright.rtl.proof.bytes import window
from tilewright.rtl.proof.fetch import fetch, read_channel

pytestmark = pytest.mark.slow

MACHINE = load_machine("tiny8")


def test_fetch_asks_for_every_beat_once() -> None:
    assert failed_goals(fetch(MACHINE)) + failed_goals(read_channel(MACHINE, FETCH_PORT)) == []


def test_a_window_keeps_bytes_in_order() -> None:
    assert failed_goals(window(4)) == []
    assert failed_goals(window(4, 2, 4)) == []


def test_every_goal_of_fetch_sees_a_fault() -> None:
    outputs = ["request__payload.address", "request__payload.last_beat", "is_finished", "output__payload.units"]
    registers = ["asked", "beats_left", "burst", "free", "buffer.level"]
    assert unseen(fetch(MACHINE), registers, [*outputs, "buffer.input__ready", "buffer.output__ready"]) == []


def test_every_goal_of_the_read_channel_sees_a_fault() -> None:
    clients = [f"{name}_{net}" for name in ("fetch", "dma0") for net in ("request__ready", "beat__valid")]
    registers = ["address.output__payload", "arid", "arvalid", "open_bursts"]
    assert unseen(read_channel(MACHINE, FETCH_PORT), registers, [*clients, "rready"]) == []


def test_a_port_without_fetch_keeps_the_bursts_and_beats_of_its_engine() -> None:
    channel = read_channel(two_ports(), 1)

    assert failed_goals(channel) == []
    nets = ["dma0_request__ready", "dma0_beat__valid", "rready"]
    assert unseen(channel, ["address.output__payload", "arid", "arvalid", "open_bursts"], nets) == []


def test_every_goal_of_a_window_sees_a_fault() -> None:
    assert unseen(window(4), ["count", "head", "tail", "low_1", "high_2"], ["fits", "data"]) == []


def test_sees_a_buffer_that_is_filled_beyond_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = fetch(MACHINE)
    right = rtl_fetch.Fetch.__init__

    def init(self: rtl_fetch.Fetch, machine: Machine) -> None:
        right(self, machine)
        self.buffer_beats += 1

    monkeypatch.setattr(rtl_fetch.Fetch, "__init__", init)
    assert "fetch: has room for what it asks for: reset" in failed_goals(fetch(MACHINE))
    assert failed_goals(subject) == []


def test_sees_bytes_that_are_joined_at_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Window.build_put
    monkeypatch.setattr(Window, "build_put", lambda self, m, low, high, tail: right(self, m, low, high, tail ^ 1))
    assert "window of 8 bytes, put by 1, taken by 1: first in, first out: joined" in failed_goals(window(4))
