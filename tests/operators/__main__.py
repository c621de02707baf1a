"""Write docs/operators.md: `python -m tests.operators`."""

from __future__ import annotations

import argparse
import sys

from tests.operators.page import PAGE, page_now, places


def main(arguments: list[str]) -> int:
    """Write the page, and print how many forms run where."""
    parser = argparse.ArgumentParser(prog="python -m tests.operators", description=__doc__)
    parser.parse_args(arguments)
    text = page_now()
    PAGE.write_text(text)
    found = list(places(text).values())
    print(f"{sum(place != 'host' for place in found)} of {len(found)} forms on the machine")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
