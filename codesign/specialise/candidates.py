"""Candidates: what several places of networks share, as an instruction of a machine's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.specialise.observe import memories_of
from tilewright.codesign.specialise.roles import Roles, roles_of
from tilewright.codesign.specialise.use import Use
from tilewright.codesign.specialise.written import RESULT, TABLE, Memories, Number, Over, StatementOperand
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.files.laid_over import ENGINES, INSTRUCTIONS
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine

PARAMETERS = "parameters"
"""The key of a machine's file for names of numbers."""

MARGIN_BITS = 1
"""A window of another network may be twice as long as the longest that a candidate was found for."""

PRODUCTS = "channel_products"
"""What an instruction does whose channels each have weights of their own."""


@dataclass(frozen=True)
class Candidate:
    """An instruction that the machine does not have, and the places that would use it.

    Of candidates of one `family` a set needs one: they do the same with other blocks, or leave the rest to another.
    What it `needs` are others that a node of the host lacks as well: only together they bring it to the machine.
    """

    name: str
    about: str
    family: str
    entry: Mapping[str, Any]  # of the machine's file
    engine: Engine
    reads: frozenset[str]
    uses: tuple[Use, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of its file, that its expressions name
    needs: tuple[Candidate, ...] = ()

    @cached_property
    def networks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(use.network for use in self.uses))

    @property
    def instructions(self) -> tuple[Candidate, ...]:
        """It and what it needs, each of which is an instruction."""
        return (*self.needs, self)

    @property
    def label(self) -> str:
        """Its name, and of what it needs."""
        return " with ".join([self.name, *(", ".join(each.name for each in self.needs),) * bool(self.needs)])

    @property
    def words_saved(self) -> int:
        return sum(use.words_saved for use in self.uses)

    @property
    def over(self) -> dict[str, Any]:
        """What a file that adds it says."""
        return dict(together([self]).over)

    @property
    def change(self) -> Change:
        return together([self])


