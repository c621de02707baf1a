"""Chooses an address for each buffer of a tile program, from the buffers' lifetimes.

Two buffers may share words when one's last operation comes before the other's first. On chip, buffers are placed as in
a ring. Where the ring leaves gaps that are too small, and always in DRAM, they are packed for size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.emission.banks import BankedMemory, legal_address
from tilewright.compiler.emission.lifetimes import Lifetime, buffer_lifetimes, live_lower_bound
from tilewright.compiler.emission.packing import height, pack
from tilewright.compiler.emission.ring import place_in_ring
from tilewright.compiler.errors import DoesNotFit
from tilewright.compiler.tile.program import WORKSPACE, TileProgram


@dataclass(frozen=True, slots=True)
class Placement:
    """`addresses` by buffer name: words on chip, bytes in a region."""

    addresses: Mapping[str, int]
    workspace_bytes: int


def allocate(program: TileProgram) -> Placement:
    """Choose an address for every buffer; deterministic.

    Buffers that are alive at the same time never share a word; alignment and banks are as `TileBuffer` says. Raises
    DoesNotFit, naming the layer in which the memory overflows.
    """
    lifetimes = buffer_lifetimes(program)
    addresses = {b.name: b.offset for b in program.buffers.values() if b.offset is not None}
    for memory in program.machine.memories.values():
        items = _waiting_in(memory.name, lifetimes)
        banked = BankedMemory(memory.name, memory.bank_depth, memory.banks)
        placed = place_in_ring(banked, items)
        if placed is None:
            placed = pack(items, banked.bank_words)
            _require_fit(program, banked, items, placed)
        addresses.update(placed)
    workspace = _waiting_in(WORKSPACE, lifetimes)
    placed = pack(workspace)
    addresses.update(placed)
    return Placement(addresses, height(workspace, placed))


def _waiting_in(place: str, lifetimes: Sequence[Lifetime]) -> list[Lifetime]:
    """The buffers of a memory or region that have no fixed offset."""
    return [life for life in lifetimes if life.buffer.place == place and life.buffer.offset is None]


def _require_fit(
    program: TileProgram, memory: BankedMemory, items: Sequence[Lifetime], placed: Mapping[str, int]
) -> None:
    """Raise DoesNotFit of the first buffer that ends beyond the memory, or that no bank holds."""
    for item in sorted(items, key=lambda life: life.first):
        top = placed[item.buffer.name] + item.buffer.size
        if top <= memory.words and legal_address(item.buffer, 0, memory.bank_words) is not None:
            continue
        together = live_lower_bound([other for other in items if other.meets(item)])
        needed = together if together > memory.words else max(top, memory.words + 1)
        layer = program.layers[program.operations[item.first].layer].name
        raise DoesNotFit(memory.name, needed, memory.words, layer)
