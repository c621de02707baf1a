"""Products on several arrays read the words of a tensor in different orders, so that they want different banks.

Each product is cut along the summed loop that moves furthest through the activations, into as many pieces as there are
arrays, and each array begins with another piece. Example: of four blocks of channels in four banks, one array reads
blocks 0 1 2 3 and the other 2 3 0 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

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
    numbers = {name: number for number, name in enumerate(dict.fromkeys(piece.read.buffer for piece in pieces))}
    pieces.sort(key=lambda piece: (numbers[piece.read.buffer], piece.read.offset))
    total, passed, first = sum(piece.vectors for piece in pieces), 0, 0
    while passed * arrays < total * array:
        passed += pieces[first].vectors
        first += 1
    return exchanged(machine, products, [piece.product for piece in (*pieces[first:], *pieces[:first])])


class _ProductPiece(NamedTuple):
    """A product, where the activations that it reads begin, and the vectors of them that enter the array."""

    product: TileOperation
    read: BufferAddress
    vectors: int


def _pieces(machine: Machine, product: TileOperation, count: int) -> list[_ProductPiece]:
    """A product in at most so many pieces along the summed loop that moves furthest; whole if there is none."""
    format, fields = machine.format(product.mnemonic), product.fields
    activations = systolic_activations(format).name
    vectors = prod(trips for name, trips in fields.items() if name.startswith("trip."))
    summed = [loop for loop in format.reduce_loops if fields.get(f"trip.{loop}", 1) > 1]
    loop = max(summed, key=lambda name: abs(fields.get(f"{activations}.{name}", 0)), default=None)
    if loop is None:
        return [_ProductPiece(product, product.bases[activations], vectors)]
    trip, pieces = fields[f"trip.{loop}"], []
    for start, stop in pairwise(sorted({trip * each // count for each in range(count + 1)})):
        bases = {
            name: BufferAddress(base.buffer, base.offset + start * fields.get(f"{name}.{loop}", 0))
            for name, base in product.bases.items()
        }
        piece = product._replace(fields={**fields, f"trip.{loop}": stop - start}, bases=bases)
        pieces.append(_ProductPiece(piece, bases[activations], vectors // trip * (stop - start)))
    return pieces
