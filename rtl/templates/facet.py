"""What `rtl` asks about a template: an engine's memory ports, and its stalls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.memory import Requester


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """A member of an engine's component that reads or writes words of one memory."""

    engine: Engine
    member: str
    memory: str
    requester: Requester


class Facet(ABC):
    """The facts of a template that components are made from: so a facet imports none of them."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Where its ports stand among those of a memory, from 0: the order in docs/microarchitecture.md."""

    @property
    @abstractmethod
    def stalls(self) -> Mapping[str, Any]:
        """Its stall counters by cause, and the activity that each counts."""

    @abstractmethod
    def reads(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        """The ports with which an engine reads memories; privileged ones first."""

    @abstractmethod
    def writes(self, machine: Machine, engine: Engine) -> Iterator[MemoryPort]:
        """The ports with which an engine writes memories; privileged ones first."""
