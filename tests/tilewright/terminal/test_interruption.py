"""Ctrl-C at any moment of any command: one line, exit code 130, soon, and nothing that runs on or stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

from tests.compiler.models import conv_model, small_cnn
from tests.rings import long_beyond

BEGUN = """
import os
from tilewright.terminal.interruption import end_at_once_on_interrupt
end_at_once_on_interrupt()
os.write(1, b"!")
from tilewright.start import main
main()
"""
"""Says when the first module of ours is there. Before that, Python itself begins, which nobody can change."""

SPACE = """base: tiny8
keys: {memories.act.kib: [8, 16], engines.vec.queue: [2, 4]}
networks: {conv: conv.onnx}
objectives: [cycles, area_mm2]
"""

COMMANDS = {
    "help": ("--help",),
    "compile": ("compile", "cnn.onnx", "--isa", "base16", "-o", "out.npu"),
    "explore": ("explore", "space.yaml", "-o", "study", "--workers", "2"),
    "price": ("price", "--isa", "tiny8"),
    "rtl": ("rtl", "--isa", "tiny8", "-o", "tiny8.v"),
}

SECONDS = 4.0
"""A second, on a computer that has other work; a price waited minutes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(conv_model(np.random.default_rng(0)), tmp_path / "conv.onnx")
    onnx.save(small_cnn(np.random.default_rng(0)), tmp_path / "cnn.onnx")
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "temporary").mkdir()
    return tmp_path


def interrupted(words: tuple[str, ...], folder: Path, after: float) -> tuple[int, str, float]:
    """The exit code, standard error, and seconds from the interrupt to the end."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(folder / "temporary")}
    environment["TILEWRIGHT_CACHE"] = str(folder / "cache")
    command = [sys.executable, "-c", BEGUN, *words]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=-1, stderr=-1, start_new_session=True)
    assert process.stdout is not None and process.stdout.read(1) == b"!"
    time.sleep(after)
    started = []
    if process.poll() is None:
        started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does
    since = time.monotonic()
    _, err = process.communicate(timeout=120)
    took = time.monotonic() - since
    assert psutil.wait_procs(started, timeout=SECONDS)[1] == []
    return process.returncode, err.decode(), took


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(1, range(12)))
@pytest.mark.parametrize("name", COMMANDS)
def test_ends_with_one_line_and_soon(name: str, seed: int, folder: Path) -> None:
    after = random.Random(f"{name} {seed}").uniform(0, 4 if seed else 0.5)
    code, err, took = interrupted(COMMANDS[name], folder, after)
    assert code in (0, 130, -signal.SIGINT) and took < SECONDS  # the last while Python ends; a shell says 130
    assert "Traceback" not in err and "KeyboardInterrupt" not in err
    assert err.endswith("interrupted\n") == (code == 130)
    assert not list((folder / "temporary").iterdir())
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_an_interrupt_that_is_lost_ends_the_process_all_the_same(folder: Path) -> None:
    """In a callback Python drops it; a child that takes no notice is ended, too."""
    code = """
import os, subprocess, sys, time
from tilewright.terminal.interruption import ends_soon
from tilewright.isa.folders.scratch import scratch
class Loses:
    def __del__(self):
        os.write(1, b"!")
        time.sleep(60)
ignoring = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
with ends_soon(), scratch():
    subprocess.Popen([sys.executable, "-c", ignoring])
    one = Loses()
    del one
    time.sleep(60)
"""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(folder / "temporary")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=-1, stderr=-1)
    assert process.stdout is not None and process.stdout.read(1) == b"!"
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, b"interrupted\n")
    assert psutil.wait_procs(children, timeout=5)[1] == []
    assert not list((folder / "temporary").iterdir())
