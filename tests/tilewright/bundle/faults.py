"""Breaks runs of a bundle on a board with an unruly bus, and prints how many breaks of each kind were reported.

python -m tests.tilewright.bundle.faults                       # 2,040 breaks of the digits network on a small tiny8
python -m tests.tilewright.bundle.faults --count 102 --seed 7 --isa base16

Each break is followed by a run whose outputs are compared. The first break that is not reported in bounded time, or
is followed by a write or by a wrong run, ends the command with its number and kind; the same seed gives it again.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import tilewright
from tilewright.bundle.bundle import bundle_files
from tilewright.bundle.simulated import BOARD, WARNINGS
from tilewright.isa.machine.engine import Direction
from tilewright.isa.machine.memory import REGIONS
from tilewright.program import Program
from tilewright.rtl.simulation.board import UNRULY, run_on_board

DIGITS = "programs/digits/digits_int8.onnx"

MOST_SECONDS = 7200

SMALL = ("memories.act.kib=2",)
"""Of tiny8: so small that the network also writes and reads a workspace."""

SOURCE = Path(__file__).with_name("faults.c")


@dataclass(frozen=True, slots=True)
class Broken:
    """The breaks of a kind: how many were made, how many were reported, and the longest time until then."""

    kind: str
    made: int
    reported: int
    cycles: int


def break_runs(program: Program, seed: int, count: int) -> tuple[str, list[Broken]]:
    """What a run costs the host, and so many breaks, of each kind in turn.

    Raises AssertionError with what the program printed if one goes wrong.
    """
    files = fault_files(program)
    arguments = (str(seed), str(count))
    code, output = run_on_board(program.machine, files, WARNINGS, arguments, UNRULY, MOST_SECONDS)
    assert code == 0, f"seed {seed}: {output}"
    host, *lines = output.splitlines()
    rows = [line.rsplit(",", 3) for line in lines]
    return host, [Broken(kind, int(made), int(reported), int(cycles)) for kind, made, reported, cycles in rows]


def fault_files(program: Program) -> dict[str, bytes]:
    """The C that breaks runs of a program: its bundle, and a main of ours."""
    files = {**bundle_files(program, "net"), "platform.c": BOARD.read_bytes()}
    return files | {"main.c": SOURCE.read_bytes(), "places.h": _places(program).encode()}


def _places(program: Program) -> str:
    """C with where each instruction begins, an opcode that there is not, and the regions that DMA uses."""
    machine, offset, places = program.machine, 0, []
    for instruction in program.binary.instructions:
        places.append(f"{offset}U")
        offset += instruction.format.bytes
    unknown = max(format.opcode for format in machine.formats.values()) + 1
    used = [
        f"TILEWRIGHT_REGION_{name.upper()}"
        for name in ("weights", "workspace", "inputs", "outputs")
        if program.binary.limits[name] and name in REGIONS
    ]
    writers = len(machine.dma(Direction.OUT))
    return (
        f"#define PLACES {len(places)}U\nstatic const uint32_t places[] = {{{', '.join(places)}}};\n"
        f"#define UNKNOWN_OPCODE {unknown}U\n#define ONE_BEAT {writers * machine.dram.bus_bytes}U\n"
        f"#define USED_REGIONS {len(used)}U\nstatic const uint32_t regions[] = {{{', '.join(used)}}};\n"
    )


def table(rows: list[Broken]) -> str:
    lines = ["break                          made  reported  cycles until then, at most"]
    lines += [f"{row.kind:29} {row.made:5,} {row.reported:9,}  {row.cycles:,}" for row in rows]
    made, reported = sum(row.made for row in rows), sum(row.reported for row in rows)
    return "\n".join([*lines, f"{'all':29} {made:5,} {reported:9,}"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tilewright.bundle.faults", description=__doc__)
    parser.add_argument("--isa", default="tiny8")
    parser.add_argument("--set", action="append", help="default: what makes tiny8 small")
    parser.add_argument("--count", type=int, default=2040)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    settings = chosen.set or (SMALL if chosen.isa == "tiny8" else ())
    program = tilewright.compile(DIGITS, chosen.isa, settings, effort=0)
    host, rows = break_runs(program, chosen.seed, chosen.count)
    print(host, table(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
