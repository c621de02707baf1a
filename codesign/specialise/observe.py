"""What networks compute in nests, and which of it one instruction could do: the places where candidates come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from tilewright.codesign.points.network import Network
from tilewright.codesign.specialise.canonical import canonical
from tilewright.codesign.specialise.host import missing_uses
from tilewright.codesign.specialise.pairs import pair_uses
from tilewright.codesign.specialise.roles import Roles, roles_of
from tilewright.codesign.specialise.use import Refused, Use
from tilewright.codesign.specialise.written import Memories, NotWritten, StatementWriter, TableOperand, with_sums
from tilewright.compiler.graph.graph import CHANNEL, COLUMN
from tilewright.compiler.levels import Form
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import pass_names
from tilewright.compiler.select.cover import Cover, Selection
from tilewright.compiler.select.diagonals import cheapest, own_channel_forms
from tilewright.compiler.select.diagonals import forms as ways_of
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import REDUCTIONS, Op
from tilewright.isa.machine.machine import Machine

SUM = "sum of products"
"""The read that stands for what an array has added up."""

BEFORE_FORMS = pass_names()[pass_names().index("diagonals") - 1]
"""The pass whose nests have products with a diagonal matrix as such."""

BLOCKS = range(1, 6)
"""A block is as long as a window's row, or a single word. Its words are so many multipliers in each lane."""


@dataclass(frozen=True)
class Observed:
    uses: tuple[Use, ...]
    refused: tuple[Refused, ...]


def memories_of(machine: Machine) -> Memories:
    """Where the machine has what; raises NotWritten for one without products, whose memories are not known."""
    products = next(formats_with(machine, Role.MULTIPLIES), None)
    if products is None or products.statement.dot is None:
        raise NotWritten(
            f"{machine.name} has no instruction that multiplies, from which memories of weights and sums are known"
        )
    vector, matrix = (leaf.name for leaf in _leaves(products.statement.dot))
    computing = tuple(formats_with(machine, Role.COMPUTES))
    structured = next((o for f in computing for o in f.sources if o.element.fields), None)
    texts = yaml.safe_load(machine.text)["instructions"]
    tables = tuple(
        TableOperand(str(texts[f.mnemonic]["from"][o.name]), o.memory, o.element.type)
        for f in computing
        for o in f.tables
        if o.element.type is not None
    )
    return Memories(
        activations=products.operand(vector).memory,
        activation=products.operand(vector).element.type,
        weights=products.operand(matrix).memory,
        sums=products.destination.memory,
        parameters=structured.memory if structured is not None else "",
        fields=structured.element if structured is not None else None,
        tables=tables,
    )


def observe(networks: Sequence[Network], machine: Machine) -> Observed:
    """All places of the networks on the machine. Raises CompileError for a network that does not compile."""
    memories, roles = memories_of(machine), roles_of(machine)
    has_loops = {bool(format.reduce_loops) for format in formats_with(machine, Role.COMPUTES)}
    uses: list[Use] = []
    refused: list[Refused] = []
    for network in networks:
        for found in _of_network(network, machine, memories, roles):
            if isinstance(found, Refused):
                refused.append(found)
            elif bool(found.reduced) in has_loops:
                uses.append(found)
            else:
                kind = "reduces" if found.reduced else "takes one word after the other"
                refused.append(Refused(found.network, found.layer, f"no instruction of a vector engine {kind}"))
    return Observed(tuple(uses), tuple(refused))


def _of_network(network: Network, machine: Machine, memories: Memories, roles: Roles) -> Iterator[Use | Refused]:
    for selection in made_after(network, machine, "select", joins_columns=True):
        assert isinstance(selection, Selection)
        selector = Selector(machine, selection.program)
        for cover in selection.covers:
            yield from _of_cover(network.name, cover, selection.program, memories, roles)
            yield from pair_uses(network.name, cover.nest, selection.program, selector, memories, roles)
    for program in made_after(network, machine, BEFORE_FORMS, joins_columns=False):
        assert isinstance(program, NestProgram)
        for nest in program.nests:
            yield from _of_channels(network.name, nest, program, machine, memories, roles)
    yield from missing_uses(network, machine, memories, roles)


