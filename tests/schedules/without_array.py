"""What an array is worth: networks of docs/engines.md on a machine without one, and on the machine that it extends.

python -m tests.schedules.without_array               # the rows of the page's table
python -m tests.schedules.without_array autoencoder   # one of them
"""

from __future__ import annotations

import argparse

from tests.schedules.engines import cycles

NETWORKS = ("resnet8", "ds-cnn", "autoencoder", "kwt-1", "mobilenetv2")

WITH, WITHOUT = "tiny8", "vector-only"

ROW = "| {network} | {before:,} | {after:,} | {times:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.without_array", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    for network in parser.parse_args().networks:
        before, after = cycles(network, WITH), cycles(network, WITHOUT)
        print(ROW.format(network=network, before=before, after=after, times=after / before), flush=True)


if __name__ == "__main__":
    main()
