"""The compiler's exceptions: place, fact, expectation and remedy as data, from which the text is printed.

Messages name ONNX nodes by names that remember their operator type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Named(Protocol):
    """A node of a network, or an operator that a node became: messages call both `node 'conv1' (Conv)`."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class NodeName:
    """A node by its name; `kind` is its operator, empty where that is not known."""

    name: str
    kind: str = ""


class CompileError(Exception):
    """A model that cannot be compiled for a machine, or is not what it should be.

    Its text is `place: fact; expected …`, `place: fact; remedy`, or `place: fact; expected …. Remedy`, with what is
    empty left out. `place` is a node, or a text that names something else: a file, an input, a line. `known` introduces
    and lists all that would do (`those that have: Add, Conv`); where space is short it is left out.

    `nodes` are the ONNX nodes at fault, where they are known.
    """

    nodes: tuple[str, ...] = ()

    def __init__(
        self, place: str | Named = "", fact: str = "", *, expected: str = "", remedy: str = "", known: str = ""
    ) -> None:
        self.place = place
        self.fact = fact
        self.expected = expected
        self.remedy = remedy
        self.known = known
        super().__init__(_joined(": ", describe(place), _joined("; ", self.reason, known)))

    @property
    def node(self) -> str:
        """The node that the text begins with; empty if it begins with something else."""
        return "" if isinstance(self.place, str) else self.place.name

    @property
    def reason(self) -> str:
        """The text without its place and without the list of what is known."""
        advice = _joined(". ", self.expected and f"expected {self.expected}", self.remedy)
        return _joined("; ", self.fact, advice)

    def reason_beside(self, node: str) -> str:
        """The text for a table that names a node already: without that node, and without the list of what is known."""
        return self.reason if node and node == self.node else _joined(": ", describe(self.place), self.reason)

    def inside(self, place: str) -> CompileError:
        """The same error with its place inside another: an operator's inside a file."""
        where = _joined(": ", place, describe(self.place))
        return CompileError(where, self.fact, expected=self.expected, remedy=self.remedy, known=self.known)


class FatalError(CompileError):
    """An error that ends a compilation, whatever the host could run: no node is to blame for it, or none can be run."""


class DamagedModel(FatalError):
    """A model that no machine could compile: its own numbers make no sense."""


class NotQuantized(CompileError):
    """A model that computes on floats and was never quantised: the host could run it, but nobody would want that."""


class TooSmall(CompileError):
    """A machine whose memories are too small for every program for a model.

    `place` is the layer; `fact` names the memory, and what is needed and available. `words` are depths of memories that
    are necessary, but perhaps not sufficient. `remedy` is a change that is sufficient.
    """

    def __init__(self, place: str, fact: str, words: Mapping[str, int], remedy: str) -> None:
        super().__init__(place, fact, remedy=remedy)
        self.words = words

    def with_remedy(self, remedy: str) -> TooSmall:
        error = TooSmall(describe(self.place), self.fact, self.words, remedy)
        error.nodes = self.nodes
        return error


class DoesNotFit(CompileError):
    """Buffers that are alive at the same time need more of a memory than there is.

    `needed` and `available` count words of an on-chip memory or bytes of a DRAM region; `layer` is the layer whose
    operations need the space.
    """

    def __init__(self, memory: str, needed: int, available: int, layer: str) -> None:
        super().__init__(layer, f"{memory} needs {needed} words at the same time, the machine has {available}")
        self.memory = memory
        self.needed = needed
        self.available = available
        self.layer = layer


class TooLong(CompileError):
    """A program with more instructions than the waits of its machine can count.

    `starts` are the ONNX nodes of the layers that would each have to begin a program of their own; the first is the
    first that does not end within the count. It is empty if a layer alone has too many.
    """

    def __init__(self, place: str, fact: str, remedy: str, starts: Sequence[tuple[str, ...]]) -> None:
        super().__init__(place, fact, remedy=remedy)
        self.starts = starts


def describe(place: str | Named) -> str:
    """How messages name a place: `node 'conv1' (Conv)`; a text stands for itself."""
    if isinstance(place, str):
        return place
    kind = place.kind.removeprefix("onnx.")
    return f"node {place.name!r} ({kind})" if kind else f"node {place.name!r}"


def first_line(error: Exception) -> str:
    """The first line of another package's error that says anything; the error's type if there is none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _joined(separator: str, *texts: str) -> str:
    """The texts that are not empty."""
    return separator.join(filter(None, texts))


class Blame:
    """Knows which ONNX nodes an error is of: raises it with their names, or collects it in `faults` and goes on.

    What no host helps (FatalError) is always raised.
    """

    def __init__(self, collects: bool = False) -> None:
        self._collects = collects
        self.faults: dict[str, CompileError] = {}
        """The first error of each faulty node."""

    def on(self, nodes: Sequence[str]) -> _Blamed:
        """A context: an error of its body is of these nodes, unless it names others itself."""
        return _Blamed(self, nodes)

    def takes(self, error: CompileError, nodes: Sequence[str]) -> bool:
        """Note that an error is of these nodes, unless it names others; whether it is collected."""
        error.nodes = error.nodes or tuple(nodes)
        if not self._collects or not error.nodes or isinstance(error, FatalError):
            return False
        # Kept with its traceback, it would keep all that the frames of the compilation hold.
        kept = error.with_traceback(None)
        for node in error.nodes:
            self.faults.setdefault(node, kept)
        return True


@dataclass(slots=True)  # not frozen, which would take three times as long to make
class _Blamed:
    """The context of `Blame.on`: every rule of every operator is tried in one, which a generator would make slow."""

    blame: Blame
    nodes: Sequence[str]

    def __enter__(self) -> None:
        """Nothing has to be there."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, CompileError) and self.blame.takes(error, self.nodes)


RAISING = Blame()
"""Raises the first error, which is the normal behaviour."""


# -- names of nodes ----------------------------------------------------------------------------------------------------


class OnnxNode(str):
    """A node's name; `op_type` is its ONNX operator, such as `Conv`. Equal to the plain name."""

    op_type: str

    def __new__(cls, name: str, op_type: str) -> OnnxNode:
        made = super().__new__(cls, name)
        made.op_type = op_type
        return made

    def __reduce__(self) -> tuple[type[OnnxNode], tuple[str, str]]:
        """What copies are made from."""
        return OnnxNode, (str(self), self.op_type)


def describe_nodes(nodes: Iterable[str]) -> str:
    """How messages name nodes: `conv1 (Conv) + relu1 (Relu)`; a plain name stands alone."""
    return " + ".join(f"{node} ({node.op_type})" if isinstance(node, OnnxNode) else node for node in nodes)


def print_nodes(nodes: Iterable[str]) -> tuple[str, ...]:
    """Operator type and name in one text each; an operator type holds no space."""
    return tuple(f"{node.op_type if isinstance(node, OnnxNode) else ''} {node}" for node in nodes)


def parse_nodes(texts: Iterable[str]) -> tuple[str, ...]:
    """What `print_nodes` printed."""
    words = (text.partition(" ") for text in texts)
    return tuple(OnnxNode(name, op_type) if op_type else name for op_type, _, name in words)
