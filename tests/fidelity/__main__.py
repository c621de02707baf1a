"""Write docs/fidelity.md: `python -m tests.fidelity`, or `make fidelity`. At first, hardware is built for minutes."""

from __future__ import annotations

import argparse
import sys

from tests.fidelity.measure import measure
from tests.fidelity.page import PAGE, facts, page

NETWORKS = (
    ("digits", "tiny8"),
    ("resnet8", "base16"),
    ("autoencoder", "base16"),
    ("mobilenetv1-0.25", "base16"),
    ("ds-cnn", "sequence16"),
    ("decoder step", "sequence16"),
)


def main(arguments: list[str]) -> int:
    """Write the page; with names of networks, print what differs of these and write nothing. 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=", ".join(name for name, _ in NETWORKS))
    chosen = parser.parse_args(arguments).names
    if unknown := set(chosen) - {name for name, _ in NETWORKS}:
        parser.error(f"no network here is called {', '.join(sorted(unknown))}")
    found = []
    for name, machine in NETWORKS:
        if chosen and name not in chosen:
            continue
        network = measure(name, machine)
        for run in network.runs:
            _, layers, _, instructions, _, counters, differing = facts(run)
            print(
                f"{name} on {machine}, latency {run.latency}: {run.cycles.hardware:,} cycles; "
                f"different are {layers} layers, {instructions} instructions, {counters} counters, {differing} bytes",
                flush=True,
            )
        print(f"{name} on {machine}, random back-pressure: {network.pressed}", flush=True)
        found.append(network)
    if not chosen:
        PAGE.write_text(page(found))
    wrong = sum(facts(run)[n] for network in found for run in network.runs for n in (1, 3, 5, 6))
    return int(any([wrong, *(each.pressed.values_that_differ + each.pressed.broken_rules for each in found)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
