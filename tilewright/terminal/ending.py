"""How a command ends: its exit code, and the one or two lines on standard error when it does not end well."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

import typer

from tilewright.terminal.interruption import INTERRUPTED, ends_soon, is_to_be_said, was_interrupted
from tilewright.terminal.standard_streams import lenient_streams


def run_to_end(app: Callable[[], object]) -> None:
    """Run the command line's words; an error of the user's is printed. Raises SystemExit with the exit code."""
    try:
        with ends_soon(), lenient_streams():
            _run(app)
    except OSError as error:  # a standard stream could not be written
        sys.exit(f"error: {error.filename}: {error.strerror}")


def _run(app: Callable[[], object]) -> None:
    try:
        from tilewright.errors import USER_ERRORS, describe
    except BaseException:  # an interrupt in the middle of an import
        if was_interrupted():
            _interrupted()
        raise
    try:
        app()
    except USER_ERRORS as error:
        if was_interrupted():
            _interrupted()
        typer.echo(f"error: {describe(error)}", err=True)
        sys.exit(1)
    except ModuleNotFoundError as error:
        from tilewright.extras import missing_package

        said = missing_package(error)
        if said is None:
            raise
        typer.echo(f"error: {said}", err=True)
        sys.exit(1)
    except BaseException as ended:
        is_interrupt = isinstance(ended, KeyboardInterrupt) or getattr(ended, "code", None) == INTERRUPTED
        if not is_interrupt and not was_interrupted():
            raise
        _interrupted()


def _interrupted() -> NoReturn:
    if is_to_be_said():
        typer.echo("interrupted", err=True)
    sys.exit(INTERRUPTED)
