"""How many products each sum of an array holds whatever their values, where that is fewer than layers have."""

from __future__ import annotations

from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.ranges import of_product
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine

MANY_PRODUCTS = 3 * 3 * 512
"""Those of a sum in the widest convolutions of ResNet-18 and ResNet-34."""


def sum_notes(machine: Machine) -> tuple[str, ...]:
    """A sentence for each type of sums, with its instructions, that holds fewer products than `MANY_PRODUCTS`."""
    found: dict[str, list[str]] = {}
    for format in machine.formats_of(Template.SYSTOLIC):
        factors, held = [operand.element.type for operand in format.sources], format.destination.element.type
        types = [factor for factor in factors if factor is not None]
        if held is None or len(types) < len(factors):
            continue
        count = products_held(types, held)
        if count < MANY_PRODUCTS:
            products = f"any {count:,} products of {' by '.join(map(str, types))}"
            found.setdefault(f"memories.{format.destination.memory}: {held} holds the sum of {products}", []).append(
                format.mnemonic
            )
    return tuple(
        f"{fact}, as of {', '.join(mnemonics)}; layers with more run if their weights prove that their sums fit, or in "
        "pieces that a vector instruction adds up"
        for fact, mnemonics in found.items()
    )


def products_held(factors: list[IntegerType], held: IntegerType) -> int:
    """The most products whose sum fits, whatever the values."""
    product, limits = of_product(*(factor.values for factor in factors)), held.interval
    fits = [limits.high // product.high] if product.high > 0 else []
    return min(fits + ([limits.low // product.low] if product.low < 0 else []))
