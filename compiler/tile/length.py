"""How long a program may be: its waits count the instructions of each engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tilewright.compiler.errors import TooLong
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


def require_countable(tiles: TileProgram) -> None:
    """Raises TooLong for a program of which an engine has more instructions than a wait can count."""
    limit = tiles.machine.max_instructions_per_engine
    if all(count <= limit for count in Counter(tiles.of_each(engines)).values()):
        return
    counts = _instructions_by_layer(tiles)
    total: Counter[Engine] = Counter()
    for layer, added in zip(tiles.layers, counts, strict=True):
        total.update(added)
        engine = next((engine for engine in tiles.machine.engines.values() if total[engine] > limit), None)
        if engine is not None:
            starts, alone = tuple(_starts(tiles, counts)), _too_long_alone(tiles, counts)
            raise too_long(tiles.machine, alone or layer.name, engine, starts)


def too_long(machine: Machine, layer: str, engine: Engine, starts: Sequence[tuple[str, ...]]) -> TooLong:
    """The error for a program that becomes too long in a layer, by the instructions of an engine."""
    return TooLong(
        layer,
        f"the program has more than {machine.max_instructions_per_engine} instructions for {engine}, which "
        f"wait_bits = {machine.wait_bits} cannot count",
        "use a machine with wider wait counts",
        starts,
    )


def _instructions_by_layer(tiles: TileProgram) -> list[Counter[Engine]]:
    """How many instructions each engine has in each layer."""
    counts: list[Counter[Engine]] = [Counter() for _ in tiles.layers]
    for operation in tiles.operations:
        counts[operation.layer][tiles.machine.format(operation.mnemonic).engine] += 1
    return counts


def _too_long_alone(tiles: TileProgram, counts: Sequence[Counter[Engine]]) -> str:
    """The first layer that is too long by itself; empty if there is none."""
    limit = tiles.machine.max_instructions_per_engine
    layers = zip(tiles.layers, counts, strict=True)
    return next((layer.name for layer, own in layers if max(own.values(), default=0) > limit), "")


def _starts(tiles: TileProgram, counts: Sequence[Counter[Engine]]) -> Iterator[tuple[str, ...]]:
    """The nodes of each layer at which another program has to begin; none if a layer alone is too long."""
    limit = tiles.machine.max_instructions_per_engine
    total: Counter[Engine] = Counter()
    if any(count > limit for added in counts for count in added.values()):
        return
    for layer, added in zip(tiles.layers, counts, strict=True):
        total = total + added
        if any(count > limit for count in total.values()):
            yield tuple(str(node) for node in layer.nodes)
            total = added
