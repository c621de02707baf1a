"""Two steps that follow each other in a nest that takes three or more: one instruction for both, if not for all.

A softmax looks up in two tables and adds up in between, so no statement has all of it; a step of Newton's method in it
is two instructions, and could be one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.codesign.specialise.canonical import canonical
from tilewright.codesign.specialise.roles import Roles
from tilewright.codesign.specialise.use import Refused, Use
from tilewright.codesign.specialise.written import Memories, NotWritten, StatementWriter
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.select.search import Best
from tilewright.compiler.select.selector import Selector
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import REDUCTIONS, Op

FEWEST_STEPS = 3
"""Of two steps the whole nest is the pair."""


def pair_uses(
    network: str, nest: Nest, program: NestProgram, selector: Selector, memories: Memories, roles: Roles
) -> Iterator[Use | Refused]:
    """Each step whose result one other step alone takes, with that one, as a statement."""
    best = selector.search(nest).best(nest.expr, selector.home(nest.result.tensor))
    steps = [] if best is None else [each for each in _steps(best) if each.pattern.dot is None]
    if len(steps) < FEWEST_STEPS:
        return
    for parent in steps:
        for child in _taken(parent):
            takers = [each for each in steps if child in _taken(each)]
            if child.pattern.dot is None and len(takers) == 1 and child.is_uniform == parent.is_uniform:
                yield from _pair(network, nest, program, child, parent, memories, roles)


def _steps(best: Best) -> list[Best]:
    """The steps of a cover, each once, in order."""
    found: dict[Expr, Best] = {}
    for each in _taken(best):
        found |= {step.expr: step for step in _steps(each)}
    return [*found.values(), best]


def _taken(step: Best) -> list[Best]:
    """The steps whose results it reads."""
    return [each for each in step.inputs.values() if isinstance(each, Best)]


def _pair(
    network: str, nest: Nest, program: NestProgram, child: Best, parent: Best, memories: Memories, roles: Roles
) -> Iterator[Use | Refused]:
    target = parent.pattern.format.destination.memory
    if target not in (memories.sums, memories.activations):
        return
    others = [each for each in (*_taken(parent), *_taken(child)) if each.expr != child.expr]
    values = {f"value {number}": each for number, each in enumerate({of.expr: of for of in others}.values())}
    sources = {each.expr: Expr(Op.SOURCE, each.expr.range, name=name) for name, each in values.items()}
    expr = _with_sources(parent.expr, sources)
    held = {name: each.pattern.format.destination.memory for name, each in values.items()}
    to_sums = target == memories.sums
    try:
        writer = StatementWriter(nest, program, memories, roles, values=held)
        written = writer.write(canonical(expr), memories.sums if to_sums and expr.op is not Op.WRAP else "")
    except NotWritten as error:
        names = f"{child.pattern.format.mnemonic}, then {parent.pattern.format.mnemonic}"
        yield Refused(network, nest.name, f"{names}: {error}")
        return
    reduces = any(node.op in REDUCTIONS for node in walk(expr))
    reduced = tuple(loop.trip for loop in nest.loops if loop.is_reduce and loop.trip > 1) if reduces else ()
    yield Use(
        network,
        nest.name,
        (child.pattern.format.mnemonic, parent.pattern.format.mnemonic),
        written,
        of_channels=False,
        reduced=reduced,
        to_sums=to_sums,
        words_saved=min(child.words, parent.words),
        words=max(child.words, parent.words),
    )


def _with_sources(expr: Expr, sources: Mapping[Expr, Expr]) -> Expr:
    """The expression with sources in place of some nodes."""
    if expr in sources:
        return sources[expr]
    return replace(expr, args=tuple(_with_sources(arg, sources) for arg in expr.args)) if expr.args else expr
