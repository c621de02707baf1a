"""Advice as tables and lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.codesign.advise.advice import Advice
from tilewright.codesign.advise.changes import Way
from tilewright.codesign.advise.effects import Effect, ran, runs_alike
from tilewright.codesign.advise.worth import worth_row
from tilewright.codesign.points.energy_basis import energy_basis
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.points.padding import padding_note
from tilewright.codesign.price.report import Table

UNKNOWN = "–"

VALUES = re.compile(r" (?=\S+ → )")
"""Before the values of a key."""

COLUMNS = ("change", "saved", "share", "+mm²", "a mm²", "mJ saved", "layers, first")
COLUMNS_WITHOUT_PRICE = ("change", "saved", "share", "layers, first")
"""Of what gains: cycles saved, as a share, area added, share for each mm², energy saved, and the layers that gain."""


def advice_tables(advice: Advice, top: int) -> list[Table]:
    """What gains, what can go, and what would run more nodes on the machine; at most `top` rows of each.

    Also what each instruction buys, all those that were asked for.
    """
    is_priced = advice.trials[0].figures is not None
    found: list[Table] = []
    if advice.gains:
        title = f"What gains, on {advice.machine}: best first{_more(advice.gains, top)}"
        rows = [_row(of, is_priced) for of in advice.gains[:top]]
        found.append((title, COLUMNS if is_priced else COLUMNS_WITHOUT_PRICE, rows))
    if advice.fuller:
        title = f"What leaves fewer nodes to the host{_more(advice.fuller, top)}"
        fewer = [(of.name, of.host_nodes_saved, _mm2(of)) for of in advice.fuller[:top]]
        found.append((title, ("change", "nodes fewer", "mm² more"), fewer))
    if advice.removable:
        title = "What can go: as fast, and less area" if is_priced else "What is as fast with less"
        going = [*advice.removable[:top], *([advice.together] if advice.together is not None else [])]
        added = [(_mm2(of, -1), _mj(of)) if is_priced else () for of in going]
        columns = ("change", "cycles saved", *(("mm² less", "mJ saved") if is_priced else ()))
        rows = [(of.name, of.cycles_saved, *more) for of, more in zip(going, added, strict=True)]
        found.append((title + _more(advice.removable, top), columns, rows))
    if advice.instructions:
        title = f"What each instruction of {advice.machine} buys: without it, cycles more"
        columns = ("instruction", *(("kGE less",) if is_priced else ()), *advice.networks)
        found.append((title, columns, [worth_row(of, advice.networks, is_priced) for of in advice.instructions]))
    return found


def advice_lines(advice: Advice) -> Iterator[str]:
    """Where gains end, what is not used, what was refused, and what the figures rest on."""
    if not advice.gains and not advice.instructions:
        yield "No single change gains."
    if advice.not_together:
        yield f"Not all of what can go can go at once: {advice.not_together}"
    yield from map(str, advice.ends)
    for outcome in advice.trials[0].outcomes:
        if isinstance(outcome, NetworkFigures) and outcome.host_nodes:
            nodes = f"{outcome.host_nodes} node{'s' * (outcome.host_nodes != 1)}"
            yield f"{outcome.network} leaves {nodes} to the host, whose time is in no figure."
    for outcome in advice.trials[0].outcomes:
        if isinstance(outcome, NetworkFigures) and outcome.images > 1:
            yield (
                f"{outcome.network} takes {outcome.cycles:,} cycles for a run of {outcome.images} images on "
                f"{advice.machine}, {outcome.cycles_per_image:,.0f} for each; what is saved is for each image."
            )
    yield from _on_arrays(advice)
    if advice.unused:
        yield f"Instructions in no program: {', '.join(advice.unused)}."
    if advice.refused:
        yield (
            f"{len(advice.refused)} changes give no machine, no program, or leave more to the host; --json has the "
            "reasons."
        )
    yield from _on_instructions(advice)
    base = advice.trials[0].figures
    tried = sum(not trial.why_not for trial in advice.trials)
    yield f"{tried} machines were compiled for, checked and simulated, with {', '.join(advice.networks)}."
    if base is not None:
        outcomes = [of for trial in advice.trials for of in trial.outcomes if isinstance(of, NetworkFigures)]
        yield (
            f"Area: {base.process}, synthesised, not placed, estimated for {advice.machine} and fitted to that for the "
            f"others. Energy on chip and in DRAM{energy_basis(outcomes)}. The clock of each machine: "
            "`tilewright compare`."
        )


def _on_arrays(advice: Advice) -> Iterator[str]:
    """Larger arrays with which a network takes longer."""
    base, *trials = advice.trials
    for trial in trials:
        change = trial.change
        if (
            change is None
            or change.way is not Way.UP
            or not change.name.startswith("array.")
            or not runs_alike(base, trial)
        ):
            continue
        for less, more in zip(ran(base), ran(trial), strict=True):
            note = padding_note(f"with {change.name}", less, more)
            yield from [note] if note else []


def _on_instructions(advice: Advice) -> Iterator[str]:
    """What the figures of instructions mean, and why some are missing."""
    for of in advice.instructions:
        if of.why_not:
            yield f"No machine without {of.name}: {of.why_not}"
        for loss in of.losses:
            if loss.failure:
                yield f"{loss.network} fails without {of.name} in the {loss.failure}"
    if any(of.kge_saved is not None for of in advice.instructions):
        yield (
            "kGE: thousands of gates of logic that are there for this instruction alone. What several share is only in "
            "the figure for all of these."
        )


def _row(of: Effect, is_priced: bool) -> tuple[str | int, ...]:
    end = "\n" if is_priced else " "  # of a line, where prices leave little space
    rate = of.share_per_mm2
    price = (_mm2(of), "free" if rate is None else _percent(rate), _mj(of))
    return (
        VALUES.sub(end, of.name),
        of.cycles_saved,
        f"{100 * of.share_saved:.1f} %",
        *(price if is_priced else ()),
        f"{of.gaining_layers} of {of.all_layers}:{end}{of.best_layer}" if of.best_layer else "",
    )


def _percent(share: float) -> str:
    return f"{100 * share:,.0f} %" if share >= 1 else f"{100 * share:.1f} %"


def _mm2(of: Effect, sign: int = 1) -> str:
    return UNKNOWN if of.mm2_added is None else f"{sign * of.mm2_added:.3f}"


def _mj(of: Effect) -> str:
    return UNKNOWN if of.mj_saved is None else f"{of.mj_saved:.3g}"


def _more(effects: Sequence[Effect], top: int) -> str:
    return f" ({top} of {len(effects)})" if len(effects) > top else ""
