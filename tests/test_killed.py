"""Kill −9 at any moment of a study, a price and a hardware build: what is there is whole, and the next run goes on.

In the long ring each is killed 50 times; the slow one has a sample.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

from tests.compiler.models import conv_model
from tilewright.codesign.explore.store import POINTS, read_lines
from tilewright.codesign.explore.study import Study

SPACE = """base: tiny8
keys: {memories.act.kib: [8, 16, 32]}
networks: {conv: conv.onnx}
objectives: [cycles, area_mm2]
"""

TILEWRIGHT = "from tilewright.start import main; main()"

BUILD = """
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.simulation.build import build_simulation
print(build_simulation(load_machine("tiny8")))
"""

EXPLORE = [TILEWRIGHT, "explore", "space.yaml", "-o", "study", "--workers", "2"]
PRICE = [TILEWRIGHT, "price", "--isa", "tiny8", "--json", "-"]

FEW = 2
"""Kills of the sample."""

MINE = {"conv.onnx", "space.yaml", "study", "cache", "temporary"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(conv_model(np.random.default_rng(0)), tmp_path / "conv.onnx")
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "temporary").mkdir()
    return tmp_path


def begun(command: list[str], folder: Path, cache: Path | None) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(folder / "temporary")}
    if cache is not None:
        environment["TILEWRIGHT_CACHE"] = str(cache)
    words = [sys.executable, "-c", *command]
    return subprocess.Popen(words, cwd=folder, env=environment, stdout=-1, stderr=-1, text=True, start_new_session=True)


def killed(command: list[str], folder: Path, cache: Path | None, after: float) -> None:
    """Kill the command and what is in its group; what it has started elsewhere must end by itself."""
    process = begun(command, folder, cache)
    time.sleep(after)
    started = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    with suppress(ProcessLookupError):  # it may have come to its end
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert {path.name for path in folder.iterdir()} <= MINE


def finished(command: list[str], folder: Path, cache: Path | None) -> str:
    process = begun(command, folder, cache)
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err
    return out


def require_whole(cache: Path) -> None:
    """Every file that was kept is all there."""
    for path in cache.rglob("*.json"):
        if "unfinished" not in str(path):
            json.loads(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [FEW, pytest.param(50, marks=pytest.mark.long)])
def test_a_killed_study_goes_on(folder: Path, kills: int) -> None:
    draw = random.Random(kills)
    for _ in range(kills):
        killed(EXPLORE, folder, None, draw.uniform(0, 12))
        if (folder / "study" / POINTS).exists():
            _, end, notes = read_lines(folder / "study" / POINTS)
            assert (end, notes) == ((folder / "study" / POINTS).stat().st_size, [])
            assert {path.name for path in (folder / "study").iterdir()} <= {"lock", POINTS, "space.yaml"}
    finished(EXPLORE, folder, None)
    study = Study(folder / "study")
    assert study.counts() == {"measured": 3} and not study.notes
    if kills > FEW:
        finished([*EXPLORE[:3], "-o", "whole"], folder, None)
        assert [entry.figures for entry in study.entries] == [each.figures for each in Study(folder / "whole").entries]
    assert not list((folder / "temporary").glob("tilewright-scratch-*/*"))


@pytest.mark.long
def test_a_killed_price_goes_on(folder: Path) -> None:
    draw = random.Random(0)
    for _ in range(50):
        killed(PRICE, folder, folder / "cache", draw.uniform(0, 15))
        require_whole(folder / "cache")
    assert finished(PRICE, folder, folder / "cache") == finished(PRICE, folder, folder / "temporary" / "fresh")


@pytest.mark.long
def test_a_killed_build_goes_on(folder: Path) -> None:
    draw = random.Random(0)
    for _ in range(50):
        killed([BUILD], folder, folder / "cache", draw.uniform(0, 15))
    built = Path(finished([BUILD], folder, folder / "cache").strip())
    assert built.is_file() and os.access(built, os.X_OK)
    assert not [path for path in (folder / "cache").rglob("*.unfinished.*") if built in path.parents]
