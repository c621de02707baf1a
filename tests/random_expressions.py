"""Seeded random expressions of the statement language, with values for what they name, often at an end of a range."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from tilewright.isa.errors import IsaError
from tilewright.isa.language.expressions import Scope
from tilewright.isa.language.numeric import IntegerType, Rounding, parse_integer_type
from tilewright.isa.language.statement import Statement, parse_statement

SOURCES: Mapping[str, Mapping[str, str]] = {
    "a": {"": "int8"},
    "b": {"": "int16"},
    "c": {"": "int32"},
    "p": {"bias": "int32", "scale": "uint16", "shift": "uint6"},
}
IMMEDIATES: Mapping[str, str] = {"m": "int8", "n": "uint4", "z": "uint12"}
DESTINATION = "int32"

LEAVES = (
    *(f"{name}.{field}" if field else name for name, fields in SOURCES.items() for field in fields),
    *IMMEDIATES,
)
TYPES = ("int2", "int5", "int8", "int16", "int20", "int32", "uint1", "uint3", "uint8", "uint16", "uint31")


def random_text(rng: random.Random, depth: int, may_reduce: bool) -> str:
    """An expression nested about so deep; with `may_reduce`, seldom with a reduction somewhere in it."""
    if depth == 0 or rng.random() < 0.08:
        return rng.choice(LEAVES) if rng.random() < 0.8 else str(rng.choice([0, 1, -1, 3, 127, -128, 1000, -70000]))

    def one(reduces: bool = False) -> str:
        return random_text(rng, depth - 1, reduces)

    def pair() -> tuple[str, str]:
        left = rng.random() < 0.5
        return one(may_reduce and left), one(may_reduce and not left)

    if may_reduce and rng.random() < 0.3:
        return f"{rng.choice(['sum', 'max_over', 'min_over'])}({one()})"
    match rng.randrange(12):
        case 0 | 1 | 2:
            a, b = pair()
            return f"({a} {rng.choice('+-*')} {b})"
        case 3:
            a, b = pair()
            return f"({a} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"
        case 4:
            return f"{rng.choice(['min', 'max'])}({', '.join(pair())})"
        case 5:
            return f"{rng.choice(['abs', 'clz'])}({one(may_reduce)})"
        case 6:
            a, b = pair()
            return f"where({one()}, {a}, {b})"
        case 7:
            return f"({one(may_reduce)} {rng.choice(['<<', '>>'])} {random_count(rng)})"
        case 8 | 9:
            return f"round_shift({one(may_reduce)}, {random_count(rng)})"
        case 10:
            return f"{rng.choice(['wrap', 'sat'])}({one(may_reduce)}, {rng.choice(TYPES)})"
        case _:
            low, high = sorted(rng.randint(-300, 300) for _ in range(2))
            return f"clamp({one(may_reduce)}, {low}, {high})"


def random_count(rng: random.Random) -> str:
    return rng.choice(["n", "p.shift", f"min(p.shift, {rng.randint(0, 40)})", str(rng.randint(0, 31)), "(n + 3)"])


def random_statements(
    rng: random.Random, count: int, rounding: Rounding, reduce_trips: int, destination: str = "y"
) -> Iterator[Statement]:
    """So many statements; half may reduce. What the language refuses for its range is drawn again."""
    scope = Scope(
        sources={name: {f: parse_integer_type(of) for f, of in fields.items()} for name, fields in SOURCES.items()},
        immediates={name: parse_integer_type(of) for name, of in IMMEDIATES.items()},
        destination=destination,
        destination_type=parse_integer_type(DESTINATION),
        reduce_trips=reduce_trips,
        dot_length=1,
        rounding=rounding,
    )
    while count > 0:
        text = random_text(rng, rng.randint(1, 4), rng.random() < 0.5)
        statement = _parsed(f"{destination} = {text}", scope) or _parsed(
            f"{destination} = wrap({text}, {DESTINATION})", scope
        )
        if statement is not None:
            yield statement
            count -= 1


def _parsed(text: str, scope: Scope) -> Statement | None:
    try:
        return parse_statement(text, scope)
    except IsaError:
        return None


def random_value(rng: random.Random, of: IntegerType) -> int:
    low, high = of.interval.low, of.interval.high
    if rng.random() < 0.4:
        return rng.choice([low, high, min(max(low, 0), high), min(high, 1), max(low, -1)])
    if rng.random() < 0.5:
        return min(max(rng.randint(-20, 20), low), high)
    return rng.randint(low, high)


def random_sources(rng: random.Random) -> dict[tuple[str, str], int]:
    """A value for each source of one lane of one iteration."""
    return {
        (name, field): random_value(rng, parse_integer_type(of))
        for name, fields in SOURCES.items()
        for field, of in fields.items()
    }


def random_immediates(rng: random.Random) -> dict[str, int]:
    return {name: random_value(rng, parse_integer_type(of)) for name, of in IMMEDIATES.items()}
