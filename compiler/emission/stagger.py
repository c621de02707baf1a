"""Products on several arrays read the words of a tensor in different orders, so that they want different banks.

Each product is cut along the summed loop that moves furthest through the activations, into as many pieces as there are
arrays, and each array begins with another piece. Example: of four blocks of channels in four banks, one array reads
blocks 0 1 2 3 and the other 2 3 0 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from tilewright.compiler.tile.program import BufferAddress, TileOperation
from tilewright.compiler.tile.sums import can_be_exchanged, exchanged
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations


def staggered(machine: Machine, products: Sequence[TileOperation], array: int, arrays: int) -> Sequence[TileOperation]:
    """Products that follow each other on one of so many arrays, in the order of that array.

    They stay as they are if some of their sums overlap in parts.
    """
    if not can_be_exchanged(machine, products):
        return products
    pieces = [piece for product in products for piece in _pieces(machine, product, arrays)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(_read(machine, p).buffer for p in pieces))}
    pieces.sort(key=lambda piece: (numbers[_read(machine, piece).buffer], _read(machine, piece).offset))
    total, passed, first = sum(map(_vectors, pieces)), 0, 0
    while passed * arrays < total * array:
        passed += _vectors(pieces[first])
        first += 1
    return exchanged(machine, products, [*pieces[first:], *pieces[:first]])


def _pieces(machine: Machine, product: TileOperation, count: int) -> list[TileOperation]:
    """A product in at most so many pieces along the summed loop that moves furthest; whole if there is none."""
    format, fields = machine.format(product.mnemonic), product.fields
    vectors = systolic_activations(format).name
    summed = [loop for loop in format.reduce_loops if fields.get(f"trip.{loop}", 1) > 1]
    loop = max(summed, key=lambda name: abs(fields.get(f"{vectors}.{name}", 0)), default=None)
    if loop is None:
        return [product]
    trip, pieces = fields[f"trip.{loop}"], []
    for start, stop in pairwise(sorted({trip * each // count for each in range(count + 1)})):
        bases = {
            name: BufferAddress(base.buffer, base.offset + start * fields.get(f"{name}.{loop}", 0))
            for name, base in product.bases.items()
        }
        pieces.append(product._replace(fields={**fields, f"trip.{loop}": stop - start}, bases=bases))
    return pieces


def _read(machine: Machine, product: TileOperation) -> BufferAddress:
    """Where the activations of a product begin."""
    return product.bases[systolic_activations(machine.format(product.mnemonic)).name]


def _vectors(product: TileOperation) -> int:
    """The vectors that enter the array."""
    return prod(count for name, count in product.fields.items() if name.startswith("trip."))
