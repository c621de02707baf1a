"""Kinds of canonical operators that several passes treat alike."""

from __future__ import annotations

QUANTIZING = ("quantize", "dequantize")
"""In a simplified graph, these are only at inputs and outputs, where the host does them."""

REORDERING = ("reshape", "transpose")
"""Operators that show the same elements in another shape or order."""

NAMING = (*QUANTIZING, *REORDERING)
"""Operators that only give a tensor another name; the machine does not execute them."""
