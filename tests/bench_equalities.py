"""Whether rules of equality find candidates that one order of arguments does not, with figures.

python -m tests.bench_equalities FOLDER [--isa base16]     # a folder of ONNX files

Ways to say that two places compute the same: as the compiler has their expressions; with the arguments of sums
and products in one order, as `tilewright specialise` does; and by everything that rules of equality reach from there,
as an e-graph would: a scale distributed over a sum and taken out of it, sums and products bracketed otherwise, a
difference as a sum, limits in either order. A fourth way is looser: statements are one if they differ only in their
leaves, as where one has a number and another an operand; an instruction for all of them would have operands there.
A column counts different statements of places that take several instructions: fewer are more sharing. `reached` is how
many expressions the rules reach for the place that has most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.codesign.points.network import read_networks
from tilewright.codesign.specialise.canonical import canonical
from tilewright.codesign.specialise.observe import SUM, made_after, memories_of
from tilewright.codesign.specialise.roles import roles_of
from tilewright.codesign.specialise.written import NotWritten, StatementWriter, with_sums
from tilewright.compiler.select.cover import Cover, Selection
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine
from tilewright.terminal.tables import print_table

MOST_REACHED = 200
"""Expressions that are reached from one before nobody looks further."""


def neighbours(expr: Expr) -> Iterator[Expr]:
    """Expressions that a single rule makes of this one, at its root or below."""
    yield from _at_root(expr)
    for position, arg in enumerate(expr.args):
        for other in neighbours(arg):
            args = (*expr.args[:position], other, *expr.args[position + 1 :])
            yield replace(expr, args=args)


def _at_root(expr: Expr) -> Iterator[Expr]:
    """Ranges are not kept: they decide no statement."""
    match expr.op, expr.args:
        case ((Op.ADD | Op.MUL | Op.MIN | Op.MAX), (Expr(op=op, args=(a, b)), c)) if op is expr.op:
            yield replace(expr, args=(a, replace(expr, args=(b, c))))
            yield replace(expr, args=(b, replace(expr, args=(a, c))))
        case ((Op.ADD | Op.MUL | Op.MIN | Op.MAX), (a, Expr(op=op, args=(b, c)))) if op is expr.op:
            yield replace(expr, args=(replace(expr, args=(a, b)), c))
            yield replace(expr, args=(replace(expr, args=(a, c)), b))
        case Op.MUL, (Expr(op=Op.ADD | Op.SUB, args=(a, b)) as inner, c):
            yield replace(inner, args=(replace(expr, args=(a, c)), replace(expr, args=(b, c))))
        case ((Op.ADD | Op.SUB), (Expr(op=Op.MUL, args=(a, c)) as left, Expr(op=Op.MUL, args=(b, d)))) if c == d:
            yield replace(left, args=(replace(expr, args=(a, b)), c))
        case Op.SUB, (a, Expr(op=Op.CONST, value=value) as number):
            yield replace(expr, op=Op.ADD, args=(a, replace(number, value=-value)))
        case Op.MIN, (Expr(op=Op.MAX, args=(a, low)) as inner, high):
            yield replace(inner, args=(replace(expr, args=(a, high)), low))
        case _:
            return


def reached(expr: Expr) -> list[Expr]:
    """The expression in one order, and all that rules make of it, up to a limit."""
    found = {_key(first := canonical(expr)): first}
    waiting = [first]
    while waiting and len(found) < MOST_REACHED:
        for other in neighbours(waiting.pop()):
            ordered = canonical(other)
            if _key(ordered) not in found:
                found[_key(ordered)] = ordered
                waiting.append(ordered)
    return list(found.values())


def _key(expr: Expr) -> object:
    return expr.op, expr.name, expr.field, expr.value, str(expr.type), tuple(map(_key, expr.args))


def statements_of(
    cover: Cover, selection: Selection, machine: Machine, known: dict[str, frozenset[str]]
) -> tuple[str, str, str, frozenset[str]] | None:
    """A place's statement as it is, in one order, without its leaves, and all that are equal to it; None if it is none.

    What is equal to a statement is `known` from the first place that has it.
    """
    steps = [step for step in cover.steps if not step.is_dot]
    if len(steps) < 2 or cover.block_reads:
        return None
    expr, sums = cover.nest.expr, ()
    total = next((node for node in walk(expr) if node.op is Op.SUM), None)
    if cover.dot is not None:
        if total is None or cover.dot.corrections:
            return None
        expr, sums = with_sums(expr, total, SUM), (SUM,)
    memories, roles = memories_of(machine), roles_of(machine)

    def written(of: Expr) -> str:
        found = StatementWriter(cover.nest, selection.program, memories, roles, sums).write(of)
        return f"{found.text} {found.operands}"

    try:
        plain, ordered = written(expr), written(canonical(expr))
        if ordered not in known:
            known[ordered] = frozenset(map(written, reached(expr)))
        return plain, ordered, without_leaves(canonical(expr)), known[ordered]
    except NotWritten:
        return None


def without_leaves(expr: Expr) -> str:
    """The operations alone: what statements that differ in operands and numbers share."""
    return f"{expr.op.value}({', '.join(map(without_leaves, expr.args))})" if expr.args else "·"


def classes(sets: Sequence[frozenset[str]]) -> int:
    """How many places are left if those that share a statement are one."""
    left: list[frozenset[str]] = []
    for each in sets:
        same = [other for other in left if other & each]
        left = [other for other in left if not other & each]
        left.append(each.union(*same))
    return len(left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--isa", default="base16")
    asked = parser.parse_args()
    machine, rows = load_machine(asked.isa), []
    known: dict[str, frozenset[str]] = {}
    every: list[tuple[str, str, str, frozenset[str]]] = []
    for network in read_networks(sorted(asked.folder.glob("*.onnx"))):
        made = made_after(network, machine, "select", joins_columns=True)
        selections = [each for each in made if isinstance(each, Selection)]
        tried = [statements_of(cover, each, machine, known) for each in selections for cover in each.covers]
        found = [each for each in tried if each is not None]
        rows.append(_row(network.name, found))
        every += found
    rows.append(_row("all", every))
    columns = ("network", "places", "as they are", "one order", "by rules", "but for leaves", "reached")
    print_table(f"Different statements of places on {machine.name}", columns, rows)


def _row(name: str, found: Sequence[tuple[str, str, str, frozenset[str]]]) -> tuple[object, ...]:
    plain, ordered, operations = ({each[at] for each in found} for at in range(3))
    sets = [each[3] for each in found]
    most = max(map(len, sets), default=0)
    return name, len(found), len(plain), len(ordered), classes(sets), len(operations), most


if __name__ == "__main__":
    main()
