"""How many points a study computes in an hour: seconds of the processor for a sample of points, extrapolated.

python -m tests.bench_explore                             # {ResNet-18, MobileNetV2, DS-CNN}: some minutes
python -m tests.bench_explore digits ds-cnn --machines 10 # small networks: a minute

A point is one network on one machine, which includes its part of the machine's price and what one worker does once:
reading the networks. Not in it: the price that others are fitted to and the kernels, which are made once and kept for
all studies, and the search for what that leaves behind in memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.codesign.explore.search import search_named
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.worker import StudyTask, Worker
from tilewright.codesign.points.machine import machine_key
from tilewright.isa.rare_collection import collect_rarely

NETWORKS = ("resnet18", "mobilenetv2", "ds-cnn")
DIGITS = Path(__file__).resolve().parent.parent / "programs" / "digits" / "digits_int8.onnx"

SPACE = """base: base16
keys:
  array.rows: [16, 32, 48, 64]
  array.cols: [16, 32, 48, 64]
  memories.act.kib: {from: 64, to: 448, step: 64}
  memories.wgt.kib: [64, 128, 256]
networks: {NETWORKS}
objectives: [cycles, area_mm2]
"""
"""Of 336 machines."""

CORES = 2
SECONDS = 3600
SMALL = {"digits", "ds-cnn", "autoencoder", "resnet8"}


def main() -> None:
    """Measure machines that are spread over a space, and print points an hour."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_explore", description="Points of a study an hour.")
    parser.add_argument("names", nargs="*", default=NETWORKS, metavar="NETWORK", help="digits, or as programs/networks")
    parser.add_argument("--machines", type=int, default=7, help="how many machines are measured; default: 7")
    parser.add_argument("--models", type=Path, help="a folder that keeps the ONNX files from run to run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["TILEWRIGHT_CACHE"] = f"{temporary}/cache"  # so that no search is known from an earlier run
        folder = arguments.models or Path(temporary)
        folder.mkdir(exist_ok=True)
        texts = [f"{name}: {_model(name, folder)}" for name in arguments.names]
        path = Path(temporary) / "space.yaml"
        path.write_text(SPACE.replace("NETWORKS", ", ".join(texts)))
        _measure(path, arguments.names, arguments.machines)


def _measure(path: Path, names: list[str], machines: int) -> None:
    space = read_space(path)
    table = Table(title=f"a study of {space.size} machines like base16, in seconds of the processor")
    for column in ("machine", "price", *names):
        table.add_column(column, justify="left" if column == "machine" else "right")
    *points, other = next(search_named("spread").batches(space, machines + 1))
    for network in (None, names[0]):  # finds the price that others are fitted to, and compiles the kernels
        Worker(space).answer(StudyTask(other, network))
    gc.collect()
    collect_rarely()  # as a worker does
    gc.freeze()
    worker, total, prices = Worker(space), 0.0, list[float]()
    for point in points:
        start = time.process_time()
        machine_key(space.machine(point))  # as the run does, to know whether there is work
        total += time.process_time() - start
        seconds = []
        for network in (None, *names):
            start = time.process_time()
            answer = worker.answer(StudyTask(point, network))
            seconds.append(time.process_time() - start)
            assert "stage" not in answer, answer
        total += sum(seconds)
        prices.append(seconds[0])
        table.add_row(space.label(point), *(f"{each:.2f}" for each in seconds))
    Console(width=140).print(table)
    print(f"a price: {sum(prices) / machines:.2f} s in the mean")
    each = total / (machines * len(names))
    rate = CORES * SECONDS / each
    print(f"{each:.2f} s a point: {rate:,.0f} points an hour on {CORES} cores, {rate / 12:,.0f} in 5 minutes")
    print("wanted: 12,000 an hour" if set(names) <= SMALL else "wanted: 1,000 an hour")


def _model(name: str, folder: Path) -> Path:
    if name == "digits":
        return DIGITS
    from programs.networks.registry import int8_network

    path = folder.absolute() / f"{name}.onnx"
    if not path.is_file():
        path.write_bytes(int8_network(name).SerializeToString(deterministic=True))
    return path


if __name__ == "__main__":
    main()
