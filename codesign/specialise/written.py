"""An expression of a nest as the statement of an instruction: tensors become operands, numbers immediates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tilewright.codesign.specialise.roles import NumberPlace, Roles, place_of
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.facts import Setting
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import REDUCTIONS, Op
from tilewright.isa.machine.memory import Element

LETTERS = "abcdefgh"
PARAMETERS, TABLE, WEIGHTS, RESULT = "p", "t", "w", "y"
"""The names of operands: tensors and sums have letters."""


class NotWritten(Exception):
    """Why an expression cannot be a statement of the machine."""


@dataclass(frozen=True, slots=True)
class Memories:
    """Where a machine has what an instruction reads and writes; a name is empty where it has no such memory."""

    activations: str
    activation: IntegerType | None  # of an element there
    weights: str
    sums: str
    parameters: str
    fields: Element | None  # of a word of parameters
    tables: tuple[TableOperand, ...]


@dataclass(frozen=True, slots=True)
class TableOperand:
    """An operand that is a table, as an instruction of the machine has it: `256 * lut[]`, its memory and elements."""

    clause: str
    memory: str
    element: IntegerType


class Over(StrEnum):
    """The loops that move an operand."""

    ALL = "all"
    CHANNEL = "channel"  # the first that stays
    TAPS = "taps"  # that and all that the statement reduces
    REDUCED = "reduced"
    KEPT = "kept"  # all that stay: a value for each result
    NONE = "none"  # a table


@dataclass(frozen=True, slots=True)
class StatementOperand:
    """A source of a statement: its memory, what moves it, and for a table the whole clause."""

    name: str
    memory: str
    over: Over = Over.ALL
    block: int = 1
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """An immediate: its name, its place, and its value in the nest."""

    name: str
    place: NumberPlace
    value: int


@dataclass(frozen=True)
class Written:
    """A statement with its operands and numbers; equal texts and operands are one instruction."""

    text: str
    operands: tuple[StatementOperand, ...]
    numbers: tuple[Number, ...]


@dataclass
class _Waiting:
    """A number whose name is not known yet: what it is called, and of which operand."""

    base: str
    owner: str
    place: NumberPlace
    value: int


class StatementWriter:
    """Writes expressions of one nest. `sums` names reads that are sums in the accumulators' memory.

    `values` has the memories of what other instructions have computed for each result, by the names of these reads.
    """

    def __init__(
        self,
        nest: Nest,
        program: NestProgram,
        memories: Memories,
        roles: Roles,
        sums: Collection[str] = (),
        blocks: Mapping[str, int] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        self._nest, self._program, self._memories, self._roles = nest, program, memories, roles
        self._sums, self._blocks, self._values = sums, blocks or {}, values or {}
        self._reduces = False
        self._operands: dict[str, StatementOperand] = {}  # by read; all parameters are one
        self._fields: dict[str, str] = {}  # read → field of the parameters
        self._numbers: list[_Waiting] = []

    def write(self, expr: Expr, wrapped_in: str = "") -> Written:
        """A statement, of whose value the elements of a memory are kept if one is named. Raises NotWritten."""
        self._reduces = any(node.op in REDUCTIONS for node in walk(expr))
        text = f"{RESULT} = " + (f"wrap({self._text(expr)}, {wrapped_in})" if wrapped_in else self._text(expr))
        numbers = []
        for position, name in enumerate(self._names()):
            text = text.replace(_mark(position), name)
            numbers.append(Number(name, self._numbers[position].place, self._numbers[position].value))
        return Written(text, tuple(self._operands.values()), tuple(numbers))

    def _names(self) -> list[str]:
        """The last of several of one name, which is nearest to the result, has it plainly; others are counted."""
        plain = [f"{each.owner}_{each.base}" if each.owner else each.base for each in self._numbers]
        seen: dict[str, int] = {}
        found = []
        for name in plain:
            seen[name] = seen.get(name, 0) + 1
            found.append(name if seen[name] == plain.count(name) else f"{name}{seen[name]}")
        return found

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _text(self, expr: Expr) -> str:
        match expr.op:
            case Op.SOURCE:
                return self._source(expr.name)
            case Op.LUT:
                return f"lut({self._table(expr.name)}, {self._text(expr.args[0])})"
            case Op.MIN if (clamped := self._clamped(expr)) is not None:
                return clamped
            case Op.MIN | Op.MAX | Op.WHERE if self._is_narrower(expr):
                return f"wrap({self._plain(expr)}, {self._memories.activations})"
        return self._plain(expr)

    def _plain(self, expr: Expr) -> str:
        if expr.op.facts.setting is Setting.TABLE:
            raise NotWritten(f"`{expr.op.value}` is not written yet")
        arguments = [self._argument(expr, position) for position in range(len(expr.args))]
        if expr.op is Op.SUM and self._blocks:
            arguments = [f"words_sum({argument})" for argument in arguments]
        if expr.op.is_infix:
            bracketed = [
                f"({text})" if arg.op.is_infix and arg.args else text
                for arg, text in zip(expr.args, arguments, strict=True)
            ]
            return f" {expr.op.value} ".join(bracketed)
        if expr.op.facts.setting is Setting.TYPE:
            arguments.append(str(expr.type))
        return f"{expr.op.value}({', '.join(arguments)})"

    def _is_narrower(self, expr: Expr) -> bool:
        """Whether a choice between an activation and a parameter, whose field is wider, is an activation."""
        held = self._memories.activation
        reads = [self._nest.reads.get(arg.name) for arg in expr.args if arg.op is Op.SOURCE]
        has_field = any(read is not None and self._is_field(read) for read in reads)
        return has_field and held is not None and held.interval.contains(expr.range)

    def _clamped(self, expr: Expr) -> str | None:
        """`clamp(x, low, high)` for the two comparisons with numbers that it stands for."""
        inner, high = expr.args
        if inner.op is not Op.MAX or high.op is not Op.CONST or inner.args[1].op is not Op.CONST:
            return None
        return f"clamp({self._text(inner.args[0])}, {self._argument(inner, 1)}, {self._argument(expr, 1)})"

    def _argument(self, parent: Expr, position: int) -> str:
        expr = parent.args[position]
        if expr.op is not Op.CONST:
            return self._text(expr)
        place = place_of(parent, position)
        others = [self._operands.get(arg.name) for arg in parent.args if arg.op is Op.SOURCE]
        owner = next((of.name for of in others if of is not None and of.name != PARAMETERS), "")
        self._numbers.append(_Waiting(self._roles.name(place), owner, place, expr.value))
        return _mark(len(self._numbers) - 1)

    # -- operands ------------------------------------------------------------------------------------------------------

    def _source(self, read: str) -> str:
        access = self._nest.reads.get(read)
        if read in self._values and access is None:
            return self._stream(read, self._values[read], Over.KEPT if self._reduces else Over.ALL)
        if read in self._sums or access is None:
            return self._stream(read, self._memories.sums)
        if access.tensor in self._program.buffers:
            return self._stream(read, self._memories.activations)
        if self._is_field(access):
            return f"{self._parameters(access)}.{self._field(read, access)}"
        if read in self._blocks or self._is_weight(access):
            self._operands.setdefault(
                read, StatementOperand(WEIGHTS, self._memories.weights, Over.TAPS, block=self._blocks.get(read, 1))
            )
            return WEIGHTS
        return self._stream(read, self._memory_of(access.tensor))

    def _memory_of(self, constant: str) -> str:
        """Where a constant of several dimensions is loaded to: with activations if they hold its type, or with sums."""
        held = self._memories.activation
        fits = held is not None and _holds(held, self._program.constant_types[constant])
        return self._memories.activations if fits else self._memories.sums

    def _is_field(self, access: Access) -> bool:
        """Whether it is a constant of each channel, which stands in words of parameters."""
        is_constant = access.tensor not in self._program.buffers
        return is_constant and len(access.index) == 1 and self._memories.fields is not None

    def _stream(self, read: str, memory: str, over: Over = Over.ALL) -> str:
        if read not in self._operands:
            count = sum(operand.name in LETTERS for operand in self._operands.values())
            self._operands[read] = StatementOperand(LETTERS[count], memory, over, self._blocks.get(read, 1))
        return self._operands[read].name

    def _parameters(self, access: Access) -> str:
        """One word has all parameters: raises NotWritten where some are of channels that are reduced, others not."""
        reduced = {loop.name for loop in self._nest.loops if loop.is_reduce}
        over = Over.REDUCED if {name for name, _ in access.index[0].terms} & reduced else Over.CHANNEL
        known = self._operands.setdefault(PARAMETERS, StatementOperand(PARAMETERS, self._memories.parameters, over))
        if known.over is not over:
            raise NotWritten("it takes parameters of the channels that it reduces and of others")
        return PARAMETERS

    def _field(self, read: str, access: Access) -> str:
        """The field of a word of parameters that a constant of each channel is in: its name, or the narrowest."""
        if read in self._fields:
            return self._fields[read]
        assert self._memories.fields is not None
        of_type = self._program.constant_types[access.tensor]
        able = [each for each in self._memories.fields.fields if _holds(each.type, of_type)]
        left = [each.name for each in sorted(able, key=lambda each: each.type.bits)]
        left = [name for name in left if name not in self._fields.values()]
        if not left:
            raise NotWritten(f"a word of {self._memories.parameters} has no further field of {of_type}")
        self._fields[read] = read if read in left else left[0]
        return self._fields[read]

    def _is_weight(self, access: Access) -> bool:
        """Whether each channel has one of its own, for each tap."""
        return len(access.index) > 1 and not access.index[0].terms and bool(access.index[1].terms)

    def _table(self, read: str) -> str:
        if not self._memories.tables:
            raise NotWritten("the machine has no instruction that looks up in a table")
        access = self._nest.reads[read]
        of_type = self._program.constant_types[access.tensor]
        table = next((each for each in self._memories.tables if _holds(each.element, of_type)), None)
        if table is None:
            raise NotWritten(f"no instruction of the machine looks up in a table of {of_type}")
        if any(index.terms for index in access.index):
            raise NotWritten("each channel has a table of its own")
        if any(of.name == TABLE and key != read for key, of in self._operands.items()):
            raise NotWritten("it looks up in two tables")
        self._operands[read] = StatementOperand(TABLE, table.memory, Over.NONE, clause=table.clause)
        return TABLE


def _holds(wide: IntegerType, narrow: IntegerType) -> bool:
    """Whether a type holds every value of another one."""
    return wide.interval.low <= narrow.interval.low and narrow.interval.high <= wide.interval.high


def _mark(position: int) -> str:
    return f"\0{position}\0"


def with_sums(expr: Expr, total: Expr, name: str) -> Expr:
    """The expression with the node `total` as a source of this name."""
    if expr is total:
        return Expr(Op.SOURCE, expr.range, name=name)
    return replace(expr, args=tuple(with_sums(arg, total, name) for arg in expr.args)) if expr.args else expr
