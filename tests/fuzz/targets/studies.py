"""Studies: lines of points.jsonl with values, keys and bytes changed, read as `explore show` reads them.

What is accepted is shown in every form, and read as the same lines when it is written again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.codesign.explore.fake_worker import network, price
from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tests.fuzz.trees import Edit, edited, edits
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.judge import hypervolumes, importance
from tilewright.codesign.explore.lines import print_line
from tilewright.codesign.explore.store import POINTS, read_lines
from tilewright.codesign.explore.study import Study
from tilewright.codesign.explore.table import study_csv
from tilewright.codesign.verify.kept import verdicts
from tilewright.studies.page.page import study_page

BASE = "memories.act.kib"


@dataclass(frozen=True)
class ChangedStudy:
    """A study's lines with changes: of their values, then of single bytes, then cut short."""

    edits: tuple[Edit, ...]
    bytes: tuple[tuple[int, bytes], ...] = ()
    cut: int = 0
    nested: int = 0  # brackets on a line of their own

    @property
    def content(self) -> bytes:
        lines = [json.dumps(line).encode() for line in edited(_lines(), self.edits)]
        content = b"\n".join([*lines, b"[" * self.nested, b""])
        for place, new in self.bytes:
            place %= len(content)
            content = content[:place] + new + content[place + 1 :]
        return content[: len(content) - self.cut]


@cache
def _lines() -> list[dict[str, Any]]:
    """A study of four points and two networks, with a line of each kind."""
    space = {
        **{"kind": "space", "version": "v", "base": "tiny8", "effort": 1, "clock": False, "beside": "/nowhere"},
        "axes": [{"name": BASE, "is_overlay": False}, {"name": "turbo", "is_overlay": True}],
        "base_values": [64, 0],
        "networks": [{"name": "one", "hash": "h1", "weight": 1.0}, {"name": "two", "hash": "h2", "weight": 2.5}],
        "objectives": ["cycles", "area_mm2"],
        "constraints": [["area_mm2 <= 3.5", 4, 5], [f"{BASE} + memories.wgt.kib <= 80", 5, 5]],
        "constants": {"memories.wgt.kib": 64},
    }
    lines: list[dict[str, Any]] = [space]
    for number, kib in enumerate((8, 16, 32, 64)):
        key = f"m{number}"
        lines.append({"kind": "machine", "label": f"{BASE}={kib}", "values": [kib, 0], "machine": key})
        lines.append({"kind": "price", "machine": key, "clock": False, "version": "v", "figures": price(kib, 2)})
        for name, of in (("one", "h1"), ("two", "h2")):
            outcome = network(name, kib, 2)
            lines.append(
                {"kind": "point", "machine": key, "network": of, "effort": 1, "version": "v", "outcome": outcome}
            )
    failure = {"stage": "load", "reason": "cannot be"}
    lines.append({"kind": "machine", "label": "none", "values": [1, 1], "failure": failure})
    lines.append({"kind": "dropped", "label": "none", "version": "v", "machine": "m", "by": "x", "least_cycles": 5.0})
    lines.append({"kind": "search", "name": "spread", "shard": "1/1", "version": "v", "labels": [f"{BASE}=8"]})
    lines.append({"kind": "search", "name": "local", "shard": "1/1", "version": "v", "labels": [f"{BASE}=16"]})
    verified = {"machine": "m0", "degree": "bits", "networks": "h1,h2", "effort": 1, "version": "v"}
    lines.append({"kind": "verified", **verified, "outcome": "holds", "text": "all equal"})
    return lines


@strategies.composite
def changed_studies(draw: DrawFn) -> ChangedStudy:
    names = sorted({key for line in _lines() for key in line} | {"cycles", "stage", "reason", "name"})
    texts = ["", "\x00", "ü", "x" * 3000, "'a' * 999999999 == 1", "'%999999999d' % 1 == 2", "2 ** 9", "-" * 400 + "1"]
    of_keys = [f"{BASE} * 10000000000000 > {BASE}", f"{BASE} // 0 == 1", "unknown <= 1", "energy_mj < 1"]
    values = strategies.one_of(
        strategies.sampled_from([None, True, False, 0, -1, 1, 2, 1 << 31, 1 << 63, 10**400, 0.5, -0.0, 1e308, 1e-300]),
        strategies.sampled_from([float("nan"), float("inf"), [], {}, [[]], "no", "cycles", "area_mm2", *texts]),
        strategies.sampled_from(of_keys),
    )
    places = strategies.tuples(strategies.integers(0, 1 << 16), strategies.binary(min_size=0, max_size=3))
    return ChangedStudy(
        draw(edits(_lines(), names, values)),
        draw(strategies.one_of(strategies.just(()), strategies.lists(places, max_size=2).map(tuple))),
        draw(strategies.sampled_from([0] * 9 + [1, 5, 300])),
        draw(strategies.sampled_from([0] * 9 + [100_000])),
    )


def attempt(changed: ChangedStudy) -> Outcome:
    with TemporaryDirectory() as name:
        path = Path(name) / POINTS
        path.write_bytes(changed.content)
        try:
            study = Study(name)
            _show(study)
        except StudyError:
            return Outcome.REFUSED
        lines, _, _ = read_lines(path)
        path.write_bytes(b"".join(print_line(line) for line in lines.values()))
        if read_lines(path) != (lines, path.stat().st_size, []):
            raise WrongAnswer("its lines are others when they are written again", "studies: lines")
    return Outcome.UNJUDGED if study.notes else Outcome.RIGHT


def _show(study: Study) -> None:
    """All that `explore show` does."""
    for entry in study.entries:
        verdicts(study, entry)
        study.difference(entry)
    repr(study)
    study_csv(study)
    study_page(study, {})
    study.counts(), study.exclusions(), study.host_note()
    importance(study)
    hypervolumes(study)


TARGET = Target("studies", changed_studies(), attempt)
