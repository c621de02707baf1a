"""The engines of the shipped machines by name: tests may name them, the product may not."""

from __future__ import annotations

from tilewright.isa.files.loader import load_machine

ENGINES = tuple(load_machine("base16").engines)
