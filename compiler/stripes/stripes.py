"""Cuts chains into stripes where the exact cycle model finds that their layers then take fewer cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.nest.canonical_nests import canonical_nests, stored_facts
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.session import Session
from tilewright.compiler.stripes.chain import Chain, chains
from tilewright.compiler.stripes.cut import Stripes, in_stripes
from tilewright.compiler.stripes.proposal import POSSIBLE, StripeProposal, proposals
from tilewright.isa.language.expressions import walk
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Tensor

Measure = Callable[[NestProgram], int | None]
"""The exact cycles of a program of nests; None if it does not fit the machine."""

WORTH = 0.03
"""The least share of its cycles that a chain, alone, must save to be cut."""

MOST_TRIED = (3, 3, 12)
"""So many proposals for a chain are measured at the most, by effort: of those that compute edges twice..."""

MOST_COPIED = (0, 3, 12)
"""... and of those that copy them."""


@dataclass(frozen=True, slots=True)
class MeasuredStripes:
    """The cycles of a chain as it is, and in the stripes with which it takes fewest; None if it is better as it is."""

    before: int | None
    after: int | None = None
    stripes: Stripes | None = None


Recall = Callable[[NestProgram, Callable[[], MeasuredStripes]], MeasuredStripes]
"""What was found of a chain before; what the second finds now, if nothing was."""


def found_anew(chain: NestProgram, find: Callable[[], MeasuredStripes]) -> MeasuredStripes:
    """Nothing is recalled."""
    return find()


def stripes(
    program: NestProgram,
    machine: Machine,
    measure: Measure,
    recall: Recall = found_anew,
    effort: int = 1,
    session: Session | None = None,
) -> NestProgram:
    """The program with chains in stripes where that pays, and a remark that says so; the same where it does not."""
    told = []
    for chain, found in list(measured(program, machine, measure, recall, effort, session)):
        if found.stripes is not None:
            program = in_stripes(replace(chain, program=program), found.stripes)
            told.append(f"{found.stripes} pass through {', '.join(nest.name for nest in chain.nests)}")
    return replace(program, remarks={**program.remarks, "stripes": "; ".join(told)}) if told else program


def measured(
    program: NestProgram,
    machine: Machine,
    measure: Measure,
    recall: Recall = found_anew,
    effort: int = 1,
    session: Session | None = None,
) -> Iterator[tuple[Chain, MeasuredStripes]]:
    """The chains that may gain by stripes, with what was found of each; those of one form are measured once."""
    here: dict[CanonicalForm, MeasuredStripes | None] = {}  # None: nothing seems worth trying
    for chain in chains(program, machine.lanes):
        own = alone(chain)
        form = _form(own)
        if form not in here:
            tried = worth_trying(own, machine, effort, session)
            here[form] = recall(own.program, partial(_best_of, own, tried, measure)) if tried else None
        found = here[form]
        if found is not None:
            yield chain, found


def worth_trying(chain: Chain, machine: Machine, effort: int, session: Session | None = None) -> list[StripeProposal]:
    """As many proposals for a chain as an effort measures: the best that copy no edges, and then those that do."""
    found = proposals(chain, machine, session)
    again = [proposal for proposal in found if not proposal.stripes.copies_edges]
    copied = [proposal for proposal in found if proposal.stripes.copies_edges]
    return again[: MOST_TRIED[effort]] + copied[: MOST_COPIED[effort]]


def _best_of(chain: Chain, tried: Sequence[StripeProposal], measure: Measure) -> MeasuredStripes:
    """What takes the fewest cycles; stripes only if they save enough, or if the chain does not fit otherwise.

    `tried`: those that copy no edges first. Copies of edges must save as much again of the best without them: they fill
    memory that neighbours have use for. Nothing is measured whose busiest engine alone takes nearly as long.
    """
    best = MeasuredStripes(measure(chain.program))
    least = None if best.before is None else best.before * (1 - WORTH)
    for copies_edges, alike in groupby(tried, key=lambda each: each.stripes.copies_edges):
        if copies_edges and best.after is not None:
            least = best.after * (1 - WORTH)
        for proposal in alike:
            if best.before is not None and proposal.least > best.before * (1 - POSSIBLE):
                continue
            cycles = measure(in_stripes(chain, proposal.stripes))
            if cycles is not None and (least is None or cycles < least):
                best, least = MeasuredStripes(best.before, cycles, proposal.stripes), cycles
    return best


def alone(chain: Chain) -> Chain:
    """The chain as a program of its own: what it reads comes from the host, and its result goes there."""
    program, result = chain.program, chain.nests[-1].result.tensor
    made = dict.fromkeys(nest.result.tensor for nest in chain.nests)  # in order: what is kept is found by it
    read = {access.tensor: None for nest in chain.nests for access in nest.reads.values()}
    inputs = {tensor.name: tensor for tensor in program.inputs}
    outside = [name for name in read if name not in made and name in program.buffers]
    alone = replace(
        program,
        nests=chain.nests,
        buffers={name: replace(program.buffers[name], parts=()) for name in (*outside, *made)},
        constants={name: program.constants[name] for name in read if name in program.constants},
        constant_types={name: program.constant_types[name] for name in read if name in program.constants},
        inputs=tuple([inputs[name] if name in inputs else _hosted(name, program) for name in outside]),
        outputs=(_hosted(result, program),),
        remarks={},
    )
    return Chain(chain.nests, alone)


def _hosted(name: str, program: NestProgram) -> Tensor:
    """A tensor between nests as one of the host's."""
    buffer = program.buffers[name]
    batches, channels, rows, columns = buffer.shape
    shape = batches, channels, rows, columns
    return Tensor(name, shape, shape, str(buffer.type), 1.0, 0, 0, 0)


def _form(chain: Chain) -> CanonicalForm:
    """The canonical form of a chain, with the operations of its expressions; no values of constants or numbers."""
    return canonical_nests(
        chain.nests,
        lambda nest: tuple([(node.op, node.name) for node in walk(nest.expr)]),
        partial(stored_facts, chain.program),
    )
