"""Write docs/pictures/page.png, the profile's page in a browser: `python -m tests.page_picture`. Needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.digits import MODEL
from tilewright.api import compile  # noqa: A004
from tilewright.profiles.page.operators import operators_of
from tilewright.profiles.page.page import page

PICTURE = Path("docs/pictures/page.png")

WIDTH, HEIGHT = 1240, 1545

CYCLES = "cycles"
"""The name of the note in the picture."""


def main() -> int:
    """Draw the page of the digits network on `tiny8`, down to its time line."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("Chromium is not installed")
    program = compile(str(MODEL), "tiny8", effort=0)
    profile = program.run_profile()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page("digits on tiny8", profile, program.runs(), operators=operators_of(MODEL, profile.layers)))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000"]
        flags += [
            f"--user-data-dir={folder}/c",
            f"--window-size={WIDTH},{HEIGHT}",
            f"--screenshot={PICTURE.absolute()}",
        ]
        subprocess.run([browser, *flags, file.as_uri()], check=True, capture_output=True, timeout=240)
    write_cycles(PICTURE, profile.cycles)
    print(PICTURE)
    return 0


def write_cycles(picture: Path, cycles: int) -> None:
    """Note in the picture which cycles it shows, so that a test can tell when it is of before."""
    said = PngInfo()
    said.add_text(CYCLES, str(cycles))
    with Image.open(picture) as image:
        image.save(picture, pnginfo=said, optimize=True)


def cycles_of(picture: Path) -> int:
    """The cycles that a picture shows."""
    with Image.open(picture) as image:
        return int(image.info[CYCLES])


if __name__ == "__main__":
    sys.exit(main())
