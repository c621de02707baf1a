"""An input or output of a network as C has it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class End:
    """An input or output: its name in the network and in C, the type of an element in C, and which way it goes."""

    title: str
    name: str
    kind: str
    shape: tuple[int, ...]
    is_input: bool

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def is_real(self) -> bool:
        return self.kind == "float"

    @property
    def about(self) -> str:
        """Its shape, for a comment."""
        return " × ".join(map(str, self.shape)) or "a scalar"

    def signature(self, network: str) -> str:
        """The function that takes it from an array of the host, or gives it to one."""
        if self.is_input:
            return f"void {network}_set_{self.name}(void *arena, const {self.kind} *values)"
        return f"void {network}_get_{self.name}(const void *arena, {self.kind} *values)"
