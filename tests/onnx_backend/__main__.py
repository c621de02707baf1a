"""Run the onnx package's backend tests and write docs/onnx-backend.md: `python -m tests.onnx_backend`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import onnx

from tests.onnx_backend.page import MACHINES, NAMES, PAGE, page, quantised, quantised_count
from tests.onnx_backend.results import Place, run_backend_tests


def main(arguments: list[str]) -> int:
    """Write the page, and print how many tests ran where, and each of those of integer-quantised operators."""
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_backend", description=__doc__)
    parser.parse_args(arguments)
    outcomes = run_backend_tests()
    by_machine = {machine: run_backend_tests(NAMES, machine) for machine in MACHINES}
    PAGE.write_text(page(outcomes, onnx.__version__, by_machine))
    counts = Counter(of.place for of in outcomes)
    print(", ".join(f"{place.value}: {counts[place]}" for place in Place))
    for name, place, reason in quantised(outcomes):
        print(f"{place:5} {name}{f': {reason}' if reason else ''}")
    print(quantised_count(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
