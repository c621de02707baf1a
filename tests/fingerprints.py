"""Fingerprints of everything that the compiler emits: what a change of its structure must leave as it was.

python -m tests.fingerprints > before.txt                     # every shipped network on every shipped machine
python -m tests.fingerprints resnet8 --isa base16 --texts     # and the text after each pass

A line is a network, a machine, what is hashed (`elf`, or a pass's name), and the first sixteen digits of its SHA-256. A
network in parts is one file, and a pass has a text for each part. What does not compile has the hash of its error.
Compare two revisions with `diff`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from pathlib import Path

DIGITS = Path(__file__).resolve().parent.parent / "programs" / "digits" / "digits_int8.onnx"
ERRORS = "error"


def main() -> None:
    """Print the fingerprints of the networks and machines named, or of all."""
    from programs.networks.registry import NETWORKS
    from tilewright.isa.files.loader import shipped_machines

    networks, machines = ["digits", *NETWORKS], list(shipped_machines())
    parser = argparse.ArgumentParser(prog="python -m tests.fingerprints", description="Hashes of emitted programs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; default: all")
    parser.add_argument("--isa", action="append", choices=machines, help="machines; default: all")
    parser.add_argument("--texts", action="store_true", help="the text after each pass, too")
    parser.add_argument("--effort", type=int, default=1, help="how hard the compiler searches; default: 1")
    parser.add_argument("--models", type=Path, help="a folder that keeps the ONNX files from run to run")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(networks):
        sys.exit(f"no network {min(unknown)!r}; there are: {', '.join(networks)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.models or Path(temporary)
        folder.mkdir(exist_ok=True)
        jobs = [
            (name, arguments.isa or machines, folder, arguments.texts, arguments.effort)
            for name in arguments.names or networks
        ]
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            for lines in pool.map(_fingerprints, jobs):
                print("\n".join(lines), flush=True)


def _fingerprints(job: tuple[str, Sequence[str], Path, bool, int]) -> list[str]:
    """The lines of one network on some machines."""
    name, machines, folder, texts, effort = job
    model = _model(name, folder)
    return [line for machine in machines for line in _of_machine(name, model, machine, texts, effort)]


def _of_machine(name: str, model: Path, machine: str, texts: bool, effort: int) -> Iterator[str]:
    from tilewright.compiler.errors import CompileError
    from tilewright.compiler.options import Options
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.isa.binary.partitioned_elf import save_any
    from tilewright.isa.errors import IsaError
    from tilewright.isa.files.loader import load_machine

    dumps: dict[str, list[str]] = {}

    def dump(after: str, text: str) -> None:
        dumps.setdefault(after, []).append(text)

    with tempfile.TemporaryDirectory() as temporary:
        elf = Path(temporary) / "network.npu"
        try:
            options, keep = Options(effort=effort), dump if texts else None
            save_any(compile_partitioned(model, load_machine(machine), options, keep), elf)
        except (CompileError, IsaError) as error:
            yield _line(name, machine, ERRORS, str(error).encode())
            return
        yield _line(name, machine, "elf", elf.read_bytes())
    for after, parts in dumps.items():
        yield _line(name, machine, after, "\n".join(parts).encode())


def _line(name: str, machine: str, what: str, content: bytes) -> str:
    return f"{name:20} {machine:10} {what:12} {sha256(content).hexdigest()[:16]}"


def _model(name: str, folder: Path) -> Path:
    """The ONNX file of a network; made if the folder has none yet."""
    if name == "digits":
        return DIGITS
    from programs.networks.registry import int8_network

    path = folder / f"{name}.onnx"
    if not path.exists():
        made = folder / f"{name}.{os.getpid()}"
        made.write_bytes(int8_network(name).SerializeToString(deterministic=True))
        made.rename(path)
    return path


if __name__ == "__main__":
    main()
