"""A page in one file: text stays text, a script only for charts, the same bytes for the same charts."""

from pathlib import Path

import pytest
from bokeh.plotting import figure

from tilewright.html.document import FOLDER, IDENTIFIER, document, drawn, empty_chart


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "style.css").write_text("p { color: teal }")
    (tmp_path / "page.js").write_text("ready();")
    return tmp_path


def test_a_title_is_text(own: Path) -> None:
    page = document("a <b> & c", "<p>body</p>", "", own)
    assert "<title>a &lt;b&gt; &amp; c</title>" in page
    assert "<body>\n<main>\n<p>body</p>\n" in page


def test_has_the_style_and_the_script_of_all_pages_and_its_own(own: Path) -> None:
    page = document("t", "", "", own)
    assert (FOLDER / "style.css").read_text() + "p { color: teal }" in page
    assert (FOLDER / "sort.js").read_text() + "ready();" in page


def test_what_draws_is_there_only_for_charts(own: Path) -> None:
    without, with_charts = document("t", "", "", own), document("t", "", "draw();", own)
    assert "Bokeh" not in without
    assert "Bokeh" in with_charts
    assert "<script>draw();</script>" in with_charts


def test_data_is_there_only_when_given(own: Path) -> None:
    assert 'id="data"' not in document("t", "", "", own)
    assert '<script type="application/json" id="data">[1, 2]</script>' in document("t", "", "", own, "[1, 2]")


def test_the_same_charts_are_the_same_bytes() -> None:
    first, again = (drawn(lambda: [empty_chart("one", 100), empty_chart("two", 50)]) for _ in range(2))
    assert first == again
    script, places = first
    assert len(places) == 2
    assert places[0] != places[1]
    assert not IDENTIFIER.search(script + "".join(places))


def test_a_name_that_looks_like_a_count_of_bokeh_stays() -> None:
    """Bokeh's own short names of parts (p1003) are not used: a layer may have such a name."""

    def charts() -> list[figure]:
        return [empty_chart("p1003", 100)]

    script, _ = drawn(charts)
    assert '"p1003"' in script
    assert script.count("p1003") == 1


def test_a_chart_has_no_paper_of_its_own() -> None:
    chart = empty_chart("one", 120, title="cycles")
    assert (chart.background_fill_alpha, chart.border_fill_alpha, chart.outline_line_color) == (0, 0, None)
    assert (chart.name, chart.height, chart.title.text) == ("one", 120, "cycles")
