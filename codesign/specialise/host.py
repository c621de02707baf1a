"""What a machine lacks: expressions that none of its instructions computes, so that their nodes run on the host."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.codesign.points.network import Network
from tilewright.codesign.specialise.canonical import canonical
from tilewright.codesign.specialise.roles import Roles
from tilewright.codesign.specialise.use import Refused, Use
from tilewright.codesign.specialise.written import Memories, NotWritten, StatementWriter
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import Form
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.partition.faults import cover_part
from tilewright.compiler.partition.front import simplified_part, source_of
from tilewright.compiler.partition.parts import whole_network
from tilewright.compiler.pipeline import pass_names
from tilewright.compiler.select.explain import missing_instruction
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import MemoScope
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine

BEFORE_SELECT = pass_names()[pass_names().index("select") - 1]
"""The pass whose nests are covered or not."""


def missing_uses(network: Network, machine: Machine, memories: Memories, roles: Roles) -> Iterator[Use | Refused]:
    """For each nest that nothing covers, the smallest expression in it that no instruction computes, as a statement.

    A nest may lack several; the next one is seen by a machine that has the first (lacking.py).
    """
    for program in _programs(network, machine):
        selector = Selector(machine, program)
        for nest in program.nests:
            if selector.cover_if_possible(nest) is None:
                yield _missing(network.name, nest, program, selector, memories, roles)


def _programs(network: Network, machine: Machine) -> list[NestProgram]:
    """The nests of the whole network, as they are before selection; none where the machine has no form for a node."""
    session = network.session.inner(MemoScope.PROGRAM)
    source = source_of(network.content, network.shapes, session, network.batch)
    part = whole_network(source)
    graph = simplified_part(source, part, session).made
    found: list[NestProgram] = []

    def keep(name: str, value: Form | Options) -> None:
        if name == BEFORE_SELECT and isinstance(value, NestProgram):
            found.append(value)

    if graph is not None:
        cover_part(source, part, graph, machine, Options(effort=0), keep, session)
    return found


def _missing(
    network: str, nest: Nest, program: NestProgram, selector: Selector, memories: Memories, roles: Roles
) -> Use | Refused:
    try:
        search = selector.search(nest)
    except CompileError as error:
        return Refused(network, nest.name, str(error).splitlines()[0])
    expr = missing_instruction(search)
    values = {name: name for name in search.machine.memories if name not in nest.reads}
    held = memories.activation
    to_sums = held is None or not held.interval.contains(expr.range)
    try:
        writer = StatementWriter(nest, program, memories, roles, values=values)
        written = writer.write(canonical(expr), memories.sums if to_sums else "")
    except NotWritten as error:
        return Refused(network, nest.name, f"`{expr}`: {error}")
    moved = _loops_of(expr, nest)
    reduced = tuple(loop.trip for loop in nest.loops if loop.is_reduce and loop.name in moved and loop.trip > 1)
    return Use(network, nest.name, (), written, False, reduced, to_sums, 0, 0, _operations(expr), nest.nodes)


def _loops_of(expr: Expr, nest: Nest) -> set[str]:
    """The loops that move what it reads."""
    reads = [nest.reads[node.name] for node in walk(expr) if node.op is Op.SOURCE and node.name in nest.reads]
    return {name for read in reads for index in read.index for name, _ in index.terms}


def _operations(expr: Expr) -> tuple[Op, ...]:
    """The operations of an expression, outermost first, each once."""
    return tuple(dict.fromkeys(node.op for node in reversed(walk(expr)) if node.args))
