"""A memory in banks, and the addresses at which a buffer may begin."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.tile.program import TileBuffer

NOWHERE = -1
"""The address of a buffer that has no place."""

REUSE_DISTANCE = 64
"""After this many operations a word counts as free for long, because its last user has completed."""


@dataclass(frozen=True, slots=True)
class MemoryBanks:
    """A memory on chip: `banks` banks of `bank_words` words each; all places are one bank if interleaved."""

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
    address = first_legal(buffer.size, buffer.alignment, buffer.is_in_bank, lowest, bank_words)
    return None if address < 0 else address


def first_legal(size: int, step: int, is_in_bank: bool, lowest: int, bank_words: int) -> int:
    """As `legal_address`, in numbers, so that kernels can have it compiled; NOWHERE for None."""
    address = -(-lowest // step) * step
    if bank_words and is_in_bank:
        if address % bank_words + size <= bank_words:
            return address
        address = -(-(address // bank_words + 1) * bank_words // step) * step
        return address if address % bank_words + size <= bank_words else NOWHERE
    if bank_words == 0 or bank_words % step == 0:
        return address
    tried_up_to = address + bank_words * step  # after which boundaries and groups have met again
    while address < tried_up_to:
        boundary = (address // bank_words + 1) * bank_words
        while boundary < address + size and boundary % step == 0:
            boundary += bank_words
        if boundary >= address + size:
            return address
        address = -(-boundary // step) * step
    return NOWHERE
