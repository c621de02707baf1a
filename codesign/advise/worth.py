"""What an instruction of a machine is worth: the logic that is there for it alone, what networks lose without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.evaluate import Failure, NetworkFigures, Outcome
from tilewright.isa.files.laid_over import INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class InstructionWorth:
    """What a network loses without an instruction: `cycles` more, or `host_nodes` more on the host.

    The host's time is in no figure, so `cycles` is None where the host computes another number of nodes. Both are None
    where the network does not run; then `failure` says why.
    """

    network: str
    cycles: int | None
    host_nodes: int | None
    failure: str = ""

    def __str__(self) -> str:
        if self.host_nodes is None:
            return "fails"
        if self.host_nodes:
            return f"{self.host_nodes:,} node{'s' * (self.host_nodes != 1)} on the host"
        return f"{self.cycles:,}"


@dataclass(frozen=True, slots=True)
class Worth:
    """An instruction by its mnemonic, or several at once. `kge_saved` is what the logic loses without it, or None.

    What several instructions share is in the figure of none of them. Where the machine cannot be without it, `why_not`
    says why, and there are no losses. There is no `kge_saved` then, nor where machines are not priced.
    """

    name: str
    kge_saved: float | None
    losses: tuple[InstructionWorth, ...]
    why_not: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def worth(base: Trial, without: Trial) -> Worth:
    """The machine as it is, beside a trial of it without instructions."""
    assert without.change is not None
    name = without.change.key.removeprefix(f"{INSTRUCTIONS}.") or without.change.name
    saved = None
    if base.figures is not None and without.figures is not None:
        saved = base.figures.kge - without.figures.kge
    losses = tuple(_loss(old, new) for old, new in zip(base.outcomes, without.outcomes, strict=not without.why_not))
    return Worth(name, saved, losses, without.why_not)


def _loss(old: Outcome, new: Outcome) -> InstructionWorth:
    if isinstance(new, Failure):
        return InstructionWorth(new.network, None, None, f"stage {new.stage}: {new.reason}")
    assert isinstance(old, NetworkFigures)  # a network that fails on the machine as it is gives no advice
    more = new.host_nodes - old.host_nodes
    return InstructionWorth(new.network, None if more else round(new.cycles_per_image - old.cycles_per_image), more)


def worth_row(of: Worth, networks: Sequence[str], is_priced: bool) -> tuple[str, ...]:
    """Name, thousands of gates if machines are priced, and what each network loses, as words of a table."""
    kge = ("" if of.kge_saved is None else f"{of.kge_saved:.1f}",) if is_priced else ()
    losses = ["no machine"] * len(networks) if of.why_not else map(str, of.losses)
    return (of.name, *kge, *losses)
