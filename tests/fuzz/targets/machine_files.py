"""Machine files: shipped ones with keys, values, expressions and statements changed, rightly or wrongly.

What is accepted must come back from its own text, have a manual, and run instructions of some formats, with
random fields on random memories, as the interpreter does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies, target
from hypothesis.strategies import DrawFn

from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tests.fuzz.programs_of_machines import some_formats
from tests.fuzz.trees import Edit, edited, edits
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import SPECS, load_machine_text
from tilewright.isa.language.statement import WORDS
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.diff import difference
from tilewright.isa.pages.manual import manual

FILES = ("base16", "rect", "tiny8", "vector16", "wide32", "vta16")

MOST_STORED_BYTES = 1 << 22
"""Machines with more memory are not run: what is asked here is what a file means, not how much it may ask for."""

TOKEN = re.compile(r"\w+|<<|>>|==|!=|<=|[^\w\s]")


@dataclass(frozen=True)
class MachineFile:
    """A shipped machine's file with changes."""

    file: str
    edits: tuple[Edit, ...]
    seed: int = 0

    @property
    def text(self) -> str:
        return str(yaml.safe_dump(edited(_tree(self.file), self.edits), sort_keys=False))


@cache
def _tree(name: str) -> Any:
    return yaml.safe_load((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def _vocabulary() -> tuple[list[str], list[str]]:
    """Words and whole texts of all the files."""
    texts = [(SPECS / f"{name}.yaml").read_text(encoding="utf-8") for name in FILES]
    words = sorted({word for text in texts for word in re.findall(r"[a-z_]\w*", text)} | set(WORDS))
    leaves: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, str):
            leaves.add(value)
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                collect(item)

    for name in FILES:
        collect(_tree(name))
    return words, sorted(leaves)


NUMBERS = strategies.sampled_from([-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 31, 32, 33, 62, 63, 64])
TYPES = strategies.builds("{}int{}".format, strategies.sampled_from(["", "u"]), strategies.integers(1, 40))


@strategies.composite
def _rewritten(draw: DrawFn) -> str:
    """A text of the files with one of its tokens replaced, left out or doubled."""
    words, leaves = _vocabulary()
    tokens = TOKEN.findall(draw(strategies.sampled_from(leaves)))
    if not tokens:
        return ""
    at = draw(strategies.integers(0, len(tokens) - 1))
    new = draw(
        strategies.one_of(
            strategies.sampled_from([*words, "+", "-", "*", "<<", ">>", "<", "==", "(", ")", ","]),
            NUMBERS.map(str),
            TYPES,
            strategies.just(""),
            strategies.sampled_from(tokens),
        )
    )
    return " ".join([*tokens[:at], new, *tokens[at + 1 :]])


def _values() -> strategies.SearchStrategy[Any]:
    words, leaves = _vocabulary()
    return strategies.one_of(
        NUMBERS,
        TYPES,
        strategies.sampled_from(words),
        strategies.sampled_from(leaves),
        _rewritten(),
        _rewritten(),
        strategies.sampled_from([None, True, False, 1.5, "", "rows", "lanes * 2", "rows // 2", "cols == rows"]),
    )


@strategies.composite
def changed_files(draw: DrawFn, names: Sequence[str] = FILES) -> MachineFile:
    file = draw(strategies.sampled_from(names))
    words, _ = _vocabulary()
    return MachineFile(file, draw(edits(_tree(file), words, _values())), draw(strategies.integers(0, 99)))


def attempt(file: MachineFile) -> Outcome:
    try:
        machine = load_machine_text(file.text, "changed.yaml")
    except IsaError:
        return Outcome.REFUSED
    target(float(len(file.edits)), label="changes that are accepted")
    require_pages(machine)
    if sum(memory.depth * memory.word_bytes for memory in machine.memories.values()) > MOST_STORED_BYTES:
        return Outcome.UNJUDGED
    return some_formats(machine, np.random.default_rng(file.seed))


def require_pages(machine: Machine) -> None:
    """The machine comes back from its own text, and can be described."""
    with accepted("machine file"):
        again = load_machine_text(machine.text, machine.name)
        if again.hash != machine.hash:
            raise WrongAnswer("its own text is that of another machine", "machine file: text")
        if not manual(machine) or difference(machine, again):
            raise WrongAnswer("it has no manual, or differs from itself", "machine file: pages")


TARGET = Target("machine files", changed_files(), attempt)
