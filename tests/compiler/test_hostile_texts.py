"""Texts of the levels below nests with random damage: an error that names the fault, or a program that is checked."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from tests.compiler.models import conv_model
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import UNSOUND, compile_model, resume
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

TOKEN = re.compile(r'-?\d+|[A-Za-z_.]+|"[^"]{0,40}"|[{}()\[\],=:]')
NUMBERS = (-1, 0, 1, 7, 10**6, 10**12, -(10**12))


@pytest.mark.parametrize("after", ["tile", "schedule", "allocate", "waits", "emit"])
def test_a_damaged_text_is_refused_by_name(after: str) -> None:
    machine = load_machine("tiny8")
    dumped: dict[str, str] = {}
    compile_model(conv_model(np.random.default_rng(0), 3, 4, 4, 3), machine, dump=dumped.__setitem__)
    refused = 0
    for seed in range(40):
        try:
            resume(after, damaged(dumped[after], random.Random(seed)), machine)
        except (CompileError, IsaError) as error:
            refused += 1
            assert not isinstance(error.__cause__, UNSOUND), f"seed {seed}: {error}"
    assert refused > 20


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
