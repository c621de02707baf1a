"""Try generated inputs of each kind and print how they end: `make fuzz`.

python -m tests.fuzz                            # every target, without end
python -m tests.fuzz "ONNX nodes" --tries 10000
"""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.harness import Outcome, explore
from tests.fuzz.targets import onnx_nodes

TARGETS = {target.name: target for target in (onnx_nodes.TARGET,)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of: {', '.join(TARGETS)}; default: all")
    parser.add_argument("--tries", type=int, default=1000, help="inputs of each target")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found = False
    print(f"{'input':24} {'tries':>8}" + "".join(f" {outcome.value:>28}" for outcome in Outcome))
    for name in arguments.targets or TARGETS:
        report = explore(TARGETS[name], arguments.tries, arguments.seed)
        counts = "".join(f" {report.outcomes[outcome]:28,}" for outcome in Outcome)
        print(f"{name:24} {report.tries:8,}{counts}", flush=True)
        if report.finding:
            found = True
            print(report.finding)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
