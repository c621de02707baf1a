"""Faults that no test notices because they change nothing that can be observed, and why."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[tuple[str, str, str], str] = {}
"""File, statement before and after, and the reason."""
