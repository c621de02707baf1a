"""Candidates and choices as tables and lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.codesign.advise.effects import name_of, share_saved
from tilewright.codesign.price.report import Table
from tilewright.codesign.specialise.candidates import Candidate
from tilewright.codesign.specialise.choose import Tried
from tilewright.codesign.specialise.specialise import Proposal, Specialised, gains

COMPUTE = "compute"
"""The bound of layers that wait for products."""


def proposal_tables(proposal: Proposal, top: int) -> list[Table]:
    """The first `top` candidates; empty where there is none."""
    shown = proposal.candidates[:top]
    if not shown:
        return []
    title = f"What {proposal.machine.name} computes in several instructions and could in one"
    columns = ("instruction", "places", "networks", "words saved")
    rows = [(each.name, len(each.uses), len(each.networks), each.words_saved) for each in shown]
    return [(title + _more(len(proposal.candidates), top), columns, rows)]


def proposal_lines(proposal: Proposal, top: int) -> Iterator[str]:
    """What each candidate computes, and what no statement was found for."""
    if not proposal.candidates:
        yield "Nothing: no layer takes several instructions that one could replace."
    for each in proposal.candidates[:top]:
        yield f"{each.name}: {each.entry['do']}"
    reasons: dict[str, int] = {}
    for refused in proposal.refused:
        reasons[refused.reason] = reasons.get(refused.reason, 0) + 1
    for reason, count in reasons.items():
        yield f"No statement for {count} layer{'s' * (count != 1)}: {reason}."


def tables(found: Specialised) -> list[Table]:
    """Each candidate with its verdict, cycles of each network before and after, and those that were held out."""
    machine = found.proposal.machine.name
    rows = [_row(each, found) for each in found.tried]
    columns = ("instruction", "places", "saved", "+kGE", "verdict")
    result: list[Table] = [(f"Candidates for {machine}: each alone", columns, rows)] if rows else []
    if found.choice.chosen:
        title = f"With {', '.join(sorted(found.choice.names))}"
        columns = ("network", "cycles", "with it", "times", "")
        before = [_gain(*each, "") for each in gains(found.base, found.choice.trial)]
        outside = [_gain(*each, "held out") for old, new in found.held_out for each in gains(old, new)]
        result.append((title, columns, [*before, *outside]))
    return result


def lines(found: Specialised) -> Iterator[str]:
    """The verdict, what it costs, and what the same area would buy otherwise."""
    machine, choice = found.proposal.machine.name, found.choice
    if not choice.chosen:
        yield f"Nothing pays on {machine} within {found.budget_kge:.1f} kGE more logic. {_nearest(found)}"
        yield _busy_array(found)
        return
    assert found.base.figures is not None and choice.trial.figures is not None
    before, after = found.base.figures, choice.trial.figures
    kge = after.kge - before.kge
    yield (
        f"Logic: {before.kge:.1f} kGE, and {kge:.1f} more ({100 * kge / before.kge:.1f} %; at most "
        f"{found.budget_kge:.1f}); area {after.area_mm2 - before.area_mm2:.3f} mm² more. The added logic is fitted to "
        f"the price of {machine}, not synthesised; the clock is not compared."
    )
    yield (
        f"Sets of candidates compared: {choice.sets_tried}. Left out, as they cannot save more if candidates together "
        f"save at most what they save alone: {choice.sets_left}."
    )
    yield from _control(found)


def _control(found: Specialised) -> Iterator[str]:
    control = found.control
    if control is None:
        return
    of = f"{control.tried} single changes that cost no more than {control.mm2:.3f} mm²"
    if control.trial is None:
        yield f"For the same area: none of {of} runs the networks."
        return
    other, own = share_saved(found.base, control.trial), share_saved(found.base, found.choice.trial)
    wins = "the instructions are ahead" if own > other else "that is the better use of the area"
    yield (
        f"For the same area: the best of {of} is {name_of(control.trial)}, with {100 * other:.1f} % fewer cycles, "
        f"against {100 * own:.1f} %: {wins}."
    )


def _row(each: Tried, found: Specialised) -> tuple[object, ...]:
    tried = each.trial is not None
    saved = f"{100 * each.saved(found.base):.1f} %" if tried else ""
    kge = "" if each.kge is None else f"{each.kge:.1f}"
    return (each.candidate.name, len(each.candidate.uses), saved, kge, _verdict(each, found))


def _verdict(each: Tried, found: Specialised) -> str:
    if each.candidate.name in found.choice.names:
        return "chosen"
    if each.why_not:
        return each.why_not
    rival = next((of for of in found.choice.chosen if of.candidate.family == each.candidate.family), None)
    return "gains less in any set" if rival is None else f"{rival.candidate.name} gains more"


def _gain(network: str, before: int, after: int, note: str) -> tuple[object, ...]:
    return network, before, after, f"{before / after:.2f}", note


def _nearest(found: Specialised) -> str:
    """The candidate that saves most words of those that were not chosen, and why it was not."""
    nearest: Tried | None = max(found.tried, key=lambda of: of.candidate.words_saved, default=None)
    if nearest is None:
        return "No layer takes several instructions that one could replace."
    return f"The nearest, {nearest.candidate.name}: {nearest.why_not}."


def _busy_array(found: Specialised) -> str:
    """How much of the cycles no instruction of another engine can shorten."""
    layers = [layer for of in found.base.layers.values() for layer in of.values()]
    bound = sum(layer.cycles for layer in layers if layer.bound == COMPUTE)
    share = 100 * bound / max(1, sum(layer.cycles for layer in layers))
    return (
        f"Layers whose products on the array take longest have {share:.1f} % of the cycles: there no instruction of "
        "another engine saves any."
    )


def _more(count: int, top: int) -> str:
    return f" ({top} of {count})" if count > top else ""


def sentence(candidates: Sequence[Candidate], machine: str, networks: Sequence[str]) -> str:
    """What a file says that a machine is with these instructions."""
    return f"{machine} with {', '.join(each.name for each in candidates)}, found for {', '.join(networks)}"
