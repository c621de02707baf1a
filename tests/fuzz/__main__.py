"""Try generated inputs of each kind and print how they end: `make fuzz`.

python -m tests.fuzz                            # every target, round after round, until Ctrl-C
python -m tests.fuzz "ONNX nodes" --tries 10000
"""

from __future__ import annotations

import argparse
import sys
from itertools import count

from tests.fuzz.harness import Outcome, Report
from tests.fuzz.process import explore_apart
from tests.fuzz.targets.all import TARGETS

A_ROUND = 500
"""Inputs of each target in a round, where there is no end."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of: {', '.join(TARGETS)}; default: all")
    parser.add_argument("--tries", type=int, help="inputs of each target; default: no end")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}; there are: {', '.join(TARGETS)}")
    names = arguments.targets or list(TARGETS)
    if arguments.tries is not None:
        return int(_round(names, arguments.tries, arguments.seed))
    found = False
    try:
        for round_ in count():
            found |= _round(names, A_ROUND, arguments.seed + round_)
    except KeyboardInterrupt:
        print()
    return int(found)


def _round(names: list[str], tries: int, seed: int) -> bool:
    """Print the table of one round, and findings to standard error as they come; True if there are any."""
    columns = ["tries", *(outcome.value for outcome in Outcome), "findings", "longest", "memory"]
    print(f"seed {seed}\n\n| input | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}", flush=True)
    found = False
    for name in names:
        report = explore_apart(name, TARGETS[name].scaled(tries), seed)
        print(_row(report), flush=True)
        for finding in report.findings.values():
            found = True
            print(f"{name}: {finding}", file=sys.stderr, flush=True)
    print(flush=True)
    return found


def _row(report: Report) -> str:
    cells = [report.target, f"{report.tries:,}", *(f"{report.outcomes[outcome]:,}" for outcome in Outcome)]
    cells += [f"{len(report.findings)}", f"{report.seconds:.1f} s", f"{report.memory_bytes / 2**20:.0f} MiB"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
