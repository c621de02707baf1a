"""When each buffer of a tile program is alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.compiler.errors import CompileError
from tilewright.compiler.tile.program import TileBuffer, TileProgram


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer with its first and last operation."""

    buffer: TileBuffer
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def buffer_lifetimes(program: TileProgram) -> list[Lifetime]:
    """Lifetimes of the buffers that any operation names, by first operation and then by order of declaration."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, operation in enumerate(program.operations):
        for operand, base in operation.bases.items():
            if base.buffer not in program.buffers:
                where = f"operation {index} ({operation.mnemonic})"
                raise CompileError(f"{where}: {operand} names no buffer: {base.buffer!r}")
            first.setdefault(base.buffer, index)
            last[base.buffer] = index
    found = [Lifetime(buffer, first[name], last[name]) for name, buffer in program.buffers.items() if name in first]
    return sorted(found, key=lambda life: life.first)


def live_lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """The most words that are alive at any one operation: no packing needs less."""
    changes: dict[int, int] = {}
    for life in lifetimes:
        changes[life.first] = changes.get(life.first, 0) + life.buffer.size
        changes[life.last + 1] = changes.get(life.last + 1, 0) - life.buffer.size
    total = most = 0
    for _, change in sorted(changes.items()):
        total += change
        most = max(most, total)
    return most
