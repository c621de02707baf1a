"""Data from outside, read once by its schema: JSON, or what YAML held. What comes out has the types that it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

LARGEST = 10**18
"""No number in data of ours is larger; within it, sums and products of a few are floats of any use."""


class OutsideError(ValueError):
    """Data is not what its schema says; the message is one line that names the place in it."""


def from_json(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """The value of a JSON text. Raises OutsideError."""
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise OutsideError(_first_line(error)) from error
    except RecursionError as error:
        raise OutsideError("values are nested too deeply") from error


def from_plain(value: Any, kind: type[T]) -> T:
    """Dicts, lists and scalars as a value of a type. Raises OutsideError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.MsgspecError as error:
        raise OutsideError(_first_line(error)) from error
    except RecursionError as error:
        raise OutsideError("values are nested too deeply") from error


def require_amounts(value: Any, where: str) -> None:
    """Raises OutsideError where a number in dicts and lists is below zero or beyond any use."""
    for place, number in _numbers(value, where):
        if not 0 <= number <= LARGEST:
            raise OutsideError(f"{place} is {number!r:.40}; expected a number from 0 to 10¹⁸")


def _numbers(value: Any, where: str) -> Iterator[tuple[str, int | float]]:
    if isinstance(value, int | float):
        yield where, value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _numbers(child, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _numbers(child, where)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
