"""What a second engine is worth: the networks of docs/engines.md on its machine, and on that machine's base.

python -m tests.schedules.engines               # the rows of the page's table
python -m tests.schedules.engines bert-tiny     # one of them
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/engines.md"

NETWORKS = ("bert-tiny", "stories260k", "kwt-1")

ROW = "| {network} | {before:,} | {after:,} | {gain:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.engines", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    with tempfile.TemporaryDirectory() as folder:
        (machine,) = machines(Path(folder))
        for network in parser.parse_args().networks:
            before, after = cycles(network, "sequence16"), cycles(network, str(machine))
            print(ROW.format(network=network, before=before, after=after, gain=1 - after / before), flush=True)


def machines(folder: Path) -> Iterator[Path]:
    """The machine files that the page shows, written into a folder."""
    for block in re.findall(r"```yaml\n(# (\S+\.yaml)\n.*?)```", PAGE.read_text(), re.DOTALL):
        path = folder / block[1]
        path.write_text(block[0])
        yield path


def cycles(network: str, machine: str) -> int:
    import tilewright
    from tests.schedules.never_slower import model

    return int(tilewright.compile(model(network), machine).profile()["cycles"])


if __name__ == "__main__":
    main()
