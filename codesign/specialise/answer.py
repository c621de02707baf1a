"""The answer: candidates, the instructions that were chosen, and all that they are compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.codesign.advise.effects import ran, share_saved
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.derived import milliseconds
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.specialise.candidates import Candidate
from tilewright.codesign.specialise.choose import Choice, Tried
from tilewright.codesign.specialise.given import InstructionVerdict
from tilewright.codesign.specialise.objective import Objective
from tilewright.codesign.specialise.predict import Predicted
from tilewright.codesign.specialise.removals import Removal
from tilewright.codesign.specialise.use import Refused
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True)
class InstructionProposal:
    """Candidates by the words that they save, and layers for which no statement was found."""

    machine: Machine
    candidates: tuple[Candidate, ...]
    refused: tuple[Refused, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine.name,
            "candidates": [
                {
                    "name": each.name,
                    "needs": [of.name for of in each.needs],
                    "about": each.about,
                    "words_saved": each.words_saved,
                    "networks": list(each.networks),
                    "places": [{"network": use.network, "layer": use.layer} for use in each.uses],
                    "over": each.over,
                }
                for each in self.candidates
            ],
            "refused": [asdict(each) for each in self.refused],
        }


@dataclass(frozen=True)
class Control:
    """The best that steps of sizes, or a further engine, gain for no more area than the instructions.

    Without any instruction, for no more than these might have added.
    """

    trial: Trial | None
    tried: int  # single changes
    joined: int  # several of those that gain alone
    mm2: float  # that the instructions add, or might have added


@dataclass(frozen=True, slots=True)
class Clocks:
    """The longest path of the machine as it is and with the instructions, and what it is in."""

    before_ns: float
    after_ns: float
    before_limit: str
    after_limit: str


@dataclass(frozen=True, slots=True)
class InstructionShare:
    """An instruction in the programs: in how many layers of which networks, and its engine's cycles beside all."""

    name: str
    networks: tuple[str, ...]
    layers: int
    cycles: int  # that its engine is busy with it
    share: float  # of the cycles of all networks with it

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class NetworkEffect:
    """A network before and after; what is not known is None. Cycles and mJ are of an image, bytes of its program."""

    network: str
    is_held_out: bool
    cycles: tuple[float, float]
    mj: tuple[float | None, float | None]
    ms: tuple[float | None, float | None]
    program_bytes: tuple[int, int]
    host_nodes: tuple[int, int]
    uses: tuple[str, ...]  # the new instructions in its program

    @property
    def times(self) -> float:
        return self.cycles[0] / self.cycles[1]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "times": self.times}


@dataclass(frozen=True)
class Specialised:
    """The answer: the instructions chosen, what each candidate was worth, and what they are compared with."""

    proposal: InstructionProposal
    base: Trial
    tried: tuple[Tried, ...]
    choice: Choice
    objective: Objective
    budget_kge: float
    held_out: tuple[tuple[Trial, Trial], ...]  # (as it is, with the instructions), one network each
    control: Control | None
    clocks: Clocks | None = None
    removals: tuple[Removal, ...] | None = None  # None where nobody looked
    given: tuple[InstructionVerdict, ...] = ()
    predicted: tuple[Predicted, ...] = ()

    @property
    def saved(self) -> float:
        """The share of the objective that the chosen instructions save."""
        return self.objective.saved(self.base, self.choice.trial) if self.choice.chosen else 0.0

    @property
    def shares(self) -> tuple[InstructionShare, ...]:
        """The chosen instructions in the programs of the networks that had a say."""
        places, total = self.choice.trial.places, sum(of.cycles for of in ran(self.choice.trial))
        found = []
        for name in sorted(self.choice.names):
            layers = {network: of[name] for network, of in places.items() if name in of}
            busy = sum(sum(of.values()) for of in layers.values())
            share = busy / total if total else 0.0
            found.append(InstructionShare(name, tuple(layers), sum(map(len, layers.values())), busy, share))
        return tuple(found)

    @property
    def networks(self) -> tuple[NetworkEffect, ...]:
        """Each network before and after, those that were held out last."""
        if not self.choice.chosen:
            return ()
        pairs = [(False, self.base, self.choice.trial), *((True, *pair) for pair in self.held_out)]
        return tuple(
            self._effect(is_out, old, new, after)
            for is_out, before, after in pairs
            for old, new in zip(ran(before), ran(after), strict=True)
        )

    def _effect(self, is_out: bool, old: NetworkFigures, new: NetworkFigures, after: Trial) -> NetworkEffect:
        clocks = (None, None) if self.clocks is None else (self.clocks.before_ns, self.clocks.after_ns)
        before_ms, after_ms = (
            None if ns is None else milliseconds(of.cycles_per_image, ns)
            for of, ns in zip((old, new), clocks, strict=True)
        )
        return NetworkEffect(
            old.network,
            is_out,
            (old.cycles_per_image, new.cycles_per_image),
            (old.mj_per_image, new.mj_per_image),
            (before_ms, after_ms),
            (old.program_bytes, new.program_bytes),
            (old.host_nodes, new.host_nodes),
            tuple(sorted(self.choice.names & after.places.get(old.network, {}).keys())),
        )

    @property
    def after(self) -> Machine:
        """The machine with the chosen instructions."""
        machine, change = self.proposal.machine, self.choice.change
        return machine if change is None else change.apply(machine)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.proposal.as_json(),
            "budget_kge": self.budget_kge,
            "base": self.base.as_json(),
            "tried": [
                {
                    "name": each.candidate.name,
                    "needs": [of.name for of in each.candidate.needs],
                    "kge": each.kge,
                    "share_saved": each.saved(self.base, self.objective),
                    "why_not": each.why_not,
                    "is_chosen": each in self.choice.chosen,
                }
                for each in self.tried
            ],
            "chosen": sorted(self.choice.names),
            "sets_tried": self.choice.sets_tried,
            "sets_left": self.choice.sets_left,
            "with": self.choice.trial.as_json(),
            "objective": {
                "goal": self.objective.goal,
                "weights": dict(self.objective.weights),
                "host_cycles": self.objective.host_cycles,
            },
            "saved": self.saved,
            "share_saved": share_saved(self.base, self.choice.trial),
            "clocks": None if self.clocks is None else asdict(self.clocks),
            "networks": [each.as_json() for each in self.networks],
            "predicted": [each.as_json() for each in self.predicted],
            "instructions": [each.as_json() for each in self.shares],
            "removals": None if self.removals is None else [each.as_json() for each in self.removals],
            "given": [each.as_json() for each in self.given],
            "sets": [asdict(each) for each in self.choice.sets],
            "passed_over": [each.candidate.label for each in self.choice.passed_over],
            "held_out": [{"before": old.as_json(), "after": new.as_json()} for old, new in self.held_out],
            "control": None
            if self.control is None
            else {
                "mm2": self.control.mm2,
                "tried": self.control.tried,
                "joined": self.control.joined,
                "best": None if self.control.trial is None else self.control.trial.as_json(),
            },
        }
