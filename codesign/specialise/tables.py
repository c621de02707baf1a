"""Candidates and choices as tables and lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.codesign.advise.effects import WORTH, name_of
from tilewright.codesign.price.report import Table
from tilewright.codesign.specialise.answer import InstructionProposal, NetworkEffect, Specialised
from tilewright.codesign.specialise.choose import MOST_FAMILIES, Tried
from tilewright.simulator.run_profile import Resource


def proposal_tables(proposal: InstructionProposal, top: int) -> list[Table]:
    """The first `top` candidates; empty where there is none."""
    shown = proposal.candidates[:top]
    if not shown:
        return []
    title = f"What {proposal.machine.name} computes in several instructions and could in one"
    columns = ("instruction", "places", "networks", "words saved")
    rows = [(each.label, len(each.uses), len(each.networks), each.words_saved) for each in shown]
    return [(title + _more(len(proposal.candidates), top), columns, rows)]


def proposal_lines(proposal: InstructionProposal, top: int) -> Iterator[str]:
    """What each candidate computes, and what no statement was found for."""
    if not proposal.candidates:
        yield "Nothing: no layer takes several instructions that one could replace."
    for each in proposal.candidates[:top]:
        yield f"{each.label}: {each.entry['do']}"
    reasons: dict[str, int] = {}
    for refused in proposal.refused:
        reasons[refused.reason] = reasons.get(refused.reason, 0) + 1
    for reason, count in reasons.items():
        yield f"No statement for {count} layer{'s' * (count != 1)}: {reason}."


def tables(found: Specialised, most_removals: int | None = None) -> list[Table]:
    """Each candidate with its verdict, what the chosen ones do for each network, what was given, and what can go.

    Of what can go at most so many, and all of it together.
    """
    title = f"Candidates for {found.proposal.machine.name}: each alone"
    columns = ("instruction", "places", "saved", "+kGE", "verdict")
    result: list[Table] = [(title, columns, [_row(each, found) for each in found.tried])] if found.tried else []
    if found.choice.chosen:
        result += _of_chosen(found)
    if found.given:
        result.append(_of_given(found))
    if found.removals:
        going: list[Sequence[object]] = [
            (each.name, f"{round(each.kge, 1) + 0:.1f}", f"{each.mm2:.3f}", f"{100 * each.share_saved + 0:.1f} %")
            for each in (*found.removals[:-1][:most_removals], found.removals[-1])
        ]
        result.append(
            ("What can go: as fast, and less area", ("without", "kGE less", "mm² less", "cycles saved"), going)
        )
    return result


def _of_chosen(found: Specialised) -> Iterator[Table]:
    """Cycles before and after, what uses the instructions, and how good the prediction was."""
    columns: Sequence[str] = ("network", "cycles", "with it", "times", "mJ", "with it", "")
    yield f"With {', '.join(sorted(found.choice.names))}", columns, [_gain(each) for each in found.networks]
    shares = [
        (each.name, len(each.networks), each.layers, each.cycles, f"{100 * each.share:.1f} %") for each in found.shares
    ]
    yield "What uses it", ("instruction", "networks", "layers", "its cycles", "of all"), shares
    if found.predicted:
        columns = ("network", "apart", "in tiles", "simulated", "off by", "off by")
        rows = [
            (each.network, each.apart, each.in_tiles, each.simulated, *(f"{100 * of:+.1f} %" for of in each.errors))
            for each in found.predicted
        ]
        yield "Cycles, predicted before anything was compiled for it", columns, rows


def _of_given(found: Specialised) -> Table:
    rows = [
        (each.name, f"{100 * each.saved:.1f} %", "" if each.kge is None else f"{each.kge:.1f}", each.text)
        for each in found.given
    ]
    return "What was given", ("instruction", "saved", "+kGE", "verdict"), rows


def lines(found: Specialised) -> Iterator[str]:
    """The verdict, what it costs, and what the same area would buy otherwise."""
    machine, choice = found.proposal.machine.name, found.choice
    if not choice.chosen:
        yield f"Nothing pays on {machine} within {found.budget_kge:.1f} kGE more logic. {_nearest(found)}"
        yield _busy_array(found)
        yield from _passed_over(found)
        yield from _control(found)
        return
    assert found.base.figures is not None and choice.trial.figures is not None
    before, after = found.base.figures, choice.trial.figures
    kge = after.kge - before.kge
    yield (
        f"Logic: {before.kge:.1f} kGE, and {kge:.1f} more ({100 * kge / before.kge:.1f} %; at most "
        f"{found.budget_kge:.1f}); area {after.area_mm2 - before.area_mm2:.3f} mm² more. The added logic is fitted to "
        f"the price of {machine}, not synthesised."
    )
    yield from _clock(found)
    yield from _without_use(found)
    host = found.objective.host_cycles
    if found.objective.needs_clock or found.objective.about != "cycles" or found.objective.weights or host:
        counted = f", a node on the host as {host:,.0f} cycles" if host else ""
        yield f"Chosen by {found.objective.about}{counted}: {100 * found.saved:.1f} % less."
    yield (
        f"Sets of candidates compared: {choice.sets_tried}. Left out, as they cannot save more if candidates together "
        f"save at most what they save alone: {choice.sets_left}."
    )
    yield from _passed_over(found)
    yield from _control(found)


def _passed_over(found: Specialised) -> Iterator[str]:
    """Candidates that no set was made of, and what they could have saved at most."""
    others = found.choice.passed_over
    if others:
        most = found.objective.most_saved(found.base, [each.trial for each in others if each.trial is not None])
        names = ", ".join(each.candidate.label for each in others)
        yield (
            f"Sets are made of the {MOST_FAMILIES} kinds of candidates that save most alone. In none of them: {names}. "
            f"Together these save at most {100 * most:.1f} % of the {found.objective.about}."
        )


def _control(found: Specialised) -> Iterator[str]:
    control = found.control
    if control is None:
        return
    joined = f", and {control.joined} of several of those that gain," * (control.joined > 0)
    of = f"{control.tried} single changes{joined} that cost no more than {control.mm2:.3f} mm²"
    if control.trial is None:
        yield f"For the same area: none of {of} runs the networks."
        return
    other, own = found.objective.saved(found.base, control.trial), found.saved
    if max(own, other) < WORTH:
        yield f"For the same area: none of {of} saves {100 * WORTH:.1f} % of the {found.objective.about} either."
        return
    wins = "the instructions are ahead" if own > other else "that is the better use of the area"
    yield (
        f"For the same area: the best of {of} is {name_of(control.trial)}, with {100 * other:.1f} % less of the "
        f"{found.objective.about}, against {100 * own:.1f} %: {wins}."
    )


def _clock(found: Specialised) -> Iterator[str]:
    """What the longest path is, and what the clock makes of the cycles that are saved."""
    clocks = found.clocks
    if clocks is None:
        return
    before, after = 1000 / clocks.before_ns, 1000 / clocks.after_ns
    if clocks.after_ns <= clocks.before_ns * 1.0005:
        yield f"Clock: {before:.0f} MHz before and {after:.0f} MHz with it: nobody is charged for it."
        return
    times = ", ".join(
        f"{each.network} {old / new:.2f}" for each in found.networks for old, new in [each.ms] if old and new
    )
    yield (
        f"Clock: {before:.0f} MHz before and {after:.0f} MHz with it, by {clocks.after_limit}. At these clocks "
        f"networks are faster by the factors {times}."
    )


def _without_use(found: Specialised) -> Iterator[str]:
    """What networks pay that use none of the instructions, by energy: a wider engine takes more, whatever it does."""
    for each in found.networks:
        before, after = each.mj
        if not each.uses and before and after:
            more = 100 * (after / before - 1)
            yield (
                f"{each.network} uses none of them, and takes {abs(more):.1f} % {'more' if more >= 0 else 'less'} "
                f"energy: {before:.3f} mJ before, {after:.3f} mJ with it."
            )


def _row(each: Tried, found: Specialised) -> tuple[object, ...]:
    tried = each.trial is not None
    saved = f"{100 * each.saved(found.base, found.objective):.1f} %" if tried else ""
    kge = "" if each.kge is None else f"{each.kge:.1f}"
    return (each.candidate.label, len(each.candidate.uses), saved, kge, _verdict(each, found))


def _verdict(each: Tried, found: Specialised) -> str:
    if each in found.choice.chosen:
        return "chosen"
    if each.why_not:
        return each.why_not
    if each in found.choice.passed_over:
        return f"in no set: others of {MOST_FAMILIES} kinds save more alone"
    rival = next((of for of in found.choice.chosen if of.candidate.family == each.candidate.family), None)
    return "gains less in any set" if rival is None else f"{rival.candidate.label} gains more"


def _gain(each: NetworkEffect) -> tuple[object, ...]:
    note = ["held out"] * each.is_held_out + ["uses none of them"] * (not each.uses)
    before, after = each.host_nodes
    note += [f"{before} nodes on the host, {after} with it"] * (before != after)
    energies = ("" if mj is None else f"{mj:.3f}" for mj in each.mj)
    return each.network, *map(round, each.cycles), f"{each.times:.2f}", *energies, ", ".join(note)


def _nearest(found: Specialised) -> str:
    """The candidate that saves most words of those that were not chosen, and why it was not."""
    nearest: Tried | None = max(found.tried, key=lambda of: of.candidate.words_saved, default=None)
    if nearest is None:
        return "No layer takes several instructions that one could replace."
    return f"The nearest, {nearest.candidate.label}: {nearest.why_not}."


def _busy_array(found: Specialised) -> str:
    """How much of the cycles no instruction of another engine can shorten."""
    layers = [layer for of in found.base.layers.values() for layer in of.values()]
    bound = sum(layer.cycles for layer in layers if layer.bound == Resource.COMPUTE)
    share = 100 * bound / max(1, sum(layer.cycles for layer in layers))
    return (
        f"Layers whose products on the array take longest have {share:.1f} % of the cycles: there no instruction of "
        "another engine saves any."
    )


def _more(count: int, top: int) -> str:
    return f" ({top} of {count})" if count > top else ""
