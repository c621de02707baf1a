"""Kinds of canonical operators that several passes treat alike."""

from __future__ import annotations

QUANTIZING = ("quantize", "dequantize")
"""In a simplified graph these are at its ends, where the host does them."""

REORDERING = ("reshape", "transpose")
"""They show the same elements in another shape or order."""

NAMING = (*QUANTIZING, *REORDERING)
"""The machine does not execute these: they give a tensor another name."""
