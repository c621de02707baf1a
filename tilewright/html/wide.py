"""What is wider than a phone: it scrolls by itself, and the page does not."""

from __future__ import annotations

from html import escape


def wide(table: str, what: str, kind: str = "") -> str:
    """A table that scrolls sideways where the window is narrower, with the keyboard too; `what` is read aloud."""
    kinds = f"wide {kind}".strip()
    return f'<div class="{kinds}" role="region" tabindex="0" aria-label="{escape(what)}">{table}</div>'
