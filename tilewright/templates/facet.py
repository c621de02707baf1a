"""What pages and reports ask about a template: its colour, and the words on its block."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


class Facet(ABC):
    """The facts of a template; what is not abstract has an answer that suits most templates."""

    @abstractmethod
    def colour(self, engine: Engine) -> str:
        """What an engine's instructions and its block are drawn in: one of `profiles.colours`."""

    @abstractmethod
    def about(self, engine: Engine, machine: Machine) -> str:
        """What an engine is, in a few words that its block has room for."""

    def part(self, engine: Engine) -> str:
        """What `--what-if` calls an engine."""
        return engine.name
