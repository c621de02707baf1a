"""Sections of the page that answer a further question: another program beside this one, and what if."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.html.wide import wide
from tilewright.profiles.against import by_cause, by_layer, sentences
from tilewright.profiles.what_if import NEVER_WAIT, NO_MORE, Changed, WhatIf
from tilewright.simulator.run_profile import RunProfile
from tilewright.terminal.tables import percent

Difference = tuple[str, str | int, str | int, str]
"""What is compared, its cycles and those beside it, empty where there are none, and a remark."""

BAR_WIDTH = 9
"""Of the longest bar, in rem."""

SMALL = 0.1
"""A share of the cycles whose bar is never the longest, so that what changes little looks little."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under its own heading; `name` is what links name it by."""

    name: str
    title: str
    html: str


def compared(profile: RunProfile, other: RunProfile, name: str, other_name: str) -> Section:
    """Cycles of this profile against the other's: in all, by cause, and by layer, the largest change first."""
    said = "".join(f"<p>{escape(line)}</p>" for line in sentences(profile, other, name, other_name))
    causes = [(*row, "") for row in by_cause(profile, other)]
    layers = [(row[0], row[1], row[2], row[4]) for row in by_layer(profile.layers, other.layers)]
    tables = _differences("By cause", ("cause", name, other_name), causes)
    tables += _differences("By layer", ("layer", name, other_name, "mostly"), layers)
    return Section("against", f"Against {other_name}", said + tables)


def what_if_section(bounds: WhatIf | None, changes: Sequence[Changed], cycles: int) -> Section:
    """What ideal parts would bring at most, and what the network takes when it is compiled for changed machines."""
    html = ""
    if bounds is not None:
        rows: list[Difference] = [(bound.parts, bound.cycles, cycles, "") for bound in bounds.bounds]
        html += _differences("If a part took no time", ("part", "cycles at least", "now"), rows)
        html += f'<p class="quiet">{escape(NO_MORE)} {escape(NEVER_WAIT.format(apart=bounds.apart))}</p>'
    if changes:
        again: list[Difference] = [(one.change, _known(one.cycles), cycles, one.why_not) for one in changes]
        heads = ("setting", "cycles", "now", *["why not"] * any(one.why_not for one in changes))
        html += _differences("Compiled again, with", heads, again)
    return Section("what-if", "What if?", html)


def _differences(title: str, heads: Sequence[str], rows: Sequence[Difference]) -> str:
    """A table of two counts of cycles, with a bar for each difference; a column less where `heads` has none for it."""
    counted = [(one, two) for _, one, two, _ in rows if isinstance(one, int) and isinstance(two, int)]
    most = max((max(abs(one - two), SMALL * two) for one, two in counted), default=0)
    body = ""
    for name, one, two, remark in rows:
        cells = f"<td>{escape(name)}</td>{_count(one)}{_count(two)}"
        cells += _difference(one, two, most) + (f"<td>{escape(remark)}</td>" if len(heads) > 3 else "")
        body += f"<tr>{cells}</tr>"
    columns = [
        f'<th scope="col">{escape(heads[0])}</th>',
        *(f'<th scope="col" class="number">{escape(head)}</th>' for head in heads[1:3]),
        '<th scope="col">difference</th>',
        *(f'<th scope="col">{escape(head)}</th>' for head in heads[3:]),
    ]
    table = f'<table class="plain"><thead><tr>{"".join(columns)}</tr></thead><tbody>{body}</tbody></table>'
    return f"<h3>{escape(title)}</h3>{wide(table, title)}"


def _known(cycles: int | None) -> str | int:
    return "" if cycles is None else cycles


def _count(value: str | int) -> str:
    return f'<td class="number">{value:,}</td>' if isinstance(value, int) else "<td></td>"


def _difference(one: str | int, two: str | int, most: float) -> str:
    if not (isinstance(one, int) and isinstance(two, int)):
        return "<td></td>"
    change = one - two
    share = f" ({percent(abs(change) / two)} {'fewer' if change < 0 else 'more'})" if change and two else ""
    kind = "fewer" if change < 0 else "more"
    bar = f'<span class="bar {kind}" style="width: {BAR_WIDTH * abs(change) / max(1, most):.2f}rem"></span> '
    return f"<td>{bar if change else ''}{change:+,}{share}</td>" if change else "<td>0</td>"
