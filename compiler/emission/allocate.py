"""Chooses an address for each buffer of a tile program, from the buffers' lifetimes.

Two buffers may share words when one's last operation comes before the other's first. On chip, buffers are placed as in
a ring; where a gap is missing, those in the way are placed again, at last in any bank. A memory in which that does not
end, and DRAM, are packed for size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.compiler.emission.banks import MemoryBanks, legal_address
from tilewright.compiler.emission.contention import contention
from tilewright.compiler.emission.lifetimes import Lifetime, buffer_lifetimes, live_lower_bound
from tilewright.compiler.emission.packing import height, pack
from tilewright.compiler.emission.placed import PlacedTiles, Placement
from tilewright.compiler.emission.ring import place_in_ring
from tilewright.compiler.errors import DoesNotFit
from tilewright.compiler.tile.accesses import Integers
from tilewright.compiler.tile.program import WORKSPACE, TileProgram

PACKED = "its buffers are packed for size; engines may wait for each other's words, and a larger memory would be faster"
"""The remark about a memory that is nearly full all the time."""


def allocate(program: TileProgram, starts: Integers | None = None) -> PlacedTiles:
    """Choose an address for every buffer; deterministic. `starts`: the cycle in which each operation starts, if known.

    Buffers that are alive at the same time never share a word; alignment and banks are as `TileBuffer` says. Remarks of
    the program say which memories are crowded. Raises DoesNotFit, naming the layer in which the memory overflows.
    """
    lifetimes = buffer_lifetimes(program)
    addresses = {b.name: b.offset for b in program.buffers.values() if b.offset is not None}
    contending = contention(program, starts)
    remarks: dict[str, str] = {}
    for memory in program.machine.memories.values():
        items = _waiting_in(memory.name, lifetimes)
        banked = MemoryBanks(memory.name, memory.stretch_words, memory.stretches)
        ring = place_in_ring(banked, items, contending)
        if ring is None:
            packed = pack(items, banked.bank_words)
            _require_fit(program, banked, items, packed)
            remarks[f"room in {memory.name}"] = PACKED
        elif ring.moved or ring.crowded:
            remarks[f"room in {memory.name}"] = _crowded_remark(program, items, {*ring.moved, *ring.crowded})
        addresses.update(packed if ring is None else ring.addresses)
    workspace = _waiting_in(WORKSPACE, lifetimes)
    packed = pack(workspace)
    addresses.update(packed)
    return PlacedTiles(program.with_remarks(remarks), Placement(addresses, height(workspace, packed)))


def _crowded_remark(program: TileProgram, items: Sequence[Lifetime], crowded: Collection[str]) -> str:
    """How many buffers are not where they were to be, and in which layers."""
    layers = dict.fromkeys(
        program.layers[program.operations[item.first].layer].name for item in items if item.buffer.name in crowded
    )
    first, *others = layers
    where = f"{first} and {len(others)} other layers" if len(others) > 1 else " and ".join(layers)
    return f"{len(crowded)} of {len(items)} buffers made room for others, in {where}; engines may wait for their words"


def _waiting_in(place: str, lifetimes: Sequence[Lifetime]) -> list[Lifetime]:
    """The buffers of a memory or region that have no fixed offset."""
    return [life for life in lifetimes if life.buffer.place == place and life.buffer.offset is None]


def _require_fit(
    program: TileProgram, memory: MemoryBanks, items: Sequence[Lifetime], placed: Mapping[str, int]
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
