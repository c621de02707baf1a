"""Arrays with memories of their own whose instructions say the same: twins, up to the names of these memories.

Example: where `mma` has weights in wgt and sums in acc, and `mma2` has them in wgt2 and acc2, a layer may be computed
with `load_wgt`, `mma` and `requantize`, or with those that are equal once wgt2 is read for wgt, and acc2 for acc.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Engine, Template
from tilewright.isa.machine.memory import Memory


@dataclass(frozen=True, slots=True)
class Twin:
    """An array beside the first one: its `memories` and `mnemonics`, each by that of the first in whose place it is."""

    engine: Engine
    memories: Mapping[str, str]
    mnemonics: Mapping[str, str]


def find_twins(
    engines: Iterable[Engine], memories: Mapping[str, Memory], formats: Sequence[InstructionFormat]
) -> tuple[Twin, ...]:
    """The twins of the first array, in file order; none of another one."""
    arrays = [engine for engine in engines if engine.template is Template.SYSTOLIC]
    twins = []
    for other in arrays[1:]:
        renaming = _renaming(arrays[0], other, memories, formats)
        if renaming:
            twins.append(Twin(other, renaming, _mnemonics(arrays[0], other, renaming, formats)))
    return tuple(twins)


def _renaming(
    one: Engine, other: Engine, memories: Mapping[str, Memory], formats: Sequence[InstructionFormat]
) -> Mapping[str, str]:
    """The memories of another array by those of one; empty if no instruction of one has an equal there."""
    renaming: dict[str, str] = {}
    if one.settings != other.settings:
        return renaming
    own, free = ([format for format in formats if format.engine is engine] for engine in (one, other))
    for format in own:
        for candidate in free:
            pairs = _pairs(format, candidate, renaming)
            if pairs is not None and all(_have_same_shape(memories, *pair) for pair in pairs.items()):
                renaming |= pairs
                free.remove(candidate)
                break
    moved = {name: new for name, new in renaming.items() if name != new}
    return moved if moved.keys().isdisjoint(moved.values()) else {}


def _pairs(one: InstructionFormat, other: InstructionFormat, known: Mapping[str, str]) -> Mapping[str, str] | None:
    """The memories of another instruction by those of one, if they are equal with these and those that are known."""
    if len(one.operands) != len(other.operands):
        return None
    pairs = dict(known)
    for a, b in zip(one.operands, other.operands, strict=True):
        if pairs.setdefault(a.memory, b.memory) != b.memory:
            return None
    is_one_to_one = len({*pairs.values()}) == len(pairs)
    return pairs if is_one_to_one and _meaning(one, pairs) == _meaning(other, {}) else None


def _have_same_shape(memories: Mapping[str, Memory], one: str, other: str) -> bool:
    return one == other or replace(memories[one], name=other) == memories[other]


def _mnemonics(
    one: Engine, other: Engine, renaming: Mapping[str, str], formats: Sequence[InstructionFormat]
) -> Mapping[str, str]:
    """The instructions in the place of those that touch the first array's own memories, of all engines."""
    places = {one: other}
    known: dict[Hashable, str] = {}
    for format in formats:
        known.setdefault((format.engine, _meaning(format, {})), format.mnemonic)
        known.setdefault((format.engine.template, format.engine.settings, _meaning(format, {})), format.mnemonic)
    found = {}
    for format in formats:
        if any(operand.memory in renaming for operand in format.operands):
            engine, meaning = places.get(format.engine, format.engine), _meaning(format, renaming)
            twin = known.get((engine, meaning)) or known.get((engine.template, engine.settings, meaning))
            if twin is not None:
                found[format.mnemonic] = twin
    return found


def _meaning(format: InstructionFormat, renaming: Mapping[str, str]) -> Hashable:
    """What an instruction does, with other names of memories."""

    def renamed(operand: Operand) -> Operand:
        return replace(operand, memory=renaming.get(operand.memory, operand.memory))

    moved = replace(format, sources=tuple(map(renamed, format.sources)), destination=renamed(format.destination))
    return moved.meaning
