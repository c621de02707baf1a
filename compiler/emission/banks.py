"""A memory in banks, and the addresses at which a buffer may begin."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from tilewright.compiler.tile.program import TileBuffer


@dataclass(frozen=True, slots=True)
class BankedMemory:
    """A memory on chip: `banks` banks of `bank_words` words each."""

    name: str
    bank_words: int
    banks: int

    @property
    def words(self) -> int:
        return self.bank_words * self.banks


def legal_address(buffer: TileBuffer, lowest: int, bank_words: int) -> int | None:
    """The first address from `lowest` on that is aligned, with no aligned group across two banks, or None.

    A group lies across a bank boundary inside the buffer exactly when that boundary is not itself aligned. A buffer
    that must be in one bank has no boundary inside. `bank_words` 0 means no banks.
    """
    step = buffer.alignment
    address = -(-lowest // step) * step
    if bank_words and buffer.is_in_bank:
        starts = (address, -(-(address // bank_words + 1) * bank_words // step) * step)
        return next((start for start in starts if start % bank_words + buffer.size <= bank_words), None)
    if bank_words == 0 or bank_words % step == 0:
        return address
    period = lcm(bank_words, step)  # boundaries and groups meet again after it
    tried_up_to = address + period
    while address < tried_up_to:
        inside = range((address // bank_words + 1) * bank_words, address + buffer.size, bank_words)
        across = next((boundary for boundary in inside if boundary % step), None)
        if across is None:
            return address
        address = -(-across // step) * step
    return None
