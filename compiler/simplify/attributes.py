"""Reads an operator's attributes and refuses those that nobody read, so that none is overlooked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator


class Attributes:
    """The attributes of an ONNX operator, each to be read once, with the name and default that ONNX's schema gives."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self._left = dict(operator.attributes)

    def integer(self, name: str, default: int) -> int:
        return int(self._left.pop(name, default))

    def number(self, name: str, default: float) -> float:
        return float(self._left.pop(name, default))

    def text(self, name: str, default: str) -> str:
        return str(self._left.pop(name, default))

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        value = self._left.pop(name, default)
        return None if value is None else tuple(int(item) for item in value)

    def array(self, name: str) -> NDArray[Any] | None:
        """An array that an earlier rule left, not the file."""
        value: NDArray[Any] | None = self._left.pop(name, None)
        return value

    def only(self, name: str, *allowed: int | str) -> None:
        """Read an attribute that may be left out or have one of these values; raises CompileError for others."""
        value = self._left.pop(name, allowed[0])
        if value not in allowed:
            raise CompileError(
                self.operator, f"{name} = {value!r} has no lowering", expected=" or ".join(map(repr, allowed))
            )

    def ignore(self, *names: str) -> None:
        """Attributes that do not change what the operator computes at inference."""
        for name in names:
            self._left.pop(name, None)

    def finish(self) -> None:
        for name in self._left:
            raise CompileError(self.operator, f"attribute {name!r} has no lowering", remedy="remove it")


@contextmanager
def attributes_of(operator: Operator) -> Iterator[Attributes]:
    """The attributes of an operator; at the end of the block, every one must have been read."""
    attributes = Attributes(operator)
    yield attributes
    attributes.finish()