def each_once(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates and what they need, each once, in this order."""
    return tuple({part.name: part for each in candidates for part in each.instructions}.values())


def together(candidates: Sequence[Candidate]) -> Change:
    """A machine's file with all of them, and all that they need."""
    candidates = each_once(candidates)
    instructions = {each.name: dict(each.entry) for each in candidates}
    reads: dict[str, list[str]] = {}
    for each in candidates:
        own = reads.setdefault(each.engine.name, list(each.engine.reads))
        own += [memory for memory in sorted(each.reads) if memory not in own]
    over: dict[str, Any] = {INSTRUCTIONS: instructions}
    engines = {each.engine.name: list(each.engine.reads) for each in candidates}
    changed = {name: {"reads": found} for name, found in reads.items() if found != engines[name]}
    if changed:
        over[ENGINES] = changed
    parameters = {name: value for each in candidates for name, value in each.parameters.items()}
    if parameters:
        over[PARAMETERS] = parameters
    return Change(" ".join(f"+{each.name}" for each in candidates), Way.ON, over)


def candidates_of(uses: Sequence[Use], machine: Machine) -> list[Candidate]:
    """An instruction for each statement, those that save most words first."""
    groups: dict[tuple[object, ...], list[Use]] = {}
    for use in uses:
        groups.setdefault((use.written.text, use.written.operands, use.to_sums), []).append(use)
    ordered = sorted(groups.values(), key=lambda of: (-sum(use.words_saved for use in of), of[0].written.text))
    found: list[Candidate] = []
    memories, roles = memories_of(machine), roles_of(machine)
    for of in ordered:
        name = unused(_name(of[0]), {*machine.formats, *(each.name for each in found)})
        found.append(_candidate(name, of, machine, memories, roles))
    return found


def _candidate(name: str, uses: Sequence[Use], machine: Machine, memories: Memories, roles: Roles) -> Candidate:
    first = uses[0]
    like = _like(machine, uses)
    reduce = list(like.reduce_loops)
    loops = _loops(like, uses, max(each.block for each in first.written.operands))
    kept = [loop for loop in loops if loop not in reduce]
    entry: dict[str, Any] = {"about": _about(first), "engine": like.engine.name, "loops": loops}
    if reduce:
        entry["reduce"] = reduce
    sources = _in_order(first.written.operands, machine, like.engine)
    entry["from"] = {each.name: _clause(each, kept, reduce) for each in sources}
    target = memories.sums if first.to_sums else memories.activations
    entry["to"] = {RESULT: f"{target}[{', '.join(kept)}]" if reduce else target}
    constants = _constants(uses, roles)
    entry["imm"] = _immediates(uses, roles, constants)
    if not entry["imm"]:
        del entry["imm"]
    entry["do"] = re.sub(r"\w+", lambda word: str(constants.get(word[0], word[0])), first.written.text)
    reads = frozenset(each.memory for each in first.written.operands)
    family = PRODUCTS if first.of_channels else name
    return Candidate(name, entry["about"], family, entry, like.engine, reads, tuple(uses))


def _like(machine: Machine, uses: Sequence[Use]) -> InstructionFormat:
    """The instruction whose loops a new one has: of those that reduce, or do not, the first that holds most uses."""
    computing = formats_with(machine, Role.COMPUTES)
    alike = [format for format in computing if bool(format.reduce_loops) == bool(uses[0].reduced)]
    return max(alike, key=lambda format: sum(_holds(format, use.reduced) for use in uses))


def _loops(like: InstructionFormat, uses: Sequence[Use], block: int) -> dict[str, int]:
    """Bits of each loop: those of `like`, and of loops that reduce no more than MARGIN_BITS above what uses need.

    The longest loop of a use is counted by that of most bits. With blocks the innermost counts these: one is a row.
    """
    found = {loop.name: loop.bits for loop in like.loops}
    in_rows = list(like.reduce_loops)[-1:] if block > 1 else []
    others = sorted((name for name in like.reduce_loops if name not in in_rows), key=lambda name: -found[name])
    trips = dict.fromkeys((*in_rows, *others), 1)
    for use in uses:
        own = sorted(use.reduced, reverse=True)
        if in_rows:
            own.remove(block)
        for name, trip in zip(others, own, strict=False):
            trips[name] = max(trips[name], trip)
    for name, trip in trips.items():
        found[name] = min(found[name], max(1, (trip - 1).bit_length()) + MARGIN_BITS)
    return found


def _holds(format: InstructionFormat, reduced: Sequence[int]) -> bool:
    """Whether its reduce loops are as many, and as long."""
    most = sorted((1 << loop.bits for loop in format.loops if loop.is_reduce), reverse=True)
    wanted = sorted(reduced, reverse=True)
    return len(wanted) <= len(most) and all(trip <= held for trip, held in zip(wanted, most, strict=False))


def _clause(operand: StatementOperand, kept: Sequence[str], reduce: Sequence[str]) -> str:
    if operand.clause:
        return operand.clause
    block = f"{operand.block} * " if operand.block > 1 else ""
    moved: dict[Over, Sequence[str]] = {
        Over.CHANNEL: kept[:1], Over.TAPS: [kept[0], *reduce], Over.REDUCED: reduce, Over.KEPT: kept
    }  # fmt: skip
    loops = moved.get(operand.over, ()) if reduce else ()
    return f"{block}{operand.memory}" + (f"[{', '.join(loops)}]" if loops else "")


def _in_order(operands: Sequence[StatementOperand], machine: Machine, engine: Engine) -> tuple[StatementOperand, ...]:
    """The order in which most operands read the memory that those of other instructions read at their position.

    One reader serves all that stand at one position: each pair of a position and a memory that is new costs a port.
    """
    there = {
        (position, operand.memory)
        for format in machine.formats_of(engine)
        for position, operand in enumerate(format.streams)
    }
    streams = [each for each in operands if each.name != TABLE]
    tables = [each for each in operands if each.name == TABLE]

    def new(order: Sequence[StatementOperand]) -> int:
        return sum((position, operand.memory) not in there for position, operand in enumerate(order))

    return (*min(permutations(streams), key=new), *tables)


def _constants(uses: Sequence[Use], roles: Roles) -> dict[str, int]:
    """Numbers that stay numbers: equal wherever they are used, and in a statement of the machine at their place."""
    return {number.name: number.value for number, values in _numbers(uses) if roles.is_constant(number.place, values)}


def _immediates(uses: Sequence[Use], roles: Roles, constants: Mapping[str, int]) -> dict[str, str]:
    """The type of each other number: the narrowest of those of its place that holds it wherever it is used."""
    return {
        number.name: str(roles.type_for(number.place, values))
        for number, values in _numbers(uses)
        if number.name not in constants
    }


def _numbers(uses: Sequence[Use]) -> Iterator[tuple[Number, list[int]]]:
    """Each number of the statement with its values, one for each use."""
    for position, number in enumerate(uses[0].written.numbers):
        yield number, [use.written.numbers[position].value for use in uses]


# -- names and sentences -----------------------------------------------------------------------------------------------


CALLED: Mapping[Op, str] = {
    Op.SUM: "sum", Op.MAX_OVER: "max", Op.LUT: "lookup", Op.MUL: "products",
    Op.LANES_SUM: "lanes", Op.LANES_MAX: "lanes",
}  # fmt: skip
"""What names say of what no instruction computed; that of lanes comes last."""

SAID: Mapping[Op, str] = {
    Op.SUM: "the sum over a window", Op.MAX_OVER: "the largest value of a window", Op.LUT: "of what a table has",
    Op.MUL: "of products", Op.LANES_SUM: "and over all lanes", Op.LANES_MAX: "and of all lanes",
}  # fmt: skip
"""The same in a sentence, in this order of operations, with that of lanes behind the window's."""


def _name(use: Use) -> str:
    if use.lacks:
        words = [CALLED[op] for op in use.lacks if op in CALLED]
        words.sort(key=lambda word: word == "lanes")
        return "_".join(words) or use.lacks[0].name.lower()
    if not use.of_channels:
        return "_".join(use.replaces)
    rest = "" if use.to_sums else "".join(f"_{mnemonic}" for mnemonic in use.replaces[1:])
    block = max(operand.block for operand in use.written.operands)
    return PRODUCTS + rest + (f"_by_{block}" if block > 1 else "")


def _about(use: Use) -> str:
    if use.lacks:
        order = list(use.lacks)
        order.sort(key=lambda op: (op not in REDUCTIONS, op not in ACROSS_LANES))
        words = " ".join(SAID[op] for op in order if op in SAID) or f"the operation {use.lacks[0].value}"
        return f"{words[0].upper()}{words[1:]}, which the host did."
    if not use.of_channels:
        first, *others = use.replaces
        return f"What {first} computes, and of that {', then '.join(others)}, with nothing stored in between."
    block = max(operand.block for operand in use.written.operands)
    words = f", {block} words of a window's row in a cycle" if block > 1 else ""
    rest = "" if use.to_sums else f"; of the sum, what {', then '.join(use.replaces[1:])} computes"
    return f"Sums of products, each channel with weights of its own{words}{rest}."


def unused(name: str, names: set[str]) -> str:
    """The name, or where it is taken the first of it with a number that is not."""
    count, found = 1, name
    while found in names:
        count += 1
        found = f"{name}{count}"
    return found
