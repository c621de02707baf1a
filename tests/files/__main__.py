"""Write docs/files.md: `python -m tests.files`."""

from __future__ import annotations

import argparse
import sys

from tests.files.page import PAGE, lines, page


def main(arguments: list[str]) -> int:
    """Write the page, and print how many files it tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.files", description=__doc__)
    parser.parse_args(arguments)
    rows = lines()
    PAGE.write_text(page(rows))
    print(f"{len(rows)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
