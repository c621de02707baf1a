"""Run the onnx package's backend tests and write docs/onnx-backend.md: `python -m tests.onnx_backend`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import onnx

from tests.onnx_backend.page import PAGE, page
from tests.onnx_backend.results import Place, run_backend_tests


def main(arguments: list[str]) -> int:
    """Write the page, and print how many tests ran where."""
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_backend", description=__doc__)
    parser.parse_args(arguments)
    outcomes = run_backend_tests()
    PAGE.write_text(page(outcomes, onnx.__version__))
    counts = Counter(of.place for of in outcomes)
    print(", ".join(f"{place.value}: {counts[place]}" for place in Place))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
