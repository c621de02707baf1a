"""What compilations have found: each thing once, by all that it follows from. It changes nothing but the time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar, cast

from tilewright.compiler.errors import CompileError

Found = TypeVar("Found")

_NOTHING = object()


class MemoScope(IntEnum):
    """Whom things serve that are found; a wider scope is larger."""

    PROGRAM = 1  # one network, compiled for one machine
    NETWORK = 2  # one network, for whatever machines
    ALL = 3  # all networks and machines


def _one(found: object) -> int:
    return 1


@dataclass(frozen=True, eq=False)
class MemoStage(Generic[Found]):
    """A kind of things that are found, for a `scope`, whose weights together are `most` at the most.

    What comes when there is no room left takes the place of all, or, if they are not `renewed`, is not kept.
    """

    most: int
    scope: MemoScope = MemoScope.PROGRAM
    weight: Callable[[Found], int] = _one
    renewed: bool = True


class SameObject:
    """An object as a key: equal for the same object alone, whatever another one holds. It keeps the object."""

    __slots__ = ("_of",)

    def __init__(self, of: object) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)


class Session:
    """What was found by the stages of compilations.

    A compilation is given one, or makes its own; who compiles again and again keeps one. Without an `outer` session it
    holds all; with one, what serves more than its `scope` is in that. It is not sent to other processes: a copy there
    is empty.
    """

    def __init__(self, scope: MemoScope = MemoScope.ALL, outer: Session | None = None) -> None:
        self._scope, self._outer = scope, outer
        self._found: dict[MemoStage[Any], dict[Hashable, object]] = {}
        self._weights: dict[MemoStage[Any], int] = {}

    def __reduce__(self) -> tuple[type[Session], tuple[()]]:
        return Session, ()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget all: what was found holds the session, too, and would stay until Python looks for such circles."""
        self._found.clear()
        self._weights.clear()

    def inner(self, scope: MemoScope) -> Session:
        """A session that is empty but for what serves more than a scope, which is that of this one."""
        return Session(scope, self)

    def memo(self, stage: MemoStage[Found], key: Hashable, make: Callable[[], Found]) -> Found:
        """What `make` gives, which is called once for a key. Raises the CompileError that it raised, each time."""
        known = self._of(stage)._found.get(stage, {}).get(key, _NOTHING)
        if known is _NOTHING:
            try:
                known = make()
            except CompileError as error:
                known = error
            self.keep(stage, key, cast(Found, known))
        if isinstance(known, CompileError):
            raise known.with_traceback(None)
        return cast(Found, known)

    def known(self, stage: MemoStage[Found], key: Hashable) -> Found | None:
        """What was found of a key; None if nothing was."""
        return cast("Found | None", self._of(stage)._found.get(stage, {}).get(key))

    def keep(self, stage: MemoStage[Found], key: Hashable, found: Found) -> None:
        """Keep what was found; nothing takes the place of what is known."""
        self._of(stage)._keep(stage, key, found)

    def _of(self, stage: MemoStage[Any]) -> Session:
        """The session that holds a stage."""
        held = self
        while held._outer is not None and stage.scope > held._scope:
            held = held._outer
        return held

    def _keep(self, stage: MemoStage[Found], key: Hashable, found: Found) -> None:
        kept = self._found.setdefault(stage, {})
        if key in kept:
            return
        weight = 1 if isinstance(found, CompileError) else stage.weight(found)
        if self._weights.get(stage, 0) + weight > stage.most:
            if not stage.renewed:
                return
            kept.clear()
            self._weights[stage] = 0
        kept[key] = found
        self._weights[stage] = self._weights.get(stage, 0) + weight
