"""What networks cost: each is compiled and simulated in processes of its own, and every figure is one line's column.

python -m programs.networks.measure resnet8 resnet18
python -m programs.networks.measure --isa wide32 --set memories.act.kib=512

Without names, all networks. `compile` and `simulate` are processor seconds of the calls alone, without imports: what
else runs on the machine does not lengthen them. `peak` is the process's resident memory, with imports. The process that
starts them imports nothing heavy: what it held would count in its children's peaks.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

HEADER = (
    f"{'network':18} {'model':>8} {'compile':>8} {'peak':>8} {'binary':>8} {'cycles':>12} {'MACs':>14} "
    f"{'used':>6} {'host':>4} {'simulate':>9} {'peak':>8}"
)
UNITS = f"{'':18} {'MiB':>8} {'s':>8} {'MiB':>8} {'MiB':>8} {'':>12} {'':>14} {'%':>6} {'':>4} {'s':>9} {'MiB':>8}"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class CompileFigures:
    """What compiling took, and what came out; sizes in bytes."""

    seconds: float
    peak: int
    binary: int
    host_nodes: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """What one image took, values and cycles, and what the profile says of it; sizes in bytes."""

    seconds: float
    peak: int
    cycles: int
    macs: int
    utilisation: float


def main() -> None:
    """Measure the networks named, one line each, or the error of one that does not compile."""
    parser = argparse.ArgumentParser(prog="python -m programs.networks.measure", description="What networks cost.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks or ONNX files; default: all networks")
    parser.add_argument("--isa", default="base16", help="the machine; default: base16")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a change of the machine")
    parser.add_argument("--step", choices=["names", *STEPS], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(STEPS[arguments.step](arguments.names[0], arguments.folder, arguments.isa, arguments.set)))
        return
    names = arguments.names or _in_own_process("names", "", Path(), "", ())
    assert isinstance(names, list)
    print(f"{HEADER}\n{UNITS}", flush=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            print(_line(name, Path(folder), arguments.isa, arguments.set), flush=True)


def _line(name: str, folder: Path, isa: str, overrides: Sequence[str]) -> str:
    try:
        size = _in_own_process("make", name, folder, isa, overrides)
        compiled = CompileFigures(**_in_own_process("compile", name, folder, isa, overrides))
    except subprocess.CalledProcessError as error:
        return f"{name:18} {error.stderr.strip().splitlines()[-1]}"
    try:
        simulated = Simulated(**_in_own_process("simulate", name, folder, isa, overrides))
    except subprocess.CalledProcessError as error:
        return f"{name:18} compiled in {compiled.seconds:.1f} s, but: {error.stderr.strip().splitlines()[-1]}"
    return (
        f"{name:18} {size / MIB:8.1f} {compiled.seconds:8.2f} {compiled.peak / MIB:8.0f} {compiled.binary / MIB:8.1f} "
        f"{simulated.cycles:12,} {simulated.macs:14,} {100 * simulated.utilisation:6.1f} {compiled.host_nodes:4} "
        f"{simulated.seconds:9.2f} {simulated.peak / MIB:8.0f}"
    )


# -- the steps, each in a process of its own ---------------------------------------------------------------------------


def _in_own_process(step: str, name: str, folder: Path, isa: str, overrides: Sequence[str]) -> Any:
    """The JSON value that a step prints; raises CalledProcessError with the step's standard error."""
    command = [sys.executable, "-m", "programs.networks.measure", name, "--step", step, "--folder", str(folder)]
    command += ["--isa", isa, *(f"--set={override}" for override in overrides)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _names(name: str, folder: Path, isa: str, overrides: Sequence[str]) -> list[str]:
    from programs.networks.registry import NETWORKS

    return list(NETWORKS)


def _make(name: str, folder: Path, isa: str, overrides: Sequence[str]) -> int:
    """Write the network, or copy the file; its size in bytes."""
    if Path(name).suffix == ".onnx":
        return _model(folder).write_bytes(Path(name).read_bytes())
    from programs.networks.registry import NETWORKS, int8_network

    if name not in NETWORKS:
        sys.exit(f"no network {name!r}; there are: {', '.join(NETWORKS)}")
    return _model(folder).write_bytes(int8_network(name).SerializeToString(deterministic=True))


def _compile(name: str, folder: Path, isa: str, overrides: Sequence[str]) -> dict[str, float]:
    import tilewright

    start = process_time()
    program = tilewright.compile(_model(folder), isa, overrides)
    seconds = process_time() - start
    program.save(_binary(folder))
    size = _binary(folder).stat().st_size
    return asdict(CompileFigures(seconds, _peak(), size, len(program.host_nodes)))


def _simulate(name: str, folder: Path, isa: str, overrides: Sequence[str]) -> dict[str, float]:
    import tilewright

    program = tilewright.Program.load(_binary(folder))
    inputs = program.zero_inputs()
    start = process_time()
    profile = program.run(inputs).profile
    seconds = process_time() - start
    assert profile is not None
    return asdict(Simulated(seconds, _peak(), profile.typed.cycles, profile.typed.macs, profile.typed.utilisation))


def _model(folder: Path) -> Path:
    return folder / "model.onnx"


def _binary(folder: Path) -> Path:
    return folder / "model.npu"


def _peak() -> int:
    """The largest resident size of this process so far, in bytes."""
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib if sys.platform == "darwin" else kib * 1024


STEPS = {"names": _names, "make": _make, "compile": _compile, "simulate": _simulate}

if __name__ == "__main__":
    main()
