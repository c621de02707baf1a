"""What `rtl` asks about a template: the component of an engine, its memory ports, its stalls, its proofs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.memory import Requester

if TYPE_CHECKING:
    from tilewright.rtl.proof.result import Subject  # which loads the solver


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """A member of an engine's component that reads or writes words of one memory."""

    engine: Engine
    member: str
    memory: str
    requester: Requester


class Facet(ABC):
    """The facts of a template. Components need their ports, so that a facet imports its component where it makes it."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Where its ports stand among those of a memory, from 0: the order in docs/microarchitecture.md."""

    @property
    @abstractmethod
    def stalls(self) -> Mapping[str, Any]:
        """Its stall counters by cause, and the activity that each counts."""

    @abstractmethod
    def component(self, machine: Machine, engine: Engine) -> Any:
        """The hardware of an engine, with the members of `engine_members` and those of its ports."""

    @abstractmethod
    def reads(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        """The ports with which an engine reads memories; privileged ones first."""

    @abstractmethod
    def writes(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        """The ports with which an engine writes memories; privileged ones first."""

    @abstractmethod
    def proofs(self, machine: Machine, engine: Engine) -> Iterator[Subject]:
        """What is proved of an engine at a machine's own sizes."""
