"""Parts of SVG pictures: shapes and texts, and one style for light and dark paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

COLOURS = ("#3c7dc4", "#d9a521", "#3f9b5b", "#c8553d", "#8c6bb1", "#4fa8a3", "#b5739d", "#98a2b3")


STYLE = """
text{font:13px Helvetica,Arial,sans-serif;fill:#1c2330}
.small{font-size:11px}.title{font-weight:bold}.quiet{fill:#5c6678}.middle{text-anchor:middle}.end{text-anchor:end}
.on{fill:#fff}.box{fill:#f6f8fb;stroke:#98a2b3}.line{stroke:#98a2b3;fill:none}.paper{fill:#fff}
@media (prefers-color-scheme:dark){
text{fill:#e4e8ef}.quiet{fill:#9aa5b8}.on{fill:#fff}.box{fill:#1e2735;stroke:#5c6678}.paper{fill:#14181f}}
"""


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A whole file; the title is what a screen reader says."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    arrow = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="#7b8494"/></marker></defs>'
    )
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title><style>{STYLE}</style>{arrow}{paper}", *parts, "</svg>\n"])


def text(x: float, y: float, words: object, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{_kind(kind)}>{escape(str(words))}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box", fill: str = "", hint: str = "") -> str:
    """A rectangle; `hint` is shown when the pointer rests on it."""
    colour = f' fill="{fill}"' if fill else ""
    place = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"{_kind("" if fill else kind)}{colour}'
    )
    return f"{place}><title>{escape(hint)}</title></rect>" if hint else f"{place}/>"


def arrow(points: Sequence[tuple[float, float]], colour: str = "#7b8494", both_ways: bool = False) -> str:
    """A line through the points with a tip at its end, or at both ends."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    start = ' marker-start="url(#tip)"' * both_ways
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.4"{start} marker-end="url(#tip)"/>'


def frames(pictures: Sequence[str], seconds: float) -> list[str]:
    """Pictures shown one after the other, each as long, over and over; a reader without animation sees the last."""
    count, shown = len(pictures), []
    for number, content in enumerate(pictures):
        values, times = ["inline", "none"], [0.0, (number + 1) / count]
        if number:
            values, times = ["none", "inline", "none"], [0.0, number / count, (number + 1) / count]
        if number == count - 1:
            values, times = values[:-1], times[:-1]
        animate = (
            f'<animate attributeName="display" values="{";".join(values)}" '
            f'keyTimes="{";".join(f"{time:.5g}" for time in times)}" calcMode="discrete" '
            f'dur="{seconds * count:g}s" repeatCount="indefinite"/>'
        )
        hidden = ' display="none"' if number < count - 1 else ""
        shown.append(f"<g{hidden}>{animate}{content}</g>")
    return shown


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
