"""Machines for the compiler's tests: the shipped ones, and ones whose sizes do not divide each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

SHAPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "base16": ("base16", ()),
    "tiny8": ("tiny8", ()),
    "rect": ("rect", ()),
    "array 4x12": ("base16", ("array.rows=4", "array.cols=12", "lanes=4")),
    "lanes 8": ("base16", ("lanes=8",)),
    "array 32x16, lanes 8": ("base16", ("array.rows=32", "array.cols=16", "lanes=8")),
    "array 8x24, lanes 8": ("base16", ("array.rows=8", "array.cols=24", "lanes=8")),
    "small memories": (
        "tiny8",
        ("memories.act.kib=8", "memories.wgt.kib=8", "memories.acc.kib=4", "memories.par.kib=1"),
    ),
}
"""By name: a shipped machine and what is changed in it."""


@cache
def machine(name: str) -> Machine:
    base, overrides = SHAPES[name]
    return load_machine(base, overrides)


def without(of: Machine, *mnemonics: str) -> Machine:
    """A machine that lacks some instructions."""
    return replace(of, formats={name: f for name, f in of.formats.items() if name not in mnemonics})


def with_instructions(folder: Path, base: str, text: Sequence[str]) -> Machine:
    """A machine that extends `base` by the instructions of an overlay file."""
    path = folder / "overlay.yaml"
    path.write_text("\n".join([f"extends: {base}", "instructions:", *text]) + "\n")
    return load_machine(str(path))


REQUANTIZE_ADD = (
    "  requantize_add:",
    "    engine: vec",
    "    loops: {i: 10, j: 10, k: 10}",
    "    from: {a: acc, p: par, b: act}",
    "    to: {y: act}",
    "    imm: {zero: int8, low: int8, high: int8, a_zero: int8, a_scale: uint16, b_zero: int8, b_scale: uint16,",
    "          shift: uint6, out_zero: int8, out_low: int8, out_high: int8}",
    "    do: >-",
    "      y = clamp(round_shift((clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high) - a_zero)",
    "      * a_scale + (b - b_zero) * b_scale, shift) + out_zero, out_low, out_high)",
)
"""What base16 does in two instructions, in one."""
