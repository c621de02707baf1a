"""How a command ends: its exit code, and the one or two lines on standard error when it does not end well."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from tilewright.standard_streams import lenient_streams

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""


def run_to_end(app: Callable[[], object]) -> None:
    """Run the command line's words; an error of the user's is printed. Raises SystemExit with the exit code."""
    try:
        with lenient_streams():
            _run(app)
    except OSError as error:  # a standard stream could not be written
        sys.exit(f"error: {error.filename}: {error.strerror}")


def _run(app: Callable[[], object]) -> None:
    from tilewright.errors import USER_ERRORS, describe

    try:
        app()
    except USER_ERRORS as error:
        typer.echo(f"error: {describe(error)}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:
            raise
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
