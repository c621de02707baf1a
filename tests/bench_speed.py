"""What people wait for, with what is wanted beside it: some minutes, the first hardware build among them.

python -m tests.bench_speed                              # all rows
python -m tests.bench_speed compile-resnet50 help        # some
python -m tests.bench_speed --models FOLDER              # keeps the ONNX files from run to run

Seconds are of the processor (user and system, child processes included), so that what else runs on the machine hardly
lengthens them; `elapsed` is beside them where it is what one waits for. What is `warm` is the second of two in one
process, which has found and loaded all that a later one finds loaded.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from tests.digits import MODEL
from tilewright.api import compile  # noqa: A004
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.profiles.page.page import page
from tilewright.program import Program
from tilewright.rtl.run import run_rtl_many
from tilewright.rtl.simulation.build import build_simulation
from tilewright.simulator.cycles import simulate_cycles

MACHINE = "base16"

SIMULATED_RUNS = 200
"""Runs of ResNet-8 in one hardware simulation: ten million cycles, as a large network takes. The start takes 0.7 s."""

WATCH = """
<script>
function watch() {
  const pages = window.Bokeh ? Bokeh.documents : [];
  if (pages.length && pages.every((each) => each.is_idle)) {
    requestAnimationFrame(() => console.log(`drawn after ${performance.now()}`));
  } else {
    setTimeout(watch, 10);
  }
}
window.addEventListener("load", watch);
</script>
"""
"""Says when every chart of a page has been drawn, in milliseconds since the browser began to read it."""


def main() -> None:
    """Measure the rows named, or all, each printed when it is known."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_speed", description="What people wait for.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--models", type=Path, help="a folder that keeps the ONNX files from run to run")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        sys.exit(f"no row {min(unknown)!r}; there are: {', '.join(ROWS)}")
    table = Table(title=f"what people wait for, on {MACHINE}")
    for column in ("row", "measure", "wanted", "measured"):
        table.add_column(column)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.models or Path(temporary)).absolute()
        folder.mkdir(exist_ok=True)
        for name in arguments.rows or ROWS:
            row = ROWS[name]
            measured = row.measured(folder)
            print(f"{name}: {measured}", file=sys.stderr, flush=True)
            table.add_row(name, row.about, row.wanted, measured)
    Console(width=120).print(table)


# -- clocks and networks -----------------------------------------------------------------------------------------------


def _processor_seconds() -> float:
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def _seconds(action: Callable[[], object]) -> float:
    start = _processor_seconds()
    action()
    return _processor_seconds() - start


def _warm(action: Callable[[], object]) -> str:
    """The fewest seconds of three runs after a first: what else a computer does only adds to them."""
    action()
    return f"{min(_seconds(action) for _ in range(3)):.2f} s"


def _model(folder: Path, name: str) -> Path:
    from programs.networks.registry import int8_network

    path = folder / f"{name}.onnx"
    if not path.exists():
        path.write_bytes(int8_network(name).SerializeToString(deterministic=True))
    return path


@cache
def _compiled(folder: Path, name: str) -> Program:
    return compile(_model(folder, name), MACHINE)


