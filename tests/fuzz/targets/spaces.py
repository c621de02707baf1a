"""Spaces of machines: keys, ranges and constraints changed, up to spaces that nobody can list.

Of one that is accepted, points are asked for by each search; they are allowed, by Python's own arithmetic.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tests.fuzz.trees import Edit, edited, edits
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.search import SEARCHES
from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.space_file import read_space

SPACE: dict[str, Any] = {
    "base": "tiny8",
    "keys": {
        "memories.act.kib": {"from": 1, "to": 16, "times": 2},
        "dram.outstanding_beats": [16, 64],
        "engines.vec.queue": {"from": 2, "to": 10, "step": 2},
        "array.rows": [8, 16],
    },
    "constraints": ["memories.act.kib + memories.wgt.kib <= 90", "area_mm2 <= 9"],
    "networks": {"one": {"model": "one.onnx", "weight": 2}},
    "objectives": ["cycles", "area_mm2"],
}

KEYS = ("memories.act.kib", "memories.wgt.kib", "dram.outstanding_beats", "engines.vec.queue", "array.rows", "lanes")

SEARCHED = ("all", "spread", "local")


@dataclass(frozen=True)
class ChangedSpace:
    """A space's file with changes, and more constraints."""

    edits: tuple[Edit, ...]
    constraints: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        tree = edited(SPACE, self.edits)
        if isinstance(tree.get("constraints"), list):
            tree["constraints"] += self.constraints
        return str(yaml.safe_dump(tree, sort_keys=False))


LEAVES = (*KEYS, *KEYS, "0", "1", "2", "64", "0.5", "1e300", "1e999", "9" * 400, "1 == 1", "'a'", "area_mm2")

SIGNS = (*"+-*/%<>", "//", "**", "<<", "==", "!=", "<=", ">=", "and", "or", "in")

DEEP = ("(" * 150 + "1" + ")" * 150, "-" * 480 + "1", "not " * 120 + "1", "1 <" * 150 + " 1")

FORMS = ("{a} {sign} {b}", "({a} {sign} {b})", "min({a}, {b})", "pow({a}, {b})", "-{a}", "not {a}", "'a' * {a}")
FORMATTED = ("'%999999999d' * {a}", "'%999999999d' % {a}")


@strategies.composite
def expressions(draw: DrawFn, depth: int = 3) -> str:
    if depth == 3 and draw(strategies.integers(0, 19)) == 0:
        return draw(strategies.sampled_from(DEEP))
    if depth == 0 or draw(strategies.booleans()):
        return draw(strategies.sampled_from(LEAVES))
    form = draw(strategies.sampled_from((*FORMS, *FORMS, *FORMATTED)))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return form.format(a=a, b=b, sign=draw(strategies.sampled_from(SIGNS)))


@strategies.composite
def changed_spaces(draw: DrawFn) -> ChangedSpace:
    large = {"from": 1, "to": 1 << 33, "step": 1}
    wide = {"from": 1, "to": 9_000, "step": 1}
    values = strategies.one_of(
        strategies.sampled_from([None, True, 0, -1, 1, 2, 1 << 40, 0.5, "", "x", "cycles", [], {}, large, wide, wide]),
        strategies.sampled_from(KEYS),
        expressions(),
    )
    names = [*KEYS, "from", "to", "step", "times", "base", "constraints", "objectives", "effort"]
    return ChangedSpace(draw(edits(SPACE, names, values)), tuple(draw(strategies.lists(expressions(), max_size=2))))


def attempt(changed: ChangedSpace) -> Outcome:
    with TemporaryDirectory() as name:
        path = Path(name) / "space.yaml"
        path.write_text(changed.text)
        (Path(name) / "one.onnx").write_bytes(b"")
        try:
            space = read_space(path)
        except StudyError:
            return Outcome.REFUSED
    for search in SEARCHED:
        try:
            batch = next(SEARCHES[search].batches(space, 50))
        except (StudyError, StopIteration):
            continue
        _require_allowed(space, batch)
    return Outcome.RIGHT


def _require_allowed(space: Space, batch: list[Any]) -> None:
    if len(set(batch)) < len(batch) or len(batch) > 50:
        raise WrongAnswer("a search asks for a point twice, or for too many", "spaces: points")
    of_keys = [each.expression.text for each in space.constraints if not each.figures]
    for point, text in itertools.product(batch, of_keys):
        names = {key.replace(".", "__"): value for key, value in space.names(point).items()}
        for key in sorted(space.names(point), key=len, reverse=True):
            text = text.replace(key, key.replace(".", "__"))
        if not eval(text, {"__builtins__": {}, "min": min, "max": max}, names):  # it was accepted: see `expression.py`
            raise WrongAnswer(f"{text} is not met by {names}", "spaces: constraints")


TARGET = Target("spaces", changed_spaces(), attempt)
