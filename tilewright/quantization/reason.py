"""The reason that an error of another package gives, for a message of ours."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """The first line of an error's text that says anything; its type if there is none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