def _product(rows: int, inner: int, columns: int) -> onnx.ModelProto:
    """A product of int8 matrices, the second of them constant."""
    weights = np.random.default_rng(3).integers(-128, 128, (inner, columns), np.int8)
    scales = {"x_scale": 0.02, "w_scale": 0.01, "y_scale": 0.5}
    constants = [numpy_helper.from_array(np.array(scale, np.float32), name) for name, scale in scales.items()]
    constants += [numpy_helper.from_array(np.array(0, np.int8), "zero"), numpy_helper.from_array(weights, "w")]
    inputs = ["x", "x_scale", "zero", "w", "w_scale", "zero", "y_scale", "zero"]
    x, y = (helper.make_tensor_value_info(n, TensorProto.INT8, [rows, of]) for n, of in (("x", inner), ("y", columns)))
    graph = helper.make_graph([helper.make_node("QLinearMatMul", inputs, ["y"])], "product", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# -- rows --------------------------------------------------------------------------------------------------------------


def _values_and_cycles(folder: Path, name: str) -> str:
    program = _compiled(folder, name)
    inputs = program.zero_inputs()
    return _warm(lambda: program.run(inputs))


def _cycles_alone(folder: Path) -> str:
    program = _compiled(folder, "resnet50").binary
    bases = place_regions(program.limits)
    return _warm(lambda: simulate_cycles(program, bases))


def _hardware(folder: Path) -> str:
    machine = load_machine(MACHINE)
    compiled = _compiled(folder, "resnet8")
    program = compiled.binary
    bases = place_regions(program.limits)
    job = program, dram_image(program, compiled.zero_inputs()), bases
    build_simulation(machine)
    used, start = _processor_seconds(), time.perf_counter()
    runs = run_rtl_many(machine, [job] * SIMULATED_RUNS)
    elapsed, used = time.perf_counter() - start, _processor_seconds() - used
    cycles = sum(counters.cycles for _, counters in runs)
    return f"{cycles / used / 1e3:.0f} kcycles a second of the processor ({cycles / elapsed / 1e3:.0f} elapsed)"


def _first_build(folder: Path) -> str:
    kept = os.environ.get("TILEWRIGHT_CACHE")
    with tempfile.TemporaryDirectory() as empty:
        os.environ["TILEWRIGHT_CACHE"] = empty
        try:
            start = time.perf_counter()
            used = _seconds(lambda: build_simulation(load_machine(MACHINE)))
            elapsed = time.perf_counter() - start
        finally:
            os.environ.pop("TILEWRIGHT_CACHE")
            if kept is not None:
                os.environ["TILEWRIGHT_CACHE"] = kept
    return f"{elapsed:.0f} s elapsed ({used:.0f} s of the processor)"


def _help(folder: Path) -> str:
    command = [sys.executable, "-m", "tilewright", "--help"]
    return f"{min(_seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)):.2f} s"


def _first_line(folder: Path) -> str:
    """On a terminal, where the line says that the compiler is being loaded."""
    command = [sys.executable, "-m", "tilewright", "compile", str(MODEL), "--isa", MACHINE, "-o", f"{folder}/line.npu"]
    found = []
    for _ in range(3):
        used, start = _processor_seconds(), time.perf_counter()
        child, terminal = pty.fork()
        if child == 0:
            os.execv(command[0], command)
        os.read(terminal, 1)
        elapsed = time.perf_counter() - start
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
        found.append((_processor_seconds() - used, elapsed))
    return f"{min(found)[0]:.2f} s ({min(elapsed for _, elapsed in found):.2f} s elapsed)"


def _page(folder: Path) -> str:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return "Chromium is not installed"
    program = _compiled(folder, "resnet50")
    text = page("ResNet-50", program.run_profile(), program.runs())
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "page.html"
        file.write_text(text.replace("<head>", f"<head>{WATCH}", 1))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1240,900"]
        flags += [f"--user-data-dir={temporary}/c", "--remote-debugging-port=0"]  # without which it ends at once
        running = subprocess.Popen(
            [browser, *flags, file.as_uri()], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert running.stderr is not None
        drawn = next((found for line in running.stderr if (found := re.search(r"drawn after ([\d.]+)", line))), None)
        used = _renderer_seconds(running.pid)
        running.terminate()
        with suppress(subprocess.TimeoutExpired):
            running.communicate(timeout=30)
        shutil.rmtree(f"{temporary}/c", ignore_errors=True)
    elapsed = "the browser ended before" if drawn is None else f"{float(drawn[1]) / 1e3:.2f} s elapsed"
    return f"{used:.2f} s ({elapsed}, {len(text) / 1e6:.1f} MB)"


def _renderer_seconds(session: int) -> float:
    """What the processes of a browser's session that draw pages have taken so far, as Linux says."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and "--type=renderer" in (folder / "cmdline").read_text():
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Row:
    """A measure: what it is, what is wanted, and how it is taken with the networks of a folder."""

    about: str
    wanted: str
    measured: Callable[[Path], str]


ROWS = {
    "help": Row("tilewright --help", "≤ 0.3 s", _help),
    "first-line": Row("first line of tilewright compile", "≤ 0.7 s", _first_line),
    "compile-mobilenetv2": Row(
        "compile MobileNetV2, warm",
        "≤ 2.5 s",
        lambda folder: _warm(lambda: compile(_model(folder, "mobilenetv2"), MACHINE)),
    ),
    "compile-resnet50": Row(
        "compile ResNet-50, warm", "≤ 5 s", lambda folder: _warm(lambda: compile(_model(folder, "resnet50"), MACHINE))
    ),
    "compile-parts": Row(
        "compile KWT-1, in parts, warm",
        "≤ 6 s",
        lambda folder: _warm(lambda: compile(_model(folder, "kwt-1"), MACHINE)),
    ),
    "compile-product": Row(
        "compile a product 2048×4096×4096",
        "≤ 14 s",
        lambda folder: f"{_seconds(lambda: compile(_product(2048, 4096, 4096), MACHINE)):.1f} s",
    ),
    "run-resnet18": Row(
        "values and cycles, ResNet-18, warm", "≤ 0.5 s", lambda folder: _values_and_cycles(folder, "resnet18")
    ),
    "run-resnet50": Row(
        "values and cycles, ResNet-50, warm", "≤ 1.2 s", lambda folder: _values_and_cycles(folder, "resnet50")
    ),
    "cycles-resnet50": Row("cycles alone, ResNet-50, warm", "≤ 0.5 s", _cycles_alone),
    "page-resnet50": Row("page of ResNet-50 drawn in Chromium", "≤ 2 s", _page),
    "hardware": Row("hardware simulation, start-up included", "≥ 500 kcycles/s", _hardware),
    "first-build": Row("first hardware build", "≤ 45 s elapsed on two cores", _first_build),
}
"""By name, in the order in which they are measured."""

if __name__ == "__main__":
    main()
