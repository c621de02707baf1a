"""Texts of the levels below nests with random damage: an error that names the fault, or a program that is checked."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from tests.compiler.models import conv_model
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model, resume
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

TOKEN = re.compile(r'-?\d+|[A-Za-z_.]+|"[^"]{0,40}"|[{}()\[\],=:]')
NUMBERS = (-1, 0, 1, 7, 10**6, 10**12, -(10**12))


@pytest.mark.parametrize("after", ["tile", "schedule", "allocate", "waits", "pace", "ports", "emit"])
def test_a_damaged_text_is_refused_by_name(after: str) -> None:
    machine, refused = load_machine("tiny8"), 0
    for seed in range(40):
        try:
            resume(after, damaged(dumps()[after], random.Random(seed)), machine)
        except (CompileError, IsaError):
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    ("after", "old", "new", "message"),
    [
        ("tile", '{name = "conv"', '{remarks = [1], name = "conv"', "remark: got 1; expected a dictionary"),
        ("tile", '{name = "conv"', '{remarks = ["about"], name = "conv"', "remark: got 'about'; expected a dictionary"),
        ("select", "parameters = {", "free = [{}], parameters = {", "p reads free, parameters; expected one of tensor"),
        ("select", 'shift = "shift"}', 'shift = "shift"}, free = [{}]', "p has no fields {} that could be free"),
        ("select", 'shift = "shift"}', 'shift = "shift"}, free = [1]', "p has no fields 1 that could be free"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(after: str, old: str, new: str, message: str) -> None:
    text = dumps()[after]
    first = text.index(old)
    with pytest.raises(CompileError, match=re.escape(message)):
        resume(after, text[:first] + new + text[first + len(old) :], load_machine("tiny8"))


@cache
def dumps() -> Mapping[str, str]:
    """The texts of a convolution."""
    found: dict[str, str] = {}
    compile_model(conv_model(np.random.default_rng(0), 3, 4, 4, 3), load_machine("tiny8"), dump=found.__setitem__)
    return found


def damaged(text: str, rng: random.Random) -> str:
    """The text with one token left out, doubled or in the place of another, one line left out, or one wild number."""
    tokens = list(TOKEN.finditer(text))
    at, other = rng.choice(tokens), rng.choice(tokens)
    match rng.choice(["replace", "leave out", "double", "line", "number"]):
        case "replace":
            middle = other[0]
        case "leave out":
            middle = ""
        case "double":
            middle = f"{at[0]} {at[0]}"
        case "line":
            lines = text.split("\n")
            del lines[rng.randrange(len(lines))]
            return "\n".join(lines)
        case _:
            at = rng.choice([token for token in tokens if token[0].lstrip("-").isdigit()])
            middle = str(rng.choice(NUMBERS))
    return text[: at.start()] + middle + text[at.end() :]
