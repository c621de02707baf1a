"""Put a hundred seeded faults into our code, one at a time, and see which test notices: `python -m tests.mutation`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutation.faults import Fault
from tests.mutation.page import PAGE, Outcome, page, summary
from tests.mutation.rooms import chosen_faults
from tests.mutation.trees import Tree, copied_tree

ENOUGH = 0.9
"""The share of faults that the tests must notice."""


def main(arguments: list[str]) -> int:
    """Print a line for each fault, and how many were noticed; 1 if too few are, or a survivor has no explanation."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="how many faults, over all rooms")
    parser.add_argument("--only", default="", help="only the chosen faults in files whose path contains this")
    parser.add_argument("--at-once", type=int, default=2, help="how many faults are tried at the same time")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.parent.name}/{PAGE.name}")
    options = parser.parse_args(arguments)
    chosen = [fault for fault in chosen_faults(options.seed, options.count) if options.only in fault.path]
    if options.list:
        print(*chosen, sep="\n")
        return 0
    outcomes = []
    for outcome in tried(chosen, options.at_once):
        outcomes.append(outcome)
        print(f"| {outcome.fault} | {outcome.end} |", flush=True)
    print(summary(outcomes))
    if options.page:
        PAGE.write_text(page(outcomes, options.seed))
    noticed = sum(bool(outcome.noticed_by) for outcome in outcomes)
    return int(noticed < ENOUGH * len(outcomes) or any(outcome.is_gap for outcome in outcomes))


def tried(faults: Sequence[Fault], at_once: int) -> Iterator[Outcome]:
    """What became of each fault, in their order; as many are tried at once as there are copies of the tree."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(at_once):
            trees.put(copied_tree(Path(folder, str(number))))

        def try_one(fault: Fault) -> Outcome:
            tree = trees.get()
            try:
                return Outcome(fault, tree.test_that_notices(fault))
            finally:
                trees.put(tree)

        yield from pool.map(try_one, faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
