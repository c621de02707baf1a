"""Whether what a search found for a network is found again with other weights, and what it saves.

python -m tests.schedules.tunings                         # the table of docs/tuning.md
python -m tests.schedules.tunings mobilenetv2 dw16
python -m tests.schedules.tunings --all base16            # every network that takes no minutes

Each network is made twice, with other random weights, and quantised anew, so that scales and zero points differ, too:
as if it had been trained again. Seconds are of the processor, after another network was compiled in the same process.
`cold` is the first network with an empty cache, `warm` the same again, `other weights` the second one then. `record`
says whether it needed no search, `the same` whether a search of its own, with an empty cache, gives the same program.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from programs.networks.builder import Builder
from programs.networks.quantise import quantise, quantise_ends
from programs.networks.registry import NETWORKS, OF_MANY_NODES
from tilewright.api import Program, compile  # noqa: A004
from tilewright.compiler.errors import CompileError
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.binary.partitioned_elf import save_any

ENTRIES = tuple((name, isa) for isa in ("base16", "dw16") for name in ("ds-cnn", "resnet8", "mobilenetv2"))
LARGE = (
    *("stories15m", "whisper-tiny-encoder", "resnet50", "resnet50v1.5", "botnet50", "yolov3-tiny", "yolov3-tiny-boxes"),
)
"""These take minutes."""

WARMED_BY = "resnet8"

HEADS = ("network", "machine", "cold", "warm", "other weights", "record", "cycles", "of its own search", "the same")


@dataclass(frozen=True, slots=True)
class Found:
    """What one network takes; `is_found`: with other weights, nothing had to be searched for."""

    cold: float
    warm: float
    retrained: float
    is_found: bool
    cycles: int
    cycles_of_own: int
    is_same: bool

    @property
    def columns(self) -> tuple[str, ...]:
        seconds = (f"{each:.2f} s" for each in (self.cold, self.warm, self.retrained))
        record = "found" if self.is_found else "not found"
        return *seconds, record, f"{self.cycles:,}", f"{self.cycles_of_own:,}", "yes" if self.is_same else "no"


def network(name: str, seed: int, folder: Path) -> Path:
    """The int8 network with the weights of a seed."""
    path = folder / f"{name}.{seed}.onnx"
    if not path.exists():
        model = NETWORKS[name](Builder(name, seed))
        int8 = quantise_ends(model, OF_MANY_NODES[name](model)) if name in OF_MANY_NODES else quantise(model)
        path.write_bytes(int8.SerializeToString(deterministic=True))
    return path


def found_again(name: str, isa: str, folder: Path) -> Found:
    """Compile a network and the same with other weights."""
    first, second = (network(name, seed, folder) for seed in range(2))
    with empty_cache():
        _, cold = _compiled(first, isa)
        _, warm = _compiled(first, isa)
        try:
            again, retrained = _compiled(second, isa, fail_on_miss=True)
            is_found = True
        except CompileError:
            again, retrained = _compiled(second, isa)
            is_found = False
    with empty_cache():
        own, _ = _compiled(second, isa)
    of_again, of_own = (sum(map(exact_cycles, each.programs)) for each in (again, own))
    return Found(cold, warm, retrained, is_found, of_again, of_own, _bytes(again, folder) == _bytes(own, folder))


@contextmanager
def empty_cache() -> Iterator[None]:
    """Compilations find nothing that was kept before."""
    before = os.environ.get("TILEWRIGHT_CACHE")
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["TILEWRIGHT_CACHE"] = f"{temporary}/cache"
        try:
            yield
        finally:
            os.environ.pop("TILEWRIGHT_CACHE")
            if before is not None:
                os.environ["TILEWRIGHT_CACHE"] = before


def _compiled(model: Path, isa: str, fail_on_miss: bool = False) -> tuple[Program, float]:
    start = process_time()
    program = compile(model, isa, fail_on_miss=fail_on_miss)
    return program, process_time() - start


def _bytes(program: Program, folder: Path) -> bytes:
    path = folder / "compared.npu"
    save_any(program.network, path)
    return path.read_bytes()


def main() -> None:
    """Print a row for each network and machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.tunings", description="Records and weights.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: those of docs/tuning.md")
    parser.add_argument("--all", metavar="MACHINE", help="all networks but those that take minutes")
    parser.add_argument("--models", type=Path, help="a folder that keeps the ONNX files from run to run")
    arguments = parser.parse_args()
    if len(arguments.entry) not in (0, 2):
        parser.error("expected a network and a machine")
    entries = [(arguments.entry[0], arguments.entry[1])] if arguments.entry else list(ENTRIES)
    if arguments.all:
        entries = [(name, arguments.all) for name in NETWORKS if name not in LARGE]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.models or Path(temporary)
        folder.mkdir(exist_ok=True)
        _compiled(network(WARMED_BY, 2, folder), "base16")
        print(f"| {' | '.join(HEADS)} |\n| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | --- |")
        for name, isa in entries:
            print(f"| {name} | `{isa}` | {' | '.join(found_again(name, isa, folder).columns)} |", flush=True)


if __name__ == "__main__":
    main()
