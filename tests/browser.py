"""Debian's Chromium, for tests of pages: they fail without it, since nobody would see that they were skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

DESKTOP, PHONE = (1280, 900), (390, 844)
"""Width and height of a window, in pixels of CSS."""


@contextmanager
def browser() -> Iterator[Any]:
    """Playwright's handle of the installed Chromium."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def opened(chromium: Any, address: str, size: tuple[int, int], **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page in a window of its own, and what goes wrong in it: errors of scripts, requests to other hosts."""
    width, height = size
    context = chromium.new_context(viewport={"width": width, "height": height}, **options)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("requestfailed", lambda request: faults.append(f"not loaded: {request.url}"))
    page.on("request", lambda request: None if _is_own(request.url, address) else faults.append(f"asks {request.url}"))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    yield page, faults
    context.close()


def _is_own(asked: str, address: str) -> bool:
    return asked.startswith(("data:", "blob:", "about:", "file:", "/".join(address.split("/")[:3])))


def wider_than_the_window(page: Any) -> int:
    """By how many pixels a page scrolls sideways: 0 is right."""
    found: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, on this computer alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *of: Any) -> None:
        """Says nothing."""
