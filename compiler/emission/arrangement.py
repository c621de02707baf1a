"""The order, the addresses and the waits of a tile program: found for one, they hold for all of the same form.

They follow from a program's canonical form alone (`compiler/tile/canonical_tiles.py`). A network in parts repeats its
layers, so most of its parts have the form of an earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.divide import spread, with_mnemonics
from tilewright.compiler.emission.placed import OrderedTiles, Placement
from tilewright.compiler.tile.canonical_tiles import canonical_tiles
from tilewright.compiler.tile.program import TileOperation, TileProgram


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
        """The same of a program of the same form; None if it has another one, or is to be moved otherwise."""
        if (arrays, ahead) != (self.arrays, self.ahead):
            return None
        tiles = spread(tiles, arrays)  # those of the same form are spread in the same way
        form = canonical_tiles(tiles)
        if form != self._form:
            return None
        found, names = self.ordered.placement, form.names_from(self._form)
        addresses = {own: found.addresses[name] for name, own in names.items() if name in found.addresses}
        moved = with_mnemonics(tiles.in_order(self._order), [each.mnemonic for each in self.ordered.tiles.operations])
        return OrderedTiles(moved, Placement(addresses, found.workspace_bytes), self.ordered.waits)

    @cached_property
    def _form(self) -> CanonicalForm:
        return canonical_tiles(self.tiles)

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
