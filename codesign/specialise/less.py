"""Instructions with less in them: loops, operands, immediates and bits that no program of the networks needs.

What programs hold says it of loops and immediates: how far they count, and which values they have. A field of a word
of parameters that does nothing, such as a bias of 0, is not seen there: an instruction without it is tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import yaml

from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.places import Trips, Values
from tilewright.isa.files.laid_over import INSTRUCTIONS
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType, Interval, type_of
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

LOOPS, REDUCE, FROM, TO, IMMEDIATES, STATEMENT = "loops", "reduce", "from", "to", "imm", "do"
"""Keys of an instruction."""

FACTOR_BITS = (28, 24, 20)
"""Widths that are tried of a wide sum that is multiplied."""


def with_less(machine: Machine, base: Trial) -> Iterator[Change]:
    """Each instruction of the programs with less in it. Whether there is such a machine, a trial says."""
    facts = yaml.safe_load(machine.text)[INSTRUCTIONS]
    for name in sorted(base.used & set(facts)):
        format, entry = machine.format(name), facts[name]
        yield from _fewer_loops(format, entry, base.longest)
        yield from _shorter_loops(format, base.longest)
        yield from _fewer_immediates(format, entry, base.values)
        yield from _narrower_immediates(format, base.values)
        yield from _fewer_operands(format, entry, base.values)
        yield from _narrower_factors(format, entry)


# -- loops -------------------------------------------------------------------------------------------------------------


def _fewer_loops(format: InstructionFormat, entry: Mapping[str, Any], longest: Trips) -> Iterator[Change]:
    """Without the loops that no program repeats; one at least stays."""
    trips = longest.get(format.mnemonic, {})
    gone = [loop.name for loop in format.loops if trips.get(loop.name) == 1]
    if not gone or len(gone) == len(format.loops):
        return
    over: dict[str, Any] = {LOOPS: dict.fromkeys(gone)}
    if REDUCE in entry:
        over[REDUCE] = [loop for loop in entry[REDUCE] if loop not in gone] or None
    for key in (FROM, TO):
        clauses = {operand: str(text) for operand, text in entry[key].items()}
        over[key] = {operand: text for operand, old in clauses.items() if (text := _clause(old, gone)) != old}
    plural = "s" * (len(gone) != 1)
    yield _change(f"loop{plural} {', '.join(gone)} of {format.mnemonic}", format, over)


def _clause(text: str, gone: list[str]) -> str:
    """`act[c, y]` of `act[c, y, r]` without the loop r."""
    memory, bracket, loops = text.partition("[")
    kept = [loop.strip() for loop in loops.removesuffix("]").split(",")]
    return f"{memory}[{', '.join(loop for loop in kept if loop not in gone)}]" if bracket else text


def _shorter_loops(format: InstructionFormat, longest: Trips) -> Iterator[Change]:
    """With loops that count as far as programs need, and no further."""
    trips = longest.get(format.mnemonic)
    if trips is None:
        return
    loops = {loop.name: loop.bits for loop in format.loops}
    needed = {loop: max(1, (trips[loop] - 1).bit_length()) for loop in loops}
    if fewer := sum(loops.values()) - sum(needed.values()):
        yield _change(f"{fewer} bits of the loops of {format.mnemonic}", format, {LOOPS: needed})


# -- immediates --------------------------------------------------------------------------------------------------------


def _fewer_immediates(format: InstructionFormat, entry: Mapping[str, Any], values: Values) -> Iterator[Change]:
    """With numbers in the statement for immediates that have one value in all programs."""
    held = values.get(format.mnemonic, {})
    fixed = {name: low for name, (low, high) in held.items() if low == high}
    if not fixed:
        return
    tree = _Numbers(fixed).visit(_parsed(entry))
    said = ", ".join(f"{name} = {value}" for name, value in fixed.items())
    over = {IMMEDIATES: _left(entry, set(fixed)), STATEMENT: ast.unparse(tree)}
    plural = "s" * (len(fixed) != 1)
    yield _change(f"immediate{plural} {said} of {format.mnemonic}", format, over)


def _narrower_immediates(format: InstructionFormat, values: Values) -> Iterator[Change]:
    """With immediates of the narrowest types that hold what programs have, signed where they were."""
    held = values.get(format.mnemonic, {})
    needed = {name: _type(own, Interval(*held[name])) for name, own in format.immediates.items() if name in held}
    fewer = sum(format.immediates[name].bits - of.bits for name, of in needed.items())
    if fewer > 0:
        over = {IMMEDIATES: {name: str(of) for name, of in needed.items()}}
        yield _change(f"{fewer} bits of the immediates of {format.mnemonic}", format, over)


def _type(own: IntegerType, held: Interval) -> IntegerType:
    """The narrowest type that holds the values, signed if the immediate's own type is."""
    if own.is_signed:
        return IntegerType(max(1, held.bits + (held.low >= 0)), is_signed=True)
    return type_of(Interval(0, max(1, held.high)))


