"""How long engines take for the pieces of a chain beside each other: an estimate that orders proposals.

A piece goes on as fast as what its engines have left allows, once all that it reads is there. The piece in front may
have some behind it beside it, as in the order of operations (`emission.merge`); those first that keep several engines
busy: a vector engine that has work of its own is never the reason that the array waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.isa.machine.engine import Engine

BESIDE = 2
"""So many pieces behind the one in front may be begun: as many as layers in the order of operations."""

NEARLY = 1e-9
"""What is left of a piece, or of an engine's time, counts as nothing below this."""


@dataclass(slots=True)
class StripePiece:
    """The words that each engine streams for a piece, and the pieces that it reads, by number; `left`: of the piece."""

    words: Mapping[Engine, float]
    reads: Sequence[int]
    left: float = 1.0

    @property
    def is_done(self) -> bool:
        return self.left <= NEARLY


def cycles_beside(pieces: Sequence[StripePiece]) -> float:
    """The cycles until all pieces are done."""
    cycles, front = 0.0, 0
    while front < len(pieces):
        window = [piece for piece in pieces[front : front + BESIDE + 1] if not piece.is_done]
        rates = _rates([piece for piece in window if all(pieces[read].is_done for read in piece.reads)])
        step = min(piece.left / rate for piece, rate in rates)
        cycles += step
        for piece, rate in rates:
            piece.left -= rate * step
        while front < len(pieces) and pieces[front].is_done:
            front += 1
    return cycles


def _rates(ready: Sequence[StripePiece]) -> list[tuple[StripePiece, float]]:
    """The pieces that go on, and the share of each that is done in a cycle."""
    free: dict[Engine, float] = {}
    found = []
    for piece in sorted(ready, key=lambda each: -len(each.words)):
        rate = min(free.get(engine, 1.0) / words for engine, words in piece.words.items())
        if rate * max(piece.words.values()) > NEARLY:
            found.append((piece, rate))
            for engine, words in piece.words.items():
                free[engine] = free.get(engine, 1.0) - rate * words
    return found
