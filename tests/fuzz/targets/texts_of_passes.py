"""Texts of passes, as --dump-dir writes them, with numbers, words and lines changed; `resume` goes on from them.

What is accepted is a program like any other: its file loads, and simulator and interpreter agree about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.compiler.models import conv_model, gemm_model, small_cnn
from tests.fuzz.compiling import prepare_compiler, shipped
from tests.fuzz.executors import judge, require_identities
from tests.fuzz.harness import Outcome, Target
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, pass_names, resume
from tilewright.isa.errors import IsaError

MACHINE = "tiny8"

TOKEN = re.compile(r"0x[0-9A-Fa-f]+|-?\d+(?:\.\d+)?|[A-Za-z_][\w.]*|\S")

MOST_SHOWN = 400
"""Characters of a token that may be changed: a constant's digits stay."""

NETWORKS = {
    "conv": lambda: conv_model(np.random.default_rng(0)),
    "gemm": lambda: gemm_model(np.random.default_rng(0), 3, 20, 17),
    "cnn": lambda: small_cnn(np.random.default_rng(0)),
}

PASSES = tuple(name for name in pass_names() if name != "emit")

MARKS = ("", '"', "[", "}", "x = 1")

NUMBERS = strategies.one_of(
    strategies.sampled_from([0, 1, 2, 3, 7, 8, 9, 16, 255, 1 << 16, 1 << 24]),
    strategies.builds(
        lambda bits, more: (1 << bits) + more, strategies.integers(8, 70), strategies.sampled_from([-1, 0, 1])
    ),
    strategies.sampled_from([-1, -2, -(1 << 31), -(1 << 63), 10**30]),
).map(str)


@dataclass(frozen=True)
class ChangedText:
    """The text of a pass's result with (place, new token) changes; a place counts the tokens that may be changed."""

    network: str
    after: str
    changes: tuple[tuple[int, str], ...]
    nested: int = 0  # brackets around the first value

    @property
    def text(self) -> str:
        text = _texts(self.network)[self.after]
        spans = _spans(self.network, self.after)
        for place, new in sorted(self.changes, reverse=True):
            start, end = spans[place % len(spans)]
            text = text[:start] + new + text[end:]
        if self.nested:
            text = text.replace("= [", "= " + "[" * self.nested, 1)
        return text


@cache
def _texts(network: str) -> dict[str, str]:
    found: dict[str, str] = {}
    compile_model(NETWORKS[network](), shipped(MACHINE), Options(effort=0), found.__setitem__)
    return found


@cache
def _spans(network: str, after: str) -> list[tuple[int, int]]:
    found = [match.span() for match in TOKEN.finditer(_texts(network)[after])]
    return [(start, end) for start, end in found if end - start <= MOST_SHOWN]


@cache
def _words(network: str, after: str) -> list[str]:
    text = _texts(network)[after]
    return sorted({text[start:end] for start, end in _spans(network, after)})


@strategies.composite
def changed_texts(draw: DrawFn) -> ChangedText:
    network, after = draw(strategies.sampled_from(sorted(NETWORKS))), draw(strategies.sampled_from(PASSES))
    text, spans = _texts(network)[after], _spans(network, after)
    numbers = [at for at, (start, _) in enumerate(spans) if text[start].isdigit()]
    change = strategies.one_of(
        strategies.tuples(strategies.sampled_from(numbers), NUMBERS),
        strategies.tuples(strategies.sampled_from(numbers), NUMBERS),
        strategies.tuples(strategies.integers(0, len(spans) - 1), strategies.sampled_from(_words(network, after))),
        strategies.tuples(strategies.integers(0, len(spans) - 1), strategies.sampled_from(MARKS)),
    )
    changes = draw(strategies.lists(change, min_size=0, max_size=3).map(tuple))
    nested = draw(strategies.sampled_from([0] * 19 + [3_000]))
    return ChangedText(network, after, changes, nested)


def attempt(changed: ChangedText) -> Outcome:
    try:
        program = resume(changed.after, changed.text, shipped(MACHINE), Options(effort=0))
    except (CompileError, IsaError):
        return Outcome.REFUSED
    require_identities(program, "texts of passes")
    return judge(program, np.random.default_rng(0), "texts of passes")


def prepare() -> None:
    """Compile the networks, and the kernels."""
    prepare_compiler()
    for network in NETWORKS:
        _texts(network)


TARGET = Target("texts of passes", changed_texts(), attempt, prepare=prepare)
