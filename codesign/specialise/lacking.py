"""What nodes on the host lack one after the other: candidates that only together bring a node to the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.codesign.points.network import Network
from tilewright.codesign.specialise.candidates import Candidate, candidates_of, together
from tilewright.codesign.specialise.host import missing_uses
from tilewright.codesign.specialise.observe import made_after, memories_of
from tilewright.codesign.specialise.roles import roles_of
from tilewright.codesign.specialise.use import Refused, Use
from tilewright.compiler.select.cover import Selection
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine

MOST_ROUNDS = 4
"""How often it is looked for what is lacking once all that was found before is there."""

Node = tuple[str, str]
"""A network and one of its nodes."""


@dataclass(frozen=True)
class Lacking:
    """Candidates that need others, and what no statement was found for with these."""

    candidates: tuple[Candidate, ...] = ()
    refused: tuple[Refused, ...] = ()


def with_others(candidates: Sequence[Candidate], networks: Sequence[Network], machine: Machine) -> Lacking:
    """For each node on the host that lacks several instructions: the last of them, which needs the others.

    With what a node lacks first it may lack something else, so this looks again with all that was found. In the end a
    node needs what the compiler takes for it, and no more.
    """
    found = [each for each in candidates if any(use.lacks for use in each.uses)]
    names = {name for each in found for name in each.networks}
    concerned = [each for each in networks if each.name in names]
    refused: list[Refused] = []
    new = found
    for _ in range(MOST_ROUNDS):
        if not new:
            break
        try:
            richer = together(found).apply(machine)
        except IsaError as error:
            return Lacking(refused=tuple(_no_machine(found, error)))
        uses, refused = _lacking_now(concerned, richer)
        new = [replace(each, engine=machine.engines[each.engine.name]) for each in candidates_of(uses, richer)]
        found = [*found, *new]
    taken = _taken(concerned, found, machine) if len(found) > 1 else {}
    return Lacking(tuple(_joined(found, taken)), tuple(refused))


def _lacking_now(networks: Sequence[Network], richer: Machine) -> tuple[list[Use], list[Refused]]:
    memories, roles = memories_of(richer), roles_of(richer)
    uses: list[Use] = []
    refused: list[Refused] = []
    for network in networks:
        for each in missing_uses(network, richer, memories, roles):
            if isinstance(each, Use):
                uses.append(each)
            else:
                refused.append(each)
    return uses, refused


def _no_machine(found: Sequence[Candidate], error: IsaError) -> Iterator[Refused]:
    names = ", ".join(each.name for each in found)
    for use in {(use.network, use.layer): use for each in found for use in each.uses}.values():
        yield Refused(use.network, use.layer, f"no machine has all of {names}: {str(error).splitlines()[0]}")


def _taken(networks: Sequence[Network], found: Sequence[Candidate], machine: Machine) -> Mapping[Node, set[str]]:
    """The instructions that the compiler takes for each node on a machine with all that was found."""
    try:
        richer = together(found).apply(machine)
    except IsaError:
        return {}
    taken: dict[Node, set[str]] = {}
    for network in networks:
        for selection in made_after(network, richer, "select", joins_columns=True):
            assert isinstance(selection, Selection)
            for cover in selection.covers:
                for node in cover.nest.nodes:
                    steps = taken.setdefault((network.name, node), set())
                    steps |= {step.format.mnemonic for step in cover.steps}
    return taken


def _joined(found: Sequence[Candidate], taken: Mapping[Node, set[str]]) -> Iterator[Candidate]:
    """The last candidate of each node with the others of it, once for all nodes that need the same."""
    nodes = dict.fromkeys((use.network, node) for each in found for use in each.uses for node in use.nodes)
    joined: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        names = tuple(each.name for each in found if each.name in taken.get(node, ()))
        if len(names) > 1:
            joined.setdefault(names, []).append(node)
    for names, of in joined.items():
        *needs, last = (each for each in found if each.name in names)
        uses = [use for each in (*needs, last) for use in each.uses if {(use.network, n) for n in use.nodes} & set(of)]
        yield replace(last, uses=tuple(uses), needs=tuple(needs))
