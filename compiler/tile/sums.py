"""Products that may be computed in another order: sums are exact, so the order of their terms does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tilewright.compiler.tile.accesses import operand_bounds
from tilewright.compiler.tile.program import BufferAddress, TileOperation
from tilewright.isa.machine.encoding import ACCUMULATE
from tilewright.isa.machine.machine import Machine


def sums_of(machine: Machine, product: TileOperation) -> BufferAddress:
    """Where the sums of a product begin."""
    return product.bases[machine.format(product.mnemonic).destination.name]


def can_be_exchanged(machine: Machine, products: Sequence[TileOperation]) -> bool:
    """Whether the sums of any two products are the same, walked in the same way, or have no word in common."""
    walks: dict[tuple[str, int, int], object] = {}
    for product in products:
        format, base = machine.format(product.mnemonic), sums_of(machine, product)
        if not format.has_accumulate:
            return False
        low, stop = operand_bounds(machine, format, format.destination, product)
        loops = format.destination.loop_fields
        walk = base, [(product.fields.get(trip, 1), product.fields.get(stride, 0)) for trip, stride in loops]
        if walks.setdefault((base.buffer, base.offset + low, base.offset + stop), walk) != walk:
            return False
    return all(one[0] != other[0] or one[2] <= other[1] for one, other in pairwise(sorted(walks)))


def exchanged(
    machine: Machine, products: Sequence[TileOperation], order: Sequence[TileOperation]
) -> list[TileOperation]:
    """The products in another order, or in pieces: the first to reach its sums does with them what the first one did.

    The others add to them.
    """
    flags: dict[BufferAddress, int] = {}
    for product in products:
        flags.setdefault(sums_of(machine, product), product.fields.get(ACCUMULATE, 0))
    found = []
    for product in order:
        sums = sums_of(machine, product)
        adds, flags[sums] = flags[sums], 1
        is_same = product.fields.get(ACCUMULATE, 0) == adds
        found.append(product if is_same else product._replace(fields={**product.fields, ACCUMULATE: adds}))
    return found
