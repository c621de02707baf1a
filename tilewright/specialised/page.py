"""The page: what the chosen instructions are, what they are worth, and what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from tilewright.codesign.advise.effects import ran
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.specialise.answer import Specialised
from tilewright.codesign.specialise.tables import lines, tables
from tilewright.html.document import document
from tilewright.html.wide import wide
from tilewright.terminal.tables import format_value

FOLDER = Path(__file__).parent

BAR_REM = 14.0
"""The length of the longest bar."""

MOST_LAYERS = 40
"""Rows of a network's table; the others are counted."""

TEXT_COLUMNS = frozenset({"verdict", "reason", "why not"})
"""Columns of sentences, which may fold."""


def instructions_page(found: Specialised, text: str) -> str:
    """One HTML file with everything in it, `text` of the new machine's file included. The same gives the same."""
    title = f"Instructions for {found.proposal.machine.name}"
    parts = [f"<h1>{escape(title)}</h1>", *_figures(found)]
    parts += [f"<p>{escape(line)}</p>" for line in lines(found)]
    parts += [*_chosen(found, text), *_bars(found)]
    for name, columns, rows in tables(found):
        parts += [f"<h2>{escape(name)}</h2>", _table(name, columns, [list(row) for row in rows])]
    parts += [*_layers(found), *_cost(found), *_rejected(found)]
    return document(title, "\n".join(parts), "", FOLDER)


def _figures(found: Specialised) -> Iterator[str]:
    """The headline in boxes."""
    if not found.choice.chosen:
        return
    before, after = found.base.figures, found.choice.trial.figures
    assert before is not None and after is not None
    boxes = [
        (f"{100 * found.saved:.1f} %", f"less of the {found.objective.about}"),
        (f"{after.kge - before.kge:.1f} kGE", f"more logic than {before.kge:.1f}"),
        (f"{after.area_mm2 - before.area_mm2:.3f} mm²", f"more area than {before.area_mm2:.3f}"),
    ]
    if found.clocks is not None:
        boxes.append((f"{1000 / found.clocks.after_ns:.0f} MHz", f"clock, {1000 / found.clocks.before_ns:.0f} before"))
    inside = "".join(f"<div><b>{escape(big)}</b><span>{escape(small)}</span></div>" for big, small in boxes)
    yield f'<div class="figures">{inside}</div>'


def _chosen(found: Specialised, text: str) -> Iterator[str]:
    """Each instruction in a sentence, and the file."""
    chosen = found.choice.instructions
    if not chosen:
        return
    yield '<h2 id="instructions">The instructions</h2>'
    for each in chosen:
        yield f"<h3>{escape(each.name)}</h3><p>{escape(each.about)}</p>"
    yield f"<pre>{escape(text)}</pre>"


def _bars(found: Specialised) -> Iterator[str]:
    """Cycles of each network, before and after, each beside its own before."""
    if not found.networks:
        return
    yield '<h2 id="networks">Before and after</h2>'
    yield '<p class="quiet">Grey: cycles before. Red: with the instructions. Each network has its own scale.</p>'
    rows = []
    for each in found.networks:
        note = " (held out)" if each.is_held_out else ""
        bars = _pair(1.0, each.cycles[1] / each.cycles[0])
        rows.append(f"<tr><td>{escape(each.network)}{note}</td><td>{bars}</td><td>{each.times:.2f} times</td></tr>")
    yield wide(f"<table><tbody>{''.join(rows)}</tbody></table>", "Cycles before and after")


def _pair(before: float, after: float) -> str:
    spans = (
        f'<span class="bar {kind}" style="width:{BAR_REM * length:.2f}rem"></span>'
        for kind, length in (("before", before), ("after", after))
    )
    return f'<div class="bars">{"<br>".join(spans)}</div>'


def _layers(found: Specialised) -> Iterator[str]:
    """A table for each network: the layers whose cycles changed, those that gain most first."""
    if not found.choice.chosen:
        return
    yield '<h2 id="layers">By layer</h2>'
    pairs: list[tuple[Trial, Trial, str]] = [(found.base, found.choice.trial, "")]
    pairs += [(old, new, " (held out)") for old, new in found.held_out]
    for before, after, note in pairs:
        for of in ran(before):
            yield _network_layers(of.network, note, before, after)


def _network_layers(network: str, note: str, before: Trial, after: Trial) -> str:
    old, new = before.layers[network], after.layers.get(network, {})
    changed = [(name, layer, new[name]) for name, layer in old.items() if name in new]
    changed = [each for each in changed if each[1].cycles != each[2].cycles]
    first = f", the {MOST_LAYERS} that change most" if len(changed) > MOST_LAYERS else ""
    summary = f"{network}{note}: {len(changed)} of {len(old)} layers changed{first}"
    changed = sorted(changed, key=lambda each: -abs(each[2].cycles - each[1].cycles))[:MOST_LAYERS]
    rows: list[list[object]] = [
        [name, one.cycles, other.cycles, one.cycles - other.cycles, one.bound, other.bound]
        for name, one, other in sorted(changed, key=lambda each: each[2].cycles - each[1].cycles)
    ]
    columns = ("layer", "cycles", "with it", "saved", "bound before", "bound after")
    body = _table(summary, columns, rows) if rows else ""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def _cost(found: Specialised) -> Iterator[str]:
    """What the instructions cost those who do not use them: area, clock, bits of programs, energy."""
    if not found.choice.chosen:
        return
    before = found.proposal.machine
    after = found.after
    bytes_before, bytes_after = before.longest_instruction_bytes, after.longest_instruction_bytes
    yield '<h2 id="cost">What it costs those who do not use it</h2>'
    yield f"<p>The longest instruction has {bytes_after} bytes, {bytes_before} before.</p>"
    columns = ("network", "program bytes", "with it", "mJ", "with it", "ms", "with it")
    rows: list[list[object]] = [
        [f"{each.network}{'' if each.uses else ' (uses none)'}", *each.program_bytes]
        + ["" if of is None else f"{of:.4g}" for of in (*each.mj, *each.ms)]
        for each in found.networks
    ]
    yield _table("Programs, energy and time", columns, rows)


def _rejected(found: Specialised) -> Iterator[str]:
    """Sets that were compared, and layers for which no statement was found."""
    if found.choice.sets:
        yield '<h2 id="sets">Sets of several candidates</h2>'
        sets: list[list[object]] = [
            [
                " + ".join(each.names),
                f"{100 * each.bound:.1f} %",
                "" if each.saved is None else f"{100 * each.saved:.1f} %",
                each.why_not,
            ]
            for each in found.choice.sets
        ]
        yield _table("Sets of several candidates", ("set", "saves at most", "saves", "why not"), sets)
    if found.proposal.refused:
        yield '<h2 id="refused">Layers for which no statement was found</h2>'
        refused: list[list[object]] = [[each.network, each.layer, each.reason] for each in found.proposal.refused]
        yield _table("Layers without a statement", ("network", "layer", "reason"), refused)


def _table(what: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in columns)
    body = "\n".join(f"<tr>{''.join(map(_cell, columns, row))}</tr>" for row in rows)
    return wide(f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>', what)


def _cell(column: str, value: object) -> str:
    if isinstance(value, int | float):
        return f'<td class="number" data-value="{value}">{format_value(value)}</td>'
    kind = ' class="words"' if column in TEXT_COLUMNS else ""
    return f"<td{kind}>{escape(str(value))}</td>"
