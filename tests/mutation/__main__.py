"""Put a hundred seeded faults into our code, one at a time, and see which test notices: `python -m tests.mutation`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutation.faults import Fault
from tests.mutation.page import PAGE, Outcome, page, summary
from tests.mutation.rooms import chosen_faults, far_tests, near_tests
from tests.mutation.survivors import reason
from tests.mutation.trees import Known, Tree, new_tree

ENOUGH = 0.9
"""The share of faults that the tests must notice."""


def main(arguments: list[str]) -> int:
    """Print a line for each fault, and how many were noticed.

    Returns 1 if too few are, if a survivor has no reason, or if a test fails without a fault.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="how many faults, over all rooms")
    parser.add_argument("--only", default="", help="only the chosen faults in files whose path contains this")
    parser.add_argument("--at-once", type=int, default=2, help="how many faults are tried at the same time")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.parent.name}/{PAGE.name}")
    options = parser.parse_args(arguments)
    every = chosen_faults(options.seed, options.count)
    chosen = [fault for fault in every if options.only in fault.path]
    if options.list:
        print(*chosen, sep="\n")
        return 0
    known = Known()
    outcomes = tried(chosen, options.at_once, known)
    for test in sorted(known.left_out):
        print(f"left out, because it {'fails' if test in known.failing else 'can fail'} without a fault, too: {test}")
    for outcome in outcomes:
        if not outcome.noticed_by:
            print(f"| {outcome.fault} | {outcome.end} |")
    print(summary(outcomes))
    if options.page:
        PAGE.write_text(page(outcomes, [fault for fault in every if fault not in chosen], options.seed))
    noticed = sum(bool(outcome.noticed_by) for outcome in outcomes)
    is_good = noticed >= ENOUGH * len(outcomes) and not any(outcome.is_gap for outcome in outcomes)
    return 0 if is_good and not known.failing else 1


def tried(faults: Sequence[Fault], at_once: int, known: Known) -> Sequence[Outcome]:
    """What became of each fault, in their order; as many are tried at once as there are copies of the tree.

    Each is printed as soon as it is known. The far tests are asked at the end, about what the near ones do not notice.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(at_once):
            trees.put(new_tree(Path(folder, str(number)), known))

        def ask(fault: Fault, tests: tuple[str, ...]) -> str:
            tree = trees.get()
            try:
                noticed = tree.test_that_notices(fault, tests)
            finally:
                trees.put(tree)
            print(f"| {fault} | {noticed or 'survives so far'} |", flush=True)
            return noticed

        near = list(pool.map(lambda fault: ask(fault, near_tests(fault.path)), faults))
        waiting = [fault for fault, noticed in zip(faults, near, strict=True) if not noticed and not reason(fault)]
        far = dict(zip(waiting, pool.map(lambda fault: ask(fault, far_tests(fault.path)), waiting), strict=True))
        return [Outcome(fault, noticed or far.get(fault, "")) for fault, noticed in zip(faults, near, strict=True)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
