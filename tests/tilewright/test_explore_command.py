"""`tilewright explore`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tests.tilewright.command_line import Command
from tilewright.codesign.explore import run as running


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A space of three points, whose workers answer at once."""
    monkeypatch.setattr(running.run, "__defaults__", (*(running.run.__defaults__ or ())[:-1], serve))
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32], engines.vec.queue: [4]}\n"
        "networks: {one: one.onnx}\nobjectives: [cycles, area_mm2]\n"
    )
    return tmp_path / "space.yaml"


def test_runs_a_space_and_shows_its_front(tilewright: Command, space: Path) -> None:
    study = space.parent / "s"
    ended = tilewright("explore", space, "-o", study)
    assert ended.code == 0, ended.err
    assert "3 points that none beats" in ended.out and "Of 3 points: 3 measured." in ended.out
    assert tilewright("explore", "show", study).out == ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines())


def test_writes_everything_as_json(tilewright: Command, space: Path) -> None:
    ended = tilewright("explore", space, "-o", space.parent / "s", "--json", "-")
    found = json.loads(ended.out)
    assert [point["figures"]["cycles"] for point in found["points"]] == [12496, 6246, 3121]
    assert all(point["on_front"] for point in found["points"])


def test_joins_shards(tilewright: Command, space: Path) -> None:
    parts = [space.parent / f"s{part}" for part in (1, 2)]
    for number, part in enumerate(parts, 1):
        assert tilewright("explore", space, "-o", part, "--shard", f"{number}/2").code == 0
    ended = tilewright("explore", "merge", *parts, "-o", space.parent / "all")
    assert (ended.code, ended.out) == (0, f"{space.parent}/all: 10 lines of 2 studies\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--shard", "3/2"), 2, "'3/2' is no part of a whole; expected such as 2/8"),
        (("--search", "best"), 1, "error: no search 'best'; there are: all, spread, local"),
        (("--reuse", "nowhere"), 1, "error: nowhere: is no study: it has no points.jsonl"),
    ],
)
def test_refuses(tilewright: Command, space: Path, words: tuple[str, ...], code: int, message: str) -> None:
    ended = tilewright("explore", space, "-o", space.parent / "s", *words)
    assert ended.code == code and message in " ".join(ended.err.replace("│", "").split())


@pytest.mark.parametrize("search", ["spread", "local"])
def test_other_searches_find_all_of_a_small_space(tilewright: Command, space: Path, search: str) -> None:
    assert "Of 3 points: 3 measured." in tilewright("explore", space, "-o", space.parent / "s", "--search", search).out
