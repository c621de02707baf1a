"""What valid placed and ordered tiles keep: the rules of tiles, buffers in memories, waits for what comes before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tilewright.compiler.emission.packing import Lifetime, buffer_lifetimes, legal_address
from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles, Placement
from tilewright.compiler.rules import Rule, RuleViolation, of_part
from tilewright.compiler.tile.program import WORKSPACE, TileBuffer, TileProgram, engines
from tilewright.compiler.tile.rules import RULES, buffer_fault, operation_fault

Placed = PlacedTiles | OrderedTiles


def _named(tiles: TileProgram) -> Iterator[TileBuffer]:
    """The buffers that an operation names."""
    for name in dict.fromkeys(base.buffer for operation in tiles.operations for base in operation.bases.values()):
        yield tiles.buffers[name]


def _sizes(tiles: TileProgram, placement: Placement) -> Mapping[str, int]:
    memories = {memory.name: memory.depth for memory in tiles.machine.memories.values()}
    return {**memories, WORKSPACE: placement.workspace_bytes}


def _addresses(placed: Placed) -> Iterator[RuleViolation]:
    tiles, placement = placed.tiles, placed.placement
    limit = 1 << tiles.machine.dram.offset_bits
    if not 0 <= placement.workspace_bytes <= limit:
        yield RuleViolation(None, f"workspace_bytes = {placement.workspace_bytes}", "", f"0 to {limit}")
    sizes = _sizes(tiles, placement)
    for buffer in _named(tiles):
        address = placement.addresses.get(buffer.name)
        if address is None:
            yield buffer_fault(buffer, "attribute address is missing")
        elif buffer.offset is not None:
            if address != buffer.offset:
                yield buffer_fault(buffer, f"address {address} differs from its offset {buffer.offset}")
        elif not 0 <= address <= sizes[buffer.place] - buffer.size:
            fact = f"{buffer.size} words at address {address} of {buffer.place}, which has {sizes[buffer.place]}"
            yield buffer_fault(buffer, fact)


def _banks(placed: Placed) -> Iterator[RuleViolation]:
    memories = placed.tiles.machine.memories
    for buffer in _named(placed.tiles):
        if buffer.place in memories:
            address = placed.placement.addresses[buffer.name]
            legal = legal_address(buffer, address, memories[buffer.place].stretch_words)
            if legal != address:
                yield buffer_fault(buffer, f"address {address} is not aligned, or crosses banks", f"{legal}")


def _overlaps(placed: Placed) -> Iterator[RuleViolation]:
    """Of each place, the buffers that are alive, as operations follow each other."""
    alive: dict[str, list[Lifetime]] = {}
    addresses = placed.placement.addresses
    for life in buffer_lifetimes(placed.tiles):
        buffer = life.buffer
        if buffer.offset is not None:
            continue
        others = [other for other in alive.get(buffer.place, []) if other.last >= life.first]
        first, stop = addresses[buffer.name], addresses[buffer.name] + buffer.size
        for other in others:
            start = addresses[other.buffer.name]
            if first < start + other.buffer.size and start < stop:
                fact = f"it shares words of {buffer.place} with {other.buffer.name}, which is alive at the same time"
                yield buffer_fault(buffer, fact, "words of its own")
        alive[buffer.place] = [*others, life]


def _waits(ordered: OrderedTiles) -> Iterator[RuleViolation]:
    tiles, earlier = ordered.tiles, Counter[str]()
    steps = zip(tiles.operations, engines(tiles), ordered.waits, strict=True)
    for index, (operation, engine, wait) in enumerate(steps):
        for name, count in wait.items():
            if name not in tiles.machine.engines:
                fact = f"it waits for {name!r}"
                yield operation_fault(index, operation, fact, f"one of {', '.join(tiles.machine.engines)}")
            elif not 0 < count <= earlier[name]:
                fact = f"it waits for {count} operations of {name}, of which {earlier[name]} come before"
                yield operation_fault(index, operation, fact)
        earlier[engine.name] += 1


PLACED_RULES: Sequence[Rule[PlacedTiles]] = (
    *of_part(RULES, lambda placed: placed.tiles),
    Rule("addresses", "A buffer has an address, inside its memory or region; one with an offset has that.", _addresses),
    Rule("banks", "An address is a multiple of the alignment, and keeps together what lies in one bank.", _banks),
    Rule("overlaps", "Buffers that are alive at the same time share no word.", _overlaps),
)
"""All rules of placed tiles, in order."""

ORDERED_RULES: Sequence[Rule[OrderedTiles]] = (
    *of_part(PLACED_RULES, lambda ordered: PlacedTiles(ordered.tiles, ordered.placement)),
    Rule("waits", "An operation waits for engines of the machine, and for operations before it.", _waits),
)
"""All rules of ordered tiles, in order. That waits are enough, the checker proves of the program."""
