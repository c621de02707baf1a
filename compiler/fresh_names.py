"""Names that nothing has yet."""

from __future__ import annotations

from collections.abc import Container, Mapping


def fresh_name(name: str, *taken: Container[str]) -> str:
    """The name, with as many primes as make it differ from all that are taken."""
    while any(name in names for names in taken):
        name += "'"
    return name


def numbered_name(name: str, taken: Mapping[str, object]) -> str:
    """The name, numbered from 2 on where it is taken."""
    candidates = [name, *(f"{name}{count}" for count in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)
