"""The statement of an instruction in a machine file, checked against what the instruction declares."""

from __future__ import annotations

import re
from math import prod

from tilewright.isa.errors import IsaError, short
from tilewright.isa.files.instruction_context import Declarations, MachineSizes
from tilewright.isa.files.keys import STATEMENT
from tilewright.isa.files.reader import ValueReader
from tilewright.isa.files.yaml_tree import Tree
from tilewright.isa.language.expressions import Expr, Scope
from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.language.statement import Statement, parse_statement
from tilewright.isa.machine.engine import Engine, Systolic
from tilewright.isa.machine.memory import storage_bits
from tilewright.isa.templates.table import facet_of


class StatementReader:
    """Reads statements, noting complaints in the shared reader."""

    def __init__(self, reader: ValueReader, machine: MachineSizes) -> None:
        self._reader = reader
        self._machine = machine

    def read(self, tree: Tree, path: str, engine: Engine, declared: Declarations) -> Statement | None:
        """The statement of an instruction of `engine`, or None when it is wrong."""
        text = self._reader.word(tree, path)
        if not isinstance(tree.value, str):
            return None
        if facet_of(engine.template).only_moves:
            return self._read_move(tree, path, text, declared)
        result = declared.destination.element.type
        if result is None:
            name = declared.destination.name
            self._reader.complain(tree.where, path, f"{name} is a structure; a statement writes one integer a lane")
            return None
        try:
            if not STATEMENT.may_be(text):
                raise IsaError(f"{short(text)} is not a statement: expected `{declared.destination.name} = expression`")
            return parse_statement(text, self._scope(declared, result, engine))
        except IsaError as error:
            self._reader.complain(tree.where, path, f"{error}{_cut_hint(text)}")
            return None

    def _scope(self, declared: Declarations, result: IntegerType, engine: Engine) -> Scope:
        array = engine.settings if isinstance(engine.settings, Systolic) else None
        return Scope(
            sources={source.name: source.element.types for source in declared.sources},
            immediates=declared.immediates,
            destination=declared.destination.name,
            destination_type=result,
            reduce_trips=prod(1 << loop.bits for loop in declared.loops if loop.is_reduce),
            dot_length=self._machine.lanes if array is None else array.rows,  # others are refused a dot
            rounding=self._machine.rounding,
            blocks={source.name: source.block for source in declared.sources},
            lanes=self._machine.lanes,
            types=self._reader.types,
        )

    def _read_move(self, tree: Tree, path: str, text: str, declared: Declarations) -> Statement | None:
        """A DMA statement moves whole words, whatever they hold: `destination = source`."""
        if not declared.sources:
            self._reader.complain(tree.where, path, "a dma engine moves one operand: give it a source in `from:`")
            return None
        source, destination = declared.sources[0], declared.destination
        expected = f"{destination.name} = {source.name}"
        if re.sub(r"\s+", " ", text.strip()) != expected:
            quoted = f"`{text}`" if len(text) <= 100 else short(text)
            self._reader.complain(tree.where, path, f"a dma engine only moves: expected `{expected}`, not {quoted}")
            return None
        whole = Interval(0, (1 << min(63, storage_bits(source.element.bits))) - 1)
        return Statement(destination.name, Expr(Op.SOURCE, whole, name=source.name), expected)


def _cut_hint(text: str) -> str:
    """What to do about a text that YAML cut at a comma, seen by its open parenthesis."""
    is_cut = text.count("(") > text.count(")")
    return " (inside { } YAML ends a value at a comma: put it in quotes)" if is_cut else ""