class _Numbers(ast.NodeTransformer):
    """Puts numbers for names."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._numbers:
            return node
        return ast.parse(str(self._numbers[node.id]), mode="eval").body


# -- operands ----------------------------------------------------------------------------------------------------------


def _fewer_operands(format: InstructionFormat, entry: Mapping[str, Any], values: Values) -> Iterator[Change]:
    """Without each field of parameters that is added or multiplied, and without operands that are multiplied by 0."""
    zero = {name for name, held in values.get(format.mnemonic, {}).items() if tuple(held) == (0, 0)}
    operands = {operand.name for operand in format.sources}
    for side in _sides(_parsed(entry)):
        leaves = _leaves(side, operands)
        is_field = isinstance(side, ast.Attribute) and len(leaves) == 1
        is_idle = len(leaves) == 1 and isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult)
        if not is_field and not (is_idle and zero & _names(side)):
            continue
        tree = _Without(ast.unparse(side)).visit(_parsed(entry))
        left = _names(tree)
        gone = operands - left - set(format.statement.tables)
        over: dict[str, Any] = {STATEMENT: ast.unparse(tree)}
        if gone:
            over[FROM] = dict.fromkeys(sorted(gone))
        if format.immediates:
            over[IMMEDIATES] = _left(entry, set(format.immediates) - left)
        yield _change(f"{', '.join(sorted(leaves))} of {format.mnemonic}", format, over)


def _sides(tree: ast.AST) -> Iterator[ast.expr]:
    """What may be left out of sums and products: the right side of each, and the left one where it may change sides."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
            yield from (node.left, node.right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield node.right


class _Without(ast.NodeTransformer):
    """Leaves one side of a sum or product out, by its text."""

    def __init__(self, side: str) -> None:
        self._side = side

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if ast.unparse(node.right) == self._side:
            return node.left
        if ast.unparse(node.left) == self._side and not isinstance(node.op, ast.Sub):
            return node.right
        self.generic_visit(node)
        return node


def _leaves(tree: ast.AST, operands: set[str]) -> set[str]:
    """The operands and their fields in it: `a`, `p.bias`."""
    fields = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    owners = {field.partition(".")[0] for field in fields}
    return fields | (_names(tree) & operands) - owners


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


# -- intermediates -----------------------------------------------------------------------------------------------------


def _narrower_factors(format: InstructionFormat, entry: Mapping[str, Any]) -> Iterator[Change]:
    """With fewer bits of a sum that is multiplied: the compiler takes it where it has proved that sums fit.

    A multiplier is as large as the product of its factors' bits.
    """
    held = {node.args[0].range.bits for node in walk(format.statement.expr) if _is_of_sum(node)}
    sums = {ast.unparse(node.left) for node in ast.walk(_parsed(entry)) if _multiplies_sum(node)}
    if len(sums) != 1 or len(held) != 1:
        return
    (text,), (widest,) = sums, held
    for bits in FACTOR_BITS:
        if bits < widest:
            tree = _Narrower(text, bits).visit(_parsed(entry))
            name = f"{widest - bits} bits of {text} in {format.mnemonic}"
            yield _change(name, format, {STATEMENT: ast.unparse(tree)})


def _is_of_sum(node: Expr) -> bool:
    return node.op is Op.MUL and node.args[0].op is Op.ADD


def _multiplies_sum(node: ast.AST) -> TypeGuard[ast.BinOp]:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    return isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add)


class _Narrower(ast.NodeTransformer):
    """Wraps a sum that is multiplied to so many bits."""

    def __init__(self, text: str, bits: int) -> None:
        self._text, self._bits = text, bits

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.Mult) and ast.unparse(node.left) == self._text:
            narrow = ast.parse(f"wrap({self._text}, int{self._bits})", mode="eval").body
            return ast.BinOp(narrow, node.op, node.right)
        self.generic_visit(node)
        return node


# -- entries -----------------------------------------------------------------------------------------------------------


def _parsed(entry: Mapping[str, Any]) -> ast.stmt:
    return ast.parse(str(entry[STATEMENT])).body[0]


def _left(entry: Mapping[str, Any], gone: set[str]) -> dict[str, None] | None:
    """What a file says of immediates that are gone: nothing is left where all are."""
    return None if gone >= set(entry[IMMEDIATES]) else dict.fromkeys(sorted(gone))


def _change(name: str, format: InstructionFormat, over: Mapping[str, Any]) -> Change:
    return Change(name, Way.WITHOUT, {INSTRUCTIONS: {format.mnemonic: dict(over)}})
