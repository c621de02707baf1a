"""Where the command begins: Ctrl-C ends it from the first moment on, while the command line is still imported."""

from __future__ import annotations

from tilewright.terminal.interruption import end_at_once_on_interrupt


def main() -> None:
    """The command line, which ends the process."""
    end_at_once_on_interrupt()
    from tilewright import cli

    cli.main()
