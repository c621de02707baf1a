"""Searches that learn: the same points each time, all of them allowed, and better than as many that are spread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import FakePool
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.front import front
from tilewright.codesign.explore.judge import hypervolume
from tilewright.codesign.explore.run import Choices, run
from tilewright.codesign.explore.search import SEARCHES, Search, search_named
from tilewright.codesign.explore.space import Point, Space
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.spread import Batches, Losses
from tilewright.codesign.explore.study import Study

BY_OPTUNA = [name for name, search in SEARCHES.items() if search.needs_all]

KEYS = ("memories.act.kib", "engines.vec.queue")

MANY = (*KEYS, "memories.wgt.kib", "engines.mma.queue", "engines.load.queue")

MakeSpace = Callable[..., Space]


@pytest.fixture
def make_space(tmp_path: Path) -> MakeSpace:
    def make(objectives: str = "cycles, area_mm2", more: str = "", keys: Sequence[str] = KEYS) -> Space:
        (tmp_path / "one.onnx").write_bytes(b"")
        ranges = "".join(f"  {key}: {{from: 1, to: 16, step: 1}}\n" for key in keys)
        (tmp_path / "space.yaml").write_text(
            f"base: tiny8\nkeys:\n{ranges}networks: {{one: one.onnx}}\nobjectives: [{objectives}]\n{more}"
        )
        return read_space(tmp_path / "space.yaml")

    return make


def looked(space: Space, name: str, budget: int, figures: Callable[[Point], tuple[float, ...] | None]) -> Losses:
    """The points that a search looks at in their order, with what they come to; of others, nothing is told."""
    batches = search_named(name).batches(space, budget)
    found: dict[Point, tuple[float, ...] | None] = {}
    batch = next(batches)
    while True:
        assert not set(batch) & found.keys() and len(set(batch)) == len(batch)
        assert all(map(space.is_allowed, batch))
        found |= {point: figures(point) for point in batch}
        try:
            batch = batches.send({point: losses for point, losses in found.items() if losses is not None})
        except StopIteration:
            return {point: losses or () for point, losses in found.items()}


def valley(point: Point) -> tuple[float, ...]:
    """Two figures that are both good only near a line through the space, which few spread points come near."""
    first, *others = ((float(str(value)) - 1) / 15 for value in point)
    away = sum(abs(value - 0.7) for value in others) / len(others)
    return (first + away) / 2, (1 - first**0.5 + away) / 2


@pytest.mark.parametrize("name", BY_OPTUNA)
def test_is_better_than_as_many_spread_points(make_space: MakeSpace, name: str) -> None:
    space = make_space(keys=MANY)
    own, spread = (looked(space, each, 64, valley) for each in (name, "spread"))
    volumes = [hypervolume(front((loss, loss) for loss in each.values())) for each in (own, spread)]
    assert len(own) == len(spread) == 64 and volumes[0] > volumes[1] + 0.02


@pytest.mark.parametrize("name", BY_OPTUNA)
def test_asks_for_what_is_allowed_until_nothing_is_left(make_space: MakeSpace, name: str) -> None:
    limits = "memories.act.kib < 3, engines.vec.queue % 3 == 1 or memories.act.kib < 2"
    space = make_space(more=f"constraints: [{limits}]\n")
    assert set(looked(space, name, 100, lambda point: None)) == set(space.points())


@pytest.mark.parametrize("name", BY_OPTUNA)
def test_keeps_to_where_points_have_figures(make_space: MakeSpace, name: str) -> None:
    space = make_space(keys=MANY)
    found = looked(space, name, 64, lambda point: valley(point) if int(str(point[0])) <= 4 else None)
    later = list(found.values())[32:]
    assert sum(map(bool, later)) > 0.5 * len(later)  # of all points, a quarter has


def test_the_number_of_workers_changes_nothing(make_space: MakeSpace, tmp_path: Path) -> None:
    space = make_space()
    studies = []
    for workers in (1, 3):
        run(space, tmp_path / f"s{workers}", Choices("tpe", 10, workers=workers), make_pool=FakePool)
        studies.append(Study(tmp_path / f"s{workers}"))
    one, three = studies
    assert one.searches == three.searches and set(one.searches) == {"tpe", "spread"}
    assert len(one.searches["tpe"]) == len(one.searches["spread"]) == 10


def test_what_it_is_compared_with_is_not_dropped_for_its_points(
    make_space: MakeSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lucky(space: Space, budget: int | None) -> Batches:
        yield [(1, 1)]  # the least area and the fewest flip-flops of all

    monkeypatch.setitem(SEARCHES, "lucky", Search(lucky, is_learning=True))  # type: ignore[index]
    run(make_space("area_mm2, flip_flops"), tmp_path / "s", Choices("lucky"), make_pool=FakePool)
    study = Study(tmp_path / "s")
    assert study.searches.keys() == {"lucky", "spread"} and study.counts() == {"measured": 2}


@pytest.mark.parametrize("name", BY_OPTUNA)
def test_says_how_to_install_what_it_needs(
    make_space: MakeSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # type: ignore[arg-type]
    with pytest.raises(StudyError) as raised:
        run(make_space(), tmp_path / "s", Choices(name), make_pool=FakePool)
    expected = f"--search {name} needs optuna, not installed here; install the extra: pip install 'tilewright[search]'"
    assert str(raised.value) == expected
    assert not (tmp_path / "s").exists()
