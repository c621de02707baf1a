"""`tilewright explore`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tests.tilewright.command_line import Command
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore import run as running
from tilewright.codesign.explore.study import Study


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
    listed = tilewright("explore", "show", study, "--all").out
    assert all(cycles in listed.split("All points")[1] for cycles in ("12,496", "6,246", "3,121"))


def test_says_from_the_first_moment_what_it_does(tilewright: Command, space: Path) -> None:
    study = space.parent / "s"
    assert tilewright("explore", space, "-o", study, "--workers", 1).err.splitlines()[:2] == [
        "starting the workers",
        "0 of 3 points: pricing memories.act.kib=8 engines.vec.queue=4, once: a minute or two where no machine of its "
        "structure is priced yet",
    ]
    again = tilewright("explore", space, "-o", study).err  # all is there already
    assert again == "starting the workers\n1 of 3 points: memories.act.kib=8 engines.vec.queue=4 is done\n"


NEAR = """
Near misses of constraints
points  do not meet   nearest        which is
1       area_mm2 < 5  area_mm2 5.04  memories.act.kib 64 → 32
"""


def test_near_misses_stand_beside_the_front(tilewright: Command, space: Path) -> None:
    with space.open("a") as file:
        file.write("constraints: [area_mm2 < 5]\n")
    ended = tilewright("explore", space, "-o", space.parent / "s")
    assert "2 points that none beats" in ended.out
    assert NEAR in ended.out


def test_writes_everything_as_json(tilewright: Command, space: Path) -> None:
    ended = tilewright("explore", space, "-o", space.parent / "s", "--json", "-")
    found = json.loads(ended.out)
    assert [point["figures"]["cycles"] for point in found["points"]] == [12496, 6246, 3121]
    assert all(point["on_front"] for point in found["points"])


def test_writes_a_page_of_a_study_whose_space_is_not_at_hand(tilewright: Command, space: Path) -> None:
    study, html = space.parent / "s", space.parent / "s.html"
    assert tilewright("explore", space, "-o", study).code == 0
    assert tilewright("explore", "show", study, "--html", html).code == 0
    assert "<h1>" in html.read_text()


def test_joins_shards(tilewright: Command, space: Path) -> None:
    parts = [space.parent / f"s{part}" for part in (1, 2)]
    for number, part in enumerate(parts, 1):
        assert tilewright("explore", space, "-o", part, "--shard", f"{number}/2").code == 0
    ended = tilewright("explore", "merge", *parts, "-o", space.parent / "all")
    assert (ended.code, ended.out) == (0, f"{space.parent}/all: 10 lines of 2 studies\n")


EXCLUDED = """s: no point is on the front.
Of 3 points: 3 outside the constraints.

Why no point is left
points  do not meet               nearest               which is
2       area_mm2 < 3              area_mm2 3.04         memories.act.kib 64 → 16
1       cycles < 5000 or kge > 2  cycles 12,496, kge 1  memories.act.kib 64 → 8
        * 1
"""


def test_says_which_constraint_leaves_nothing_and_what_comes_nearest(tilewright: Command, space: Path) -> None:
    with space.open("a") as file:
        file.write("constraints: [area_mm2 < 3, cycles < 5000 or kge > 2 * 1]\n")
    ended = tilewright("explore", space, "-o", space.parent / "s")
    assert (ended.code, ended.out) == (0, EXCLUDED)
    assert tilewright("explore", "show", space.parent / "s").out == EXCLUDED
    found = json.loads(tilewright("explore", "show", space.parent / "s", "--json", "-").out)
    nearest = {"constraint": "area_mm2 < 3", "points": 2, "nearest": "memories.act.kib=16 engines.vec.queue=4"}
    assert found["excluded"][0] == {**nearest, "has": "area_mm2 3.04"}
    assert [point["reason"] for point in found["points"]] == [
        "not cycles < 5000 or kge > 2 * 1: cycles 12,496, kge 1",
        "not area_mm2 < 3: area_mm2 3.04",
        "not area_mm2 < 3: area_mm2 5.04",
    ]
    page = tilewright("explore", "show", space.parent / "s", "--html", "-").out
    assert "<code>area_mm2 &lt; 3</code> excludes 2; nearest is area_mm2 3.04, of memories.act.kib 64 → 16.</p>" in page
    with pytest.raises(StudyError) as raised:
        Study(space.parent / "s").best("cycles")
    assert str(raised.value).splitlines()[1:] == [
        "`area_mm2 < 3` excludes 2, and what comes nearest has area_mm2 3.04: memories.act.kib 64 → 16",
        "`cycles < 5000 or kge > 2 * 1` excludes 1, and what comes nearest has cycles 12,496, kge 1: "
        "memories.act.kib 64 → 8",
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--shard", "3/2"), 2, "'3/2' is no part of a whole; expected such as 2/8"),
        (("--search", "best"), 1, "error: no search 'best'; there are: all, spread, local, tpe, nsga"),
        (("--reuse", "nowhere"), 1, "error: nowhere: is no study: it has no points.jsonl"),
    ],
)
def test_refuses(tilewright: Command, space: Path, words: tuple[str, ...], code: int, message: str) -> None:
    ended = tilewright("explore", space, "-o", space.parent / "s", *words)
    assert ended.code == code and message in " ".join(ended.err.replace("│", "").split())


@pytest.mark.parametrize("search", ["spread", "local"])
def test_other_searches_find_all_of_a_small_space(tilewright: Command, space: Path, search: str) -> None:
    assert "Of 3 points: 3 measured." in tilewright("explore", space, "-o", space.parent / "s", "--search", search).out
