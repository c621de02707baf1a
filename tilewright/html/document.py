"""An HTML page in one file: its text, its charts by Bokeh with the script that draws them, its style."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.embed import components
from bokeh.plotting import figure
from bokeh.resources import INLINE
from bokeh.settings import settings

FOLDER = Path(__file__).parent

INK = "#7b8494"
"""Text and axes of charts: in the middle between light paper and dark."""

IDENTIFIER = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
"""What Bokeh draws by chance for each chart."""


def document(title: str, body: str, script: str, own: Path, data: str = "") -> str:
    """The page. `script` draws the charts; `own` is the folder with the page's style.css, and page.js if it has one.

    `data` is JSON for the latter, in which nothing may end an element.
    """
    style = "".join((folder / "style.css").read_text() for folder in (FOLDER, own))
    files = (FOLDER / "sort.js", own / "page.js")
    scripts = [file.read_text() for file in files if file.is_file()]
    library = "\n".join(f"<script>{text}</script>" for text in INLINE.js_raw[:1]) if script else ""
    facts = f'<script type="application/json" id="data">{data}</script>\n' if data else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
{library}
</head>
<body>
<main>
{body}
</main>
{facts}<script>{script}</script>
<script>{"".join(scripts)}</script>
</body>
</html>
"""


def drawn(charts: Callable[[], Sequence[Any]]) -> tuple[str, Sequence[str]]:
    """The script that draws charts, and their places; what makes them is called here.

    Bokeh counts the parts of all charts of a process otherwise, and `p1003` may be the name of a layer, too. The
    identifiers that it draws by chance instead are counted, so that the same charts give the same text.
    """
    settings.simple_ids = False
    try:
        script, places = components(charts(), wrap_script=False)
    finally:
        settings.simple_ids.unset_value()
    numbers: dict[str, str] = {}

    def counted(text: str) -> str:
        return IDENTIFIER.sub(lambda found: numbers.setdefault(found[0], f"chart-{len(numbers)}"), text)

    return counted(script), [counted(place) for place in places]


def empty_chart(name: str, height: int, **options: Any) -> Any:
    """An empty chart as wide as the page, without paper of its own."""
    made = figure(name=name, height=height, sizing_mode="stretch_width", **options)
    made.background_fill_alpha = made.border_fill_alpha = 0
    made.outline_line_color = None
    made.grid.grid_line_color, made.grid.grid_line_alpha = INK, 0.25
    made.axis.axis_label_text_color = made.axis.major_label_text_color = INK
    made.axis.axis_line_color = made.axis.major_tick_line_color = INK
    made.axis.minor_tick_line_color = None
    made.toolbar.logo = None
    return made
