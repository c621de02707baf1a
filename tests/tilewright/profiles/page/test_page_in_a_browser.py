"""The profile's page for everybody: with a keyboard, a screen reader, on a phone, on light and on dark paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import DESKTOP, PHONE, browser, opened, wider_than_the_window
from tests.mixed_networks import sandwich
from tilewright.api import compile  # noqa: A004
from tilewright.profiles.page.hosts import host_parts
from tilewright.profiles.page.page import page
from tilewright.profiles.page.sections import compared, what_if_section
from tilewright.profiles.what_if import choices_of, what_if

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a network that has nodes on the host, too, so that all that a page may show is on it."""
    program = compile(sandwich(), "tiny8", effort=0)
    path = tmp_path_factory.mktemp("page") / "page.html"
    profile, runs = program.run_profile(), program.runs()
    bounds = what_if([run.program for run in runs], profile.cycles, choices_of(program.machine, ["all"]))
    sections = [compared(profile, profile, "mixed", "again"), what_if_section(bounds, (), profile.cycles)]
    path.write_text(page("mixed", profile, runs, hosts=host_parts(program.network), sections=sections))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_that_axe_finds(chromium: Any, file: Path, size: tuple[int, int], scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with opened(chromium, file.as_uri(), size, color_scheme=scheme) as (shown, faults):
        shown.wait_for_selector(".bk-Figure")
        found = Axe().run(shown).response["violations"]
        assert [(fault["id"], [node["html"][:80] for node in fault["nodes"][:3]]) for fault in found] == []
        assert (faults, wider_than_the_window(shown)) == ([], 0)


def test_a_phone_reads_words_for_fingers(chromium: Any, file: Path) -> None:
    with opened(chromium, file.as_uri(), PHONE, has_touch=True, is_mobile=True) as (shown, _):
        assert shown.get_by_text("Pinch to zoom").is_visible() and not shown.get_by_text("Turn the wheel").is_visible()


def test_the_keyboard_sorts_and_scrolls(chromium: Any, file: Path) -> None:
    with opened(chromium, file.as_uri(), PHONE) as (shown, _):
        heading = shown.locator("table.sortable th").nth(1)
        heading.locator("button").press("Enter")
        assert heading.get_attribute("aria-sort") == "descending"
        heading.locator("button").press("Enter")
        assert heading.get_attribute("aria-sort") == "ascending"
        table = shown.get_by_role("region", name="Layers")
        table.focus()
        shown.keyboard.press("ArrowRight")
        shown.wait_for_function("document.querySelector('[aria-label=Layers]').scrollLeft > 0")


def test_a_box_of_the_time_line_says_its_instruction_and_layer(chromium: Any, file: Path) -> None:
    with opened(chromium, file.as_uri(), DESKTOP) as (shown, faults):
        shown.wait_for_selector(".bk-Figure")
        place = shown.evaluate(
            """() => {
              const view = Bokeh.index.get_by_id(Bokeh.documents[0].get_model_by_name("time").id)
                || Bokeh.index.find_one_by_id(Bokeh.documents[0].get_model_by_name("time").id);
              const boxes = view.model.renderers[0].data_source.data;
              view.el.scrollIntoView();
              const frame = view.frame, corner = view.el.getBoundingClientRect();
              const x = (boxes.left[0] + boxes.right[0]) / 2, y = (boxes.bottom[0] + boxes.top[0]) / 2;
              return [corner.x + frame.x_scale.compute(x), corner.y + frame.y_scale.compute(y)];
            }"""
        )
        shown.mouse.move(*place)
        tip = shown.locator(".bk-Tooltip", has_text="instruction").first
        tip.wait_for(timeout=10_000)
        said = tip.evaluate("tip => tip.shadowRoot.textContent")
        assert "load_" in said and "conv" in said and "custom" not in said, said
        assert faults == []
