"""`make docs`: the site builds without a dead link, has every page and public name, and works in a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright
from tests.browser import DESKTOP, PHONE, browser, opened, served, wider_than_the_window

pytestmark = pytest.mark.slow


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(site)]
    return subprocess.run(words, capture_output=True, text=True, cwd=config.parent)


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(repository / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_there(site: Path, repository: Path) -> None:
    pages = [path.stem for path in (repository / "docs").glob("*.md") if path.stem != "README"]
    assert pages and all((site / "docs" / page / "index.html").is_file() for page in pages)


def test_the_reference_has_every_public_name(site: Path) -> None:
    text = (site / "docs" / "reference" / "index.html").read_text()
    missing = [name for name in tilewright.__all__ if f'.{name}"' not in text]
    assert not missing


@pytest.mark.parametrize("link", ["nowhere.md", "tutorial.md#nowhere"])
def test_a_dead_link_fails_the_build(link: str, repository: Path, tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(repository / name, tmp_path / name)
    shutil.copytree(repository / "docs", tmp_path / "docs")
    shutil.copytree(repository / "programs", tmp_path / "programs", ignore=shutil.ignore_patterns("*.onnx", "*.npz"))
    for linked in ("tests/random_machines.py", "codesign/processes/sg13g2/process.yaml"):
        (tmp_path / linked).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / linked, tmp_path / linked)
    with (tmp_path / "docs" / "explain.md").open("a") as page:
        page.write(f"\nSee [this]({link}).\n")
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode != 0 and link.partition("#")[0] in built.stderr


@pytest.mark.long
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_in_a_browser(site: Path, size: tuple[int, int]) -> None:
    """No script fails, no page asks another host for anything, and none is wider than the window."""
    with served(site) as address, browser() as chromium:
        for path in ("", "docs/", "docs/tutorial/", "docs/codesign/", "docs/reference/", "docs/operators/"):
            with opened(chromium, f"{address}/{path}", size) as (page, faults):
                assert (path, faults, wider_than_the_window(page)) == (path, [], 0)
                assert page.locator("article h1").first.is_visible()
                broken = page.evaluate(
                    "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
                )
                assert (path, broken) == (path, [])


@pytest.mark.long
def test_search_finds_a_page(site: Path) -> None:
    with served(site) as address, browser() as chromium, opened(chromium, f"{address}/", DESKTOP) as (page, faults):
        page.locator(".md-search__input").first.fill("glossary")
        page.wait_for_selector(".md-search-result__item a", timeout=60_000)
        assert any("glossary" in (of.get_attribute("href") or "") for of in page.locator(".md-search-result a").all())
        assert faults == []