def made_after(network: Network, machine: Machine, after: str, joins_columns: bool) -> list[Form]:
    """What a pass made of each part of the network that the machine runs."""
    found: list[Form] = []

    def keep(name: str, value: Form | Options) -> None:
        if name == after and not isinstance(value, Options):
            found.append(value)

    options = Options(shapes=network.shapes, batch=network.batch, effort=0, joins_columns=joins_columns)
    compile_partitioned(network.content, machine, options, keep=keep, session=network.session)
    return found


# -- steps that follow each other --------------------------------------------------------------------------------------


def _of_cover(
    network: str, cover: Cover, program: NestProgram, memories: Memories, roles: Roles
) -> Iterator[Use | Refused]:
    """What the steps after a product do one after the other, or all steps where there is none, as one statement."""
    steps = [step for step in cover.steps if not step.is_dot]
    if len(steps) < 2 or cover.block_reads:  # products in blocks have candidates of their own
        return
    expr = cover.nest.expr
    sums: tuple[str, ...] = ()
    if cover.dot is not None:
        total = next((node for node in walk(expr) if node.op is Op.SUM), None)
        if total is None or cover.dot.corrections:
            return
        expr, sums = with_sums(expr, total, SUM), (SUM,)
    try:
        written = StatementWriter(cover.nest, program, memories, roles, sums).write(canonical(expr))
    except NotWritten as error:
        yield Refused(network, cover.nest.name, str(error))
        return
    yield Use(
        network,
        cover.nest.name,
        tuple(step.format.mnemonic for step in steps),
        written,
        of_channels=False,
        reduced=_reduced(cover.nest) if any(node.op in REDUCTIONS for node in walk(expr)) else (),
        to_sums=False,
        words_saved=sum(step.words for step in steps) - max(step.words for step in steps),
        words=max(step.words for step in steps),
    )


# -- products of each channel with its own weights ---------------------------------------------------------------------


def _of_channels(
    network: str, nest: Nest, program: NestProgram, machine: Machine, memories: Memories, roles: Roles
) -> Iterator[Use | Refused]:
    """A product by a diagonal matrix without the matrix: word by word, and a window's row in one cycle."""
    forms = own_channel_forms(nest, program, ())
    best = cheapest(ways_of(nest, program, machine), machine, Session()) if forms else None
    cover = Selector(machine, best.program).cover_if_possible(best.nest) if best is not None else None
    if cover is None:
        return
    (form,) = forms
    total = next(node for node in walk(form.nest.expr) if node.op is Op.SUM)
    reduced = _reduced(form.nest)
    for block in (1, _row_taps(form.nest)):
        if block not in BLOCKS:
            continue
        blocks = {form.vector: block, form.weights: block} if block > 1 else {}
        for expr, to_sums in ((total, True), (form.nest.expr, False)):
            words = _words(form.nest, machine) // block + (_results(cover) if to_sums else 0)
            if words >= cover.cycles:
                continue
            try:
                written = StatementWriter(form.nest, form.program, memories, roles, (), blocks).write(canonical(expr))
            except NotWritten as error:
                yield Refused(network, nest.name, str(error))
                continue
            replaces = tuple(step.format.mnemonic for step in (cover.steps[:1] if to_sums else cover.steps))
            yield Use(network, nest.name, replaces, written, True, reduced, to_sums, cover.cycles - words, words)


def _results(cover: Cover) -> int:
    """The words that scaling sums takes, which the same engine does."""
    last = cover.steps[-1]
    return 0 if last.reduces else last.words


def _reduced(nest: Nest) -> tuple[int, ...]:
    return tuple(loop.trip for loop in nest.loops if loop.is_reduce and loop.trip > 1)


def _row_taps(nest: Nest) -> int:
    """The columns of its window."""
    column = next(access.index[COLUMN] for access in nest.reads.values() if len(access.index) > COLUMN)
    reduced = {loop.name: loop.trip for loop in nest.loops if loop.is_reduce}
    return next((reduced[name] for name, _ in column.terms if name in reduced), 1)


def _words(nest: Nest, machine: Machine) -> int:
    """The words that a vector engine would take for a nest, channels in lanes."""
    words = 1
    for loop in nest.loops:
        is_channel = any(name == loop.name for name, _ in nest.result.index[CHANNEL].terms)
        words *= -(-loop.trip // machine.lanes) if is_channel else loop.trip
    return words


def _leaves(expr: Expr) -> list[Expr]:
    return [node for node in walk(expr) if node.op is Op.SOURCE]
