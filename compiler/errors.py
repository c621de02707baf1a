"""The compiler's exceptions; each message names the node, what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class CompileError(Exception):
    """A model that cannot be compiled for a machine, or is not what it should be.

    `nodes` are the ONNX nodes at fault, where they are known.
    """

    nodes: tuple[str, ...] = ()


class DamagedModel(CompileError):
    """A model that no machine could compile: its own numbers make no sense."""


class TooSmall(CompileError):
    """A machine whose memories hold no program for a model.

    `fact` names the layer, the memory, and what is needed and available; `words` are depths of memories without which
    this stays so, perhaps not with which it does not; `remedy` is a change that would do.
    """

    def __init__(self, fact: str, words: Mapping[str, int], remedy: str) -> None:
        super().__init__(f"{fact}; {remedy}")
        self.fact = fact
        self.words = words


class DoesNotFit(CompileError):
    """Buffers that are alive at the same time need more of a memory than there is.

    `needed` and `available` count words of an on-chip memory or bytes of a DRAM region; `layer` is the layer whose
    operations need the space.
    """

    def __init__(self, memory: str, needed: int, available: int, layer: str) -> None:
        super().__init__(f"{layer}: {memory} needs {needed} words at the same time, the machine has {available}")
        self.memory = memory
        self.needed = needed
        self.available = available
        self.layer = layer


class Blame:
    """Knows which ONNX nodes an error is of: raises it with their names, or collects it in `faults` and goes on.

    What makes no sense on any machine (DamagedModel) is always raised.
    """

    def __init__(self, collects: bool = False) -> None:
        self._collects = collects
        self.faults: dict[str, CompileError] = {}
        """Of each node at fault, the first error."""

    @contextmanager
    def on(self, nodes: Sequence[str]) -> Iterator[None]:
        """An error of the body is of these nodes, unless it names others itself."""
        try:
            yield
        except CompileError as error:
            error.nodes = error.nodes or tuple(nodes)
            if not self._collects or not error.nodes or isinstance(error, DamagedModel):
                raise
            for node in error.nodes:
                self.faults.setdefault(node, error)


RAISING = Blame()
"""Raises the first error; the ordinary way."""
