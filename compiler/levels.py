"""The forms that a network has on its way through the compiler: what passes take and what they return.

A level is the class of its values together with their text: whatever a pass gives can be printed, edited and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles
from tilewright.compiler.emission.rules import ORDERED_RULES, PLACED_RULES
from tilewright.compiler.emission.text import parse_ordered, parse_placed, print_ordered, print_placed
from tilewright.compiler.graph.end_rules import END_RULES
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.graph.rules import RULES as GRAPH_RULES
from tilewright.compiler.graph.text import parse_graph, print_graph
from tilewright.compiler.importers.node_rules import NODE_RULES
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.rules import RULES as NEST_RULES
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.rules import BrokenRule, NamedRule, Rule, line_of, require
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.rules import RULES as COVER_RULES
from tilewright.compiler.select.text import parse_selection, print_selection
from tilewright.compiler.text.parser import parse_operation
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tile.rules import RULES as TILE_RULES
from tilewright.compiler.tile.text import parse_tiles, print_tiles
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

Form = Graph | NestProgram | Selection | TileProgram | PlacedTiles | OrderedTiles | Program
"""A network at one of the levels: what passes hand on."""

Value = TypeVar("Value", bound=Form)

Source = str | Path | bytes
"""A model as the first pass takes it."""


class AnyLevel(Protocol):
    """A level, whichever class its values have; what is given to it must be of that class."""

    @property
    def name(self) -> str: ...
    @property
    def rules(self) -> Sequence[NamedRule]: ...
    @property
    def comment(self) -> str: ...
    @property
    def suffix(self) -> str: ...

    def text(self, value: Form) -> str:
        """A value as text."""

    def read(self, text: str, machine: Machine) -> Form:
        """The value of a text, which keeps the rules; raises CompileError or IsaError with the line at fault."""

    def require(self, value: Form) -> None:
        """Raise BrokenRule for the first rule that a value breaks."""


@dataclass(frozen=True, slots=True)
class Level(Generic[Value]):
    """A form of a network: `parse(print(value), machine)` equals `value`.

    Every valid value keeps the `rules`. `comment` begins a line that `parse` skips; `suffix` is that of files with such
    a text.
    """

    name: str
    value: type[Value]
    print: Callable[[Value], str]
    parse: Callable[[str, Machine], Value]
    rules: Sequence[Rule[Value]] = ()
    comment: str = "//"
    suffix: str = ".mlir"

    def read(self, text: str, machine: Machine) -> Value:
        """The value of a text, which keeps the rules; raises CompileError or IsaError with the line at fault."""
        value = self.parse(text, machine)
        try:
            self.require(value)
        except BrokenRule as broken:
            raise broken.at(line_of(parse_operation(text), broken.fault.subject)) from None
        return value

    def require(self, value: Form) -> None:
        """Raise BrokenRule for the first rule that a value breaks."""
        require(self.rules, self.of(value))

    def text(self, value: Form) -> str:
        """`print`, of a value that is known to be of this level only now."""
        return self.print(self.of(value))

    def of(self, value: Form | Source) -> Value:
        """A value that is of this level."""
        assert isinstance(value, self.value), f"{self.name} expected, got {type(value).__name__}"
        return value


class Models:
    """What the first pass takes, in the place of a level."""

    name = "a model"

    def of(self, value: Form | Source) -> Source:
        """A model."""
        assert isinstance(value, str | Path | bytes), f"a model expected, got {type(value).__name__}"
        return value


MODELS = Models()


GRAPH = Level(
    "graph", Graph, print_graph, lambda text, machine: parse_graph(text), (*GRAPH_RULES, *END_RULES, *NODE_RULES)
)
"""Operators on tensors."""

NESTS = Level("nests", NestProgram, print_nests, lambda text, machine: parse_nests(text), NEST_RULES)
"""Loop nests around one expression each."""

COVERS = Level("covers", Selection, print_selection, parse_selection, COVER_RULES)
"""Nests, and the instructions that compute each."""

TILES = Level("tiles", TileProgram, print_tiles, parse_tiles, TILE_RULES)
"""Operations of the machine on buffers that have no addresses yet."""

PLACED_TILES = Level("placed tiles", PlacedTiles, print_placed, parse_placed, PLACED_RULES)
"""The same with the addresses of the buffers."""

ORDERED_TILES = Level("ordered tiles", OrderedTiles, print_ordered, parse_ordered, ORDERED_RULES)
"""The same with the waits of the operations, too."""

INSTRUCTIONS = Level("instructions", Program, disassemble, assemble, comment="#", suffix=".s")
"""The program; its text is assembly. The checker proves what other levels have rules for."""

RULED: Sequence[AnyLevel] = (GRAPH, NESTS, COVERS, TILES, PLACED_TILES, ORDERED_TILES)
"""The levels that have rules, in order."""
