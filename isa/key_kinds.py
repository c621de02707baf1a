"""What a key of a machine file may hold, and what is said about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.isa.machine.engine import Direction, Template
from tilewright.isa.machine.memory import DRAM

NAME = "[A-Za-z_][A-Za-z0-9_]*"
"""The pattern for whole names of memories, instructions, loops, operands, immediates and parameters."""


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """An integer from `low` to `high`, or an expression over parameters that gives one."""

    low: int
    high: int
    is_power_of_two: bool = False


SIZE = WholeNumber(1, 256)
"""A number of elements side by side."""


@dataclass(frozen=True, slots=True)
class Word:
    """A string: one of `choices`, or any if there are none; `pattern` is what every right one matches."""

    choices: tuple[str, ...] = ()
    pattern: str = ""
    examples: tuple[str, ...] = ()

    def may_be(self, text: str) -> bool:
        """Whether the pattern allows a text; more may be asked of it."""
        return not self.pattern or re.fullmatch(self.pattern, text) is not None


@dataclass(frozen=True, slots=True)
class Words:
    """A list of different strings, each one of `choices`; without choices, names that stand elsewhere in the file."""

    choices: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    is_all: bool = False  # the list is exactly `choices`


@dataclass(frozen=True, slots=True)
class TypeName:
    """An integer type: int16, uint6, …; or the name of a memory above it, whose elements' type is meant."""


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """A mapping with known keys. `exactly_one_of` names keys of which one, and only one, must be there."""

    keys: Mapping[str, Key]
    exactly_one_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """A mapping from names that the file chooses to values of one kind: `least` to `most`, none of `excluded`."""

    values: Kind
    least: int = 0
    most: int | None = None
    pattern: str = NAME
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Either:
    """A value of one of several kinds."""

    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A template and, of a DMA engine, its direction: what decides which keys an engine has."""

    template: Template
    direction: Direction | None = None

    def __str__(self) -> str:
        end = {None: "", Direction.IN: " that reads dram", Direction.OUT: " that writes dram"}[self.direction]
        return f"{self.template} engine{end}"


@dataclass(frozen=True, slots=True)
class Instances:
    """A mapping from names to engines: each has the keys of its kind, which is usual for its name, or that it says."""

    sections: Mapping[EngineKind, KeyMapping]
    usual: Mapping[str, EngineKind]

    def section_of(self, name: str, said: Mapping[str, object]) -> KeyMapping | None:
        """The keys of an engine whose entry says these words; None where neither they nor its name tell its kind."""
        template = said.get("template")
        kind = self.usual.get(name) if template is None else self.kind_of(template, said.get("writes") == [DRAM])
        return None if kind is None else self.sections[kind]

    def kind_of(self, template: object, writes_dram: bool) -> EngineKind | None:
        """The kind of a template; where it has two, one writes dram. None where there is no such template."""
        kinds = [kind for kind in self.sections if kind.template == template]
        directed = [kind for kind in kinds if kind.direction is (Direction.OUT if writes_dram else Direction.IN)]
        return next(iter(directed or kinds), None)


Kind = WholeNumber | Word | Words | TypeName | KeyMapping | Names | Either | Instances


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it holds, what it means in a line, and whether a machine without `extends` must have it.

    With another value of one that `changes_values`, the same network gives other results.
    """

    kind: Kind
    about: str
    is_needed: bool = True
    changes_values: bool = False
