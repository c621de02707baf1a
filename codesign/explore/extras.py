"""Packages that only some users need: asked for when they are used."""

from __future__ import annotations

from importlib.util import find_spec

from tilewright.codesign.errors import StudyError


def require(package: str, extra: str, user: str) -> None:
    """Raises StudyError, with the command that installs it, when a package is missing; `user` is what needs it."""
    if find_spec(package) is None:
        raise StudyError(
            f"{user} needs {package}, not installed here; install the extra: pip install 'tilewright[{extra}]'"
        )
