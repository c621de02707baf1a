"""Loops and accesses in the text of level 2: `i 16 reduce`, and `n, i, 2*y + r - 1 outside -128`."""

from __future__ import annotations

import re

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Access, Affine, NestLoop
from tilewright.compiler.text.mlir import Attribute


def parse_loop(text: str, nest: str) -> NestLoop:
    match = re.fullmatch(r"([A-Za-z_]\w*) (\d{1,18})( reduce)?", text, re.ASCII)
    if match is None:
        raise CompileError(f"nest {nest!r}", f"{text!r} is not a loop", expected="`name trip` or `name trip reduce`")
    return NestLoop(match[1], int(match[2]), match[3] is not None)


def print_access(access: Access) -> str:
    outside = "" if access.outside is None else f" outside {access.outside}"
    return ", ".join(map(_print_affine, access.index)) + outside


def _print_affine(affine: Affine) -> str:
    """`2*y + r - 1`; a constant alone is printed as it is."""
    terms = [
        (coefficient, loop if abs(coefficient) == 1 else f"{abs(coefficient)}*{loop}")
        for loop, coefficient in affine.terms
    ]
    if affine.constant or not terms:
        terms.append((affine.constant, str(abs(affine.constant))))
    text = "".join(f" {'-' if sign < 0 else '+'} {term}" for sign, term in terms)
    return text.removeprefix(" + ") if not text.startswith(" - ") else "-" + text.removeprefix(" - ")


def parse_access(tensor: str, text: Attribute, loops: tuple[NestLoop, ...], nest: str) -> Access:
    match = re.fullmatch(r"([^\n]*?)(?: outside (-?\d{1,18}))?", text, re.ASCII) if isinstance(text, str) else None
    if match is None:
        raise CompileError(f"nest {nest!r}", f"the access is {text!r}", expected="indices, perhaps with `outside`")
    index = tuple(_parse_affine(index, loops, nest) for index in match[1].split(","))
    return Access(tensor, index, None if match[2] is None else int(match[2]))


def _parse_affine(text: str, loops: tuple[NestLoop, ...], nest: str) -> Affine:
    text = text.strip()
    if not re.fullmatch(r"-?\s*(\d{1,18}\*)?\w{1,40}(\s*[-+]\s*(\d{1,18}\*)?\w{1,40})*", text, re.ASCII):
        raise CompileError(f"nest {nest!r}", f"{text!r} is not an index", expected="a sum such as 2*y + r - 1")
    terms, constant = [], 0
    signed = re.findall(r"([-+]?)\s*(?:(\d+)\*)?(\w+)", text)
    names = {loop.name for loop in loops}
    for sign, coefficient, atom in signed:
        factor = int(coefficient or 1) * (-1 if sign == "-" else 1)
        if atom.isdigit():
            constant += factor * int(atom)
        elif atom in names:
            terms.append((atom, factor))
        else:
            raise CompileError(f"nest {nest!r}", f"the index {text!r} names {atom!r}, which is no loop")
    return Affine(tuple(terms), constant)
