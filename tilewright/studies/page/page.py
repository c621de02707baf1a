"""The page: text and tables around the charts, in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType

from tilewright.codesign.explore.energy_note import energy_notes
from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.study import DONE, MEANINGS, Entry, Study
from tilewright.html.document import document, drawn
from tilewright.html.wide import wide
from tilewright.studies.page.charts import charts, known_figures
from tilewright.studies.profiles import command_of

FOLDER = Path(__file__).parent

Profiles = Mapping[tuple[str, str], str]
"""Addresses of pages, by a point's label and a network."""

BY_NETWORK = ("cycles", "utilisation", "dram_bytes", "on_chip_mj", "dram_mj", "host_nodes", "instructions")


def study_page(study: Study, profiles: Profiles = MappingProxyType({})) -> str:
    """One HTML file with everything in it. The same study gives the same text.

    A point that is chosen shows the way to its profiles: a link to those in `profiles`, a command for others.
    """
    title = f"Machines like {Path(study.base).stem}"
    states = "; ".join(f"{count:,} {MEANINGS[state]}" for state, count in study.counts().items())
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{len(study.entries):,} points: {escape(states)}.</p>"]
    parts += [f"<p>{escape(each)}</p>" for each in (study.host_note(), *energy_notes(study, study.objectives)) if each]
    script = ""
    if study.measured:
        script, places = drawn(lambda: charts(study))
        parts += _sections(study, places)
    else:
        parts += _why_none(study)
    parts += _others(study)
    return document(title, "\n".join(parts), script, FOLDER, _data(study, profiles))


def _sections(study: Study, places: Sequence[str]) -> Iterator[str]:
    names = known_figures(study)
    scatter, parallel = places
    yield '<nav><a href="#front">Front</a><a href="#parallel">Keys and figures</a><a href="#points">Table</a></nav>'
    yield '<h2 id="front">What is worth choosing between</h2>'
    yield '<p class="quiet">Red points are beaten by none in both figures. A point shows its networks and profiles.</p>'
    yield f'<p><label>Across <select id="x">{_options(names, 0)}</select></label> '
    yield f'<label>Up <select id="y">{_options(names, 1)}</select></label></p>{scatter}'
    yield '<div id="chosen" aria-live="polite"><p class="quiet">Choose a point in a chart or in the table.</p></div>'
    yield '<h2 id="parallel">Keys and figures</h2>'
    yield f'<p class="quiet">A line a point, from the least to the most of each.</p>{parallel}'
    yield '<h2 id="points">Measured points</h2>'
    yield '<p class="quiet">A heading sorts; a name shows its point above.</p>'
    yield _points_table(study, names)
    yield '<p class="quiet">' + "; ".join(f"<b>{name}</b>: {escape(FIGURES[name].about)}" for name in names) + ".</p>"


def _why_none(study: Study) -> Iterator[str]:
    """What each constraint excludes, and what comes nearest; if none does, nothing was measured yet."""
    found = study.exclusions()
    yield f"<p>{'No measured point meets the constraints.' if found else 'No point is measured yet.'}</p>"
    for each in found:
        facts = f"excludes {each.count:,}; nearest is {each.figures}, of {study.difference(each.nearest)}"
        yield f"<p><code>{escape(each.constraint)}</code> {escape(facts)}.</p>"


def _options(names: Sequence[str], chosen: int) -> str:
    return "".join(f"<option{' selected' * (at == chosen)}>{name}</option>" for at, name in enumerate(names))


def _points_table(study: Study, names: Sequence[str]) -> str:
    best = {entry.label for entry in study.front}
    heads = [("point", ""), ("front", ""), *((name, ' class="number"') for name in names)]
    head = "".join(f'<th scope="col"{kind}><button type="button">{name}</button></th>' for name, kind in heads)
    rows = []
    for at, entry in enumerate(study.measured):
        name = f'<td><a href="#front" data-point="{at}">{escape(study.difference(entry))}</a></td>'
        mark = f"<td>{'yes' if entry.label in best else ''}</td>"
        rows.append(f"<tr>{name}{mark}{''.join(_cell(entry.figures[figure]) for figure in names)}</tr>")
    body = "\n".join(rows)
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return wide(f'<table class="sortable" data-first="up">{table}</table>', "Points", "points")


def _cell(value: float | None) -> str:
    number = value or 0
    text = f"{number:,.0f}" if abs(number) >= 1000 or number == int(number) else f"{number:.4g}"
    return f'<td class="number" data-value="{number}">{text}</td>'


def _others(study: Study) -> Iterator[str]:
    """Points without figures, with the reason."""
    others = [entry for entry in study.entries if entry.state != DONE]
    if others:
        rows = "\n".join(_other(study, entry) for entry in others)
        head = '<tr><th scope="col">point</th><th scope="col">state</th><th scope="col">reason</th></tr>'
        yield '<h2 id="others">Points that are not measured</h2>'
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
        yield wide(table, "Points that are not measured", "points")


def _other(study: Study, entry: Entry) -> str:
    cells = (study.difference(entry), MEANINGS[entry.state], entry.reason)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _data(study: Study, profiles: Profiles) -> str:
    """What the page's own script needs, as JSON that cannot end its element."""
    comparable = {entry.label for entry in study.comparable()}
    points = [
        {
            "isComparable": entry.label in comparable,
            "difference": study.difference(entry),
            "figures": dict(entry.figures),
            "networks": {
                name: {figure: each.as_json()[figure] for figure in BY_NETWORK} for name, each in entry.networks.items()
            },
            "profiles": {name: profiles.get((entry.label, name)) for name in entry.networks},
            "commands": {name: command_of(study, entry, name) for name in entry.networks},
        }
        for entry in study.measured
    ]
    more = [name for name, figure in FIGURES.items() if figure.is_more_better]
    return json.dumps({"points": points, "moreIsBetter": more}).replace("<", "\\u003c")
