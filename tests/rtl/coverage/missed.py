"""The choices of the Verilog that no run took, each below the reason why: `reasons.yaml` has them.

A choice is shown with what it means: `value_16`, a name without meaning, as `(running & fault__valid)`, and names
without the numbers that make them different, since another signal somewhere else may change these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.rtl.coverage.data import Point

REASONS = Path(__file__).with_name("reasons.yaml")

DEEPEST = 3
"""So many times a name without meaning is replaced by what it is assigned."""

ASSIGNED = re.compile(r"\s*assign (value_\d+) = (.*);")

NAMELESS = re.compile(r"\bvalue_\d+\b(?!\[)")


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """A choice by its module and its text; `not` before a condition that was never false."""

    module: str
    text: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why choices are not taken, and which: patterns of modules and of texts."""

    text: str
    patterns: tuple[tuple[str, str], ...]

    def covers(self, choice: Choice) -> bool:
        return any(re.fullmatch(unit, choice.module) and re.fullmatch(of, choice.text) for unit, of in self.patterns)


def read_reasons(path: Path = REASONS) -> tuple[Reason, ...]:
    return tuple(
        Reason(" ".join(each["reason"].split()), tuple((of["unit"], of["choice"]) for of in each["choices"]))
        for each in yaml.safe_load(path.read_text())
    )


def missed(counts: Mapping[Point, int], source: Sequence[str]) -> Counter[Choice]:
    """The choices that no run took, and how many there are of each."""
    found: Counter[Choice] = Counter()
    for point, count in counts.items():
        if count == 0 and not point.is_toggle:
            text = _meaning(source, point.line)
            found[Choice(point.module, f"not `{text}`" if point.what in ("else", "cond_else") else f"`{text}`")] += 1
    return found


def unexplained(choices: Mapping[Choice, int], reasons: Sequence[Reason]) -> list[Choice]:
    """The choices for which there is no reason."""
    return sorted(choice for choice in choices if not any(reason.covers(choice) for reason in reasons))


def idle(choices: Mapping[Choice, int], reasons: Sequence[Reason]) -> list[Reason]:
    """The reasons of no choice, which are out of date."""
    return [reason for reason in reasons if not any(map(reason.covers, choices))]


def page_lines(choices: Mapping[Choice, int], reasons: Sequence[Reason]) -> Iterator[str]:
    """Each reason with its choices."""
    yield "## Choices that were never taken\n"
    yield "The command fails at one for which `tests/rtl/coverage/reasons.yaml` has no reason. Names are without their"
    yield "numbers.\n"
    for reason in reasons:
        yield f"- {reason.text}:"
        modules: dict[str, list[str]] = {}
        for choice in sorted(filter(reason.covers, choices)):
            times = choices[choice]
            modules.setdefault(choice.module, []).append(f"{choice.text}{f' ({times} times)' if times > 1 else ''}")
        yield from (f"  - {module}: {'; '.join(texts)}" for module, texts in modules.items())


def _meaning(source: Sequence[str], line: int) -> str:
    """A line with what its nameless names are assigned in its module."""
    text = re.sub(r"\s+", " ", source[line - 1].strip().removesuffix(" begin"))
    text = re.sub(r"^assign value_\d+ = ", "", text)
    if not NAMELESS.search(text):
        return _without_numbers(text)
    first = next(at for at in range(line - 1, -1, -1) if source[at].startswith("module "))
    last = next(at for at in range(line - 1, len(source)) if source[at].startswith("endmodule"))
    known = {found[1]: found[2] for each in source[first:last] if (found := ASSIGNED.fullmatch(each))}
    for _ in range(DEEPEST):
        text = NAMELESS.sub(lambda of: _in_brackets(known.get(of[0], of[0])), text)
    return _without_numbers(text)


def _in_brackets(text: str) -> str:
    return text if re.fullmatch(r"[\w\[\]:]+", text) else f"({text})"


def _without_numbers(text: str) -> str:
    return re.sub(r"(?<=[a-z])_\d+\b", "", text)
