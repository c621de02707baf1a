"""How the manual prints an operation as mathematics: a template, and how tightly it and its arguments bind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Tightness(IntEnum):
    """How tightly what is printed holds together; an argument that binds less than its place needs gets parentheses."""

    ANY = 0
    SUM = 1
    PRODUCT = 2
    ATOM = 3


@dataclass(frozen=True, slots=True)
class Notation:
    """`template` has the arguments as {0}, {1}, …; `arguments` says how tightly each must bind (default: ANY).

    It may also name {type} and {name} of the node, {loops}, the loops that the instruction reduces over, and {offset},
    which takes the least value of the argument's range off an index (" - 3", " + 128" or nothing).
    """

    template: str
    binds: Tightness = Tightness.ATOM
    arguments: tuple[Tightness, ...] = ()

    def argument(self, position: int) -> Tightness:
        return self.arguments[position] if self.arguments else Tightness.ANY


def relation(sign: str) -> Notation:
    """`[x < y]`, 1 where it holds and 0 where not."""
    return Notation(f"[{{0}} {sign} {{1}}]", arguments=(Tightness.SUM, Tightness.SUM))


def over(sign: str, index: str) -> Notation:
    """`Σ[i] x`"""
    return Notation(f"{sign}[{index}] {{0}}", Tightness.SUM, (Tightness.PRODUCT,))
