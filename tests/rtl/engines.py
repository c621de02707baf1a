"""What the tests of the engines share: memories' words, and what an engine does in a cycle."""

import random
from dataclasses import dataclass, field
from typing import Any

from tests.rtl.statements import random_element
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.interfaces import Activity


class Words:
    """A memory's words as integers; a word that was never written is random, but always the same."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.memory = machine.memories[name]
        self.words: dict[int, int] = {}

    def __getitem__(self, address: int) -> int:
        if address not in self.words:
            seed = random.Random(f"{self.memory.name} {address}")
            element = self.memory.element
            bits = [random_element(element, seed)[0] for _ in range(self.memory.width)]
            self.words[address] = sum(value << lane * element.bits for lane, value in enumerate(bits))
        return self.words[address]

    def __setitem__(self, address: int, word: int) -> None:
        self.words[address] = word

    def values(self, word: int, lane: int) -> dict[str, int]:
        """A lane's integers by field."""
        element = self.memory.element
        bits = word >> lane * element.bits
        fields = {"": (element.type, 0)} if element.type else {f.name: (f.type, f.low_bit) for f in element.fields}
        found = {}
        for name, (type_, low) in fields.items():
            assert type_ is not None
            value = bits >> low & ((1 << type_.bits) - 1)
            found[name] = value - (1 << type_.bits) if value > type_.interval.high else value
        return found


@dataclass
class Cycle:
    """What an engine does in one cycle: its asks as port → address (and data), and the rest of its outputs."""

    asks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    starts: bool = False
    retires: bool = False
    activity: Any = Activity.NONE
    fault: tuple[int, int] | None = None  # instruction, address
