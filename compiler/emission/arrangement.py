"""The order, the addresses and the waits of a tile program: found for one, they hold for all of the same outline.

Programs of one outline differ only in names, in the content of constants and in immediates, and nothing in this folder
follows from these. A network in parts repeats its layers, so most of its parts have the outline of an earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.divide import with_mnemonics
from tilewright.compiler.emission.placed import OrderedTiles, Placement
from tilewright.compiler.emission.spread import spread
from tilewright.compiler.tile.program import BufferAddress, TileOperation, TileProgram
from tilewright.isa.machine.encoding import InstructionFormat


@dataclass(frozen=True)
class Arrangement:
    """What was made of `tiles`, which are spread over so many `arrays`, with operations moved `ahead` so far.

    No remark says anything of it.
    """

    tiles: TileProgram
    arrays: int | None
    ahead: Ahead
    ordered: OrderedTiles

    @staticmethod
    def of(tiles: TileProgram, arrays: int | None, ahead: Ahead, ordered: OrderedTiles) -> Arrangement | None:
        """None if there are remarks about what was made: they name layers, and those of others have other names."""
        same = ordered.tiles.remarks == tiles.remarks
        return Arrangement(spread(tiles, arrays), arrays, ahead, ordered) if same else None

    def of_alike(self, tiles: TileProgram, arrays: int | None, ahead: Ahead) -> OrderedTiles | None:
        """The same of a program with the same outline; None if it has another one, or is to be moved otherwise."""
        if (arrays, ahead) != (self.arrays, self.ahead):
            return None
        tiles = spread(tiles, arrays)  # of the same outline they are spread in the same way
        if not have_same_outline(tiles, self.tiles):
            return None
        found = self.ordered.placement
        places = [
            (name, found.addresses.get(other)) for name, other in zip(tiles.buffers, self.tiles.buffers, strict=True)
        ]
        addresses = {name: address for name, address in places if address is not None}
        moved = with_mnemonics(tiles.in_order(self._order), [each.mnemonic for each in self.ordered.tiles.operations])
        return OrderedTiles(moved, Placement(addresses, found.workspace_bytes), self.ordered.waits)

    @cached_property
    def _order(self) -> Sequence[int]:
        """The operations of `tiles`, by index, in the order in which they are. A search made them of equal tiles.

        They may be on other engines by then, by instructions that are alike.
        """
        places: dict[object, deque[int]] = {}
        for index, operation in enumerate(self.tiles.operations):
            places.setdefault(self._value(operation), deque()).append(index)
        return [places[self._value(operation)].popleft() for operation in self.ordered.tiles.operations]

    def _value(self, operation: TileOperation) -> object:
        instruction = self.tiles.machine.alike[operation.mnemonic][0].mnemonic
        return instruction, operation.layer, tuple(operation.bases.items()), tuple(operation.fields.items())


def have_same_outline(one: TileProgram, other: TileProgram) -> bool:
    """Whether two programs differ only in names, in the content of constants and in immediates."""
    sizes = len(one.buffers), len(one.operations), len(one.layers)
    if one.machine != other.machine or sizes != (len(other.buffers), len(other.operations), len(other.layers)):
        return False
    return _buffers(one) == _buffers(other) and _have_same_operations(one, other)


def _buffers(program: TileProgram) -> list[tuple[object, ...]]:
    """All of the buffers but their names."""
    return [(b.place, b.size, b.alignment, b.offset, b.is_in_bank) for b in program.buffers.values()]


def _numbers(program: TileProgram) -> dict[str, int]:
    """The buffers' places in their order, by name."""
    return {name: number for number, name in enumerate(program.buffers)}


def _have_same_operations(one: TileProgram, other: TileProgram) -> bool:
    mine, theirs = _numbers(one), _numbers(other)
    # By identity: the fields of operations that are alike are mostly one object.
    known: dict[tuple[int, int], bool] = {}
    for a, b in zip(one.operations, other.operations, strict=True):
        if a.mnemonic != b.mnemonic or a.layer != b.layer or _numbered(a.bases, mine) != _numbered(b.bases, theirs):
            return False
        key = id(a.fields), id(b.fields)
        if key not in known:
            known[key] = _have_same_loops(one.machine.format(a.mnemonic), a.fields, b.fields)
        if not known[key]:
            return False
    return True


def _numbered(bases: Mapping[str, BufferAddress], numbers: Mapping[str, int]) -> list[tuple[str, int, int]]:
    return [(operand, numbers[buffer], offset) for operand, (buffer, offset) in bases.items()]


def _have_same_loops(format: InstructionFormat, one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether fields differ in immediates alone."""
    return all(one.get(name) == other.get(name) for name in {*one, *other} - format.immediates.keys())
