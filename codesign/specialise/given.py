"""Instructions that a person wrote: as candidates, and what is said of each beside the others and those found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.effects import WORTH
from tilewright.codesign.advise.trials import NoAdvice, Trial, Trials
from tilewright.codesign.specialise.candidates import PARAMETERS, Candidate, together, unused
from tilewright.codesign.specialise.choose import Tried
from tilewright.codesign.specialise.objective import Objective
from tilewright.isa.files.laid_over import ENGINES, INSTRUCTIONS
from tilewright.isa.files.loader import read_overlay
from tilewright.isa.files.yaml_tree import PlacedError, Tree
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

KEYS = (PARAMETERS, ENGINES, INSTRUCTIONS)
"""What a file of instructions may say."""


@dataclass(frozen=True, slots=True)
class InstructionVerdict:
    """What an instruction of a person is worth: alone, and beside the person's others; a variant that is better."""

    name: str
    saved: float  # alone, of the objective
    saved_beside: float  # what is lost if only this one of the person's goes
    kge: float | None
    variant: str  # a candidate that does more for no more logic, or as much for less; empty if there is none
    why_not: str

    @property
    def is_subsumed(self) -> bool:
        """Whether the others do its work as well."""
        return self.saved >= WORTH > self.saved_beside

    @property
    def text(self) -> str:
        if self.why_not:
            words = self.why_not
        elif self.is_subsumed:
            words = "the others of the file do its work as well"
        else:
            words = f"without it, {100 * self.saved_beside:.1f} % are lost"
        return f"{words}; better: {self.variant}" if self.variant else words

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_subsumed": self.is_subsumed}


def given_candidates(file: str | Path, machine: Machine) -> list[Candidate]:
    """The instructions of an overlay as candidates. Raises NoAdvice for what is no overlay of new instructions.

    Raises IsaError for a file that cannot be read or that gives no machine.
    """
    tree = read_overlay(file)
    _require_mappings(tree)
    over = tree.plain()
    entries = over.get(INSTRUCTIONS)
    if not isinstance(entries, Mapping) or not entries:
        raise NoAdvice(f"{file} has no instructions: expected a machine's file with new ones under `{INSTRUCTIONS}:`")
    there = [name for name in entries if name in machine.formats]
    if there:
        raise NoAdvice(f"{file}: {machine.name} has an instruction {there[0]} already; give the new one another name")
    other = [key for key in over if key not in KEYS]
    if other:
        raise NoAdvice(f"{file}: `{other[0]}` is no instruction; put it into the machine's own file")
    wired = [(name, key) for name, of in over.get(ENGINES, {}).items() for key in of if key != "reads"]
    if wired:
        name, key = wired[0]
        raise NoAdvice(
            f"{file}: `{ENGINES}.{name}.{key}` is no instruction; here an engine may only read more memories"
        )
    built = Change(Path(file).stem, Way.ON, {key: over[key] for key in KEYS if key in over})
    formats = built.apply(machine).formats
    parameters = dict(over.get(PARAMETERS, {}))
    return [_candidate(name, entry, formats[name], machine, parameters) for name, entry in entries.items()]


def not_given(candidates: Sequence[Candidate], given: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that are not given by another name; one whose name is given gets another."""
    there = [_computes(each) for each in given]
    names = {each.name for each in given}
    found = []
    for each in candidates:
        if _computes(each) not in there:
            name = unused(each.name, names)
            found.append(each if name == each.name else replace(each, name=name))
            names.add(name)
    return found


def _computes(candidate: Candidate) -> object:
    """What it computes of which memories, in which loops, without its name and its sentence."""
    return [candidate.entry.get(key) for key in ("engine", "do", "from", "to", "loops", "reduce", "imm")]


def _require_mappings(tree: Tree) -> None:
    """Raises IsaError for an instruction or an engine that is none, such as one that is taken away."""
    assert isinstance(tree.value, Mapping)  # of any machine's file
    for key in (each for each in KEYS if each in tree.value):
        section = tree.value[key]
        inside = section.value if isinstance(section.value, Mapping) and key != PARAMETERS else {}
        for path, of in ((key, section), *((f"{key}.{name}", of) for name, of in inside.items())):
            if not isinstance(of.value, Mapping):
                raise PlacedError(of.where, f"{path}: expected a mapping, not {of.kind}")


def _candidate(
    name: str, entry: Mapping[str, Any], format: InstructionFormat, machine: Machine, parameters: Mapping[str, Any]
) -> Candidate:
    engine = machine.engines.get(format.engine.name)
    if engine is None:
        raise NoAdvice(f"{name} is of {format.engine.name}, and {machine.name} has no such engine")
    reads = frozenset(operand.memory for operand in format.sources)
    return Candidate(name, str(entry.get("about", "")), name, dict(entry), engine, reads, (), parameters)


def verdicts(
    given: Sequence[Candidate], tried: Sequence[Tried], base: Trial, trials: Trials, objective: Objective
) -> tuple[InstructionVerdict, ...]:
    """What is said of each. The machine with all of them, and without each, is compiled for."""
    alone = {each.candidate.name: each for each in tried}
    able = [each for each in given if alone[each.name].trial is not None]
    rests = [[each for each in able if each is not one] for one in able]
    made = iter(trials.run([together(some) for some in (able, *rests) if some]))
    whole, *without = [objective.saved(base, next(made)) if some else 0.0 for some in (able, *rests)]
    lost = {one.name: whole - rest for one, rest in zip(able, without, strict=True)}
    others = [each for each in tried if each.candidate not in given]
    return tuple(
        InstructionVerdict(
            one.name,
            alone[one.name].saved(base, objective),
            lost.get(one.name, 0.0),
            alone[one.name].kge,
            _variant(alone[one.name], others, base, objective),
            alone[one.name].why_not,
        )
        for one in given
    )


def _variant(one: Tried, others: Sequence[Tried], base: Trial, objective: Objective) -> str:
    """The best candidate that saves cycles of the same layers, and is better in one of cycles and logic, not worse in
    the other."""
    layers = _layers_saved(one, base)
    saved, kge = one.saved(base, objective), one.kge or 0.0
    better = [
        each
        for each in others
        if each.trial is not None
        and each.kge is not None
        and layers & _layers_saved(each, base)
        and (each.saved(base, objective) >= saved - WORTH and each.kge <= kge)
        and (each.saved(base, objective) > saved + WORTH or each.kge < kge)
    ]
    best = max(better, key=lambda each: (each.saved(base, objective), -(each.kge or 0.0)), default=None)
    return best.candidate.name if best is not None else ""


def _layers_saved(one: Tried, base: Trial) -> set[tuple[str, str]]:
    if one.trial is None:
        return set()
    return {
        (network, name)
        for network, layers in base.layers.items()
        for name, layer in layers.items()
        if one.trial.layers.get(network, {}).get(name, layer).cycles < layer.cycles
    }
