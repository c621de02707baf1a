"""Where the command begins: what has to hold before the command line is imported, such as that Ctrl-C ends it."""

from __future__ import annotations

from tilewright.isa.rare_collection import collect_rarely
from tilewright.terminal.interruption import end_at_once_on_interrupt


def main() -> None:
    """The command line, which ends the process."""
    end_at_once_on_interrupt()
    collect_rarely()
    from tilewright import cli

    cli.main()
