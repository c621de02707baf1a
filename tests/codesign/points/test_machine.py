"""The key of a machine: what changes a result is in it, and words are not."""

from __future__ import annotations

import pytest

from tilewright.codesign.points.machine import machine_key
from tilewright.isa.files.loader import load_machine, load_machine_text

BASE = "extends: tiny8\n"


def key(text: str) -> str:
    return machine_key(load_machine_text(BASE + text, "other"))


@pytest.mark.parametrize("text", ["name: another", "about: Something else.", "instructions: {copy: {about: Moves.}}"])
def test_words_change_nothing(text: str) -> None:
    assert key(text) == machine_key(load_machine("tiny8"))


@pytest.mark.parametrize(
    "text",
    [
        "dram: {latency_cycles: 65}",
        "engines: {load: {queue: 5}}",
        "rounding: away",
        "counters: none",
        "memories: {act: {banks: 8}}",
        "instructions: {copy: null}",
    ],
)
def test_facts_change_it(text: str) -> None:
    assert key(text) != machine_key(load_machine("tiny8"))


def test_an_override_gives_the_key_of_the_file_that_says_so() -> None:
    assert machine_key(load_machine("tiny8", ("dram.latency_cycles=65",))) == key("dram: {latency_cycles: 65}")
