"""Hypervolumes against counting points of a grid; which key matters, where it is known."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.codesign.explore.fake_worker import serve
from tilewright.codesign.explore.judge import hypervolume, hypervolumes, importance
from tilewright.codesign.explore.run import Choices, run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study


def test_is_the_share_of_a_grid_that_is_dominated() -> None:
    draw = random.Random(2)
    for dimensions, steps in ((1, 16), (2, 12), (3, 8)):
        points = [tuple(draw.randrange(steps + 1) / steps for _ in range(dimensions)) for _ in range(5)]
        cells = list(itertools.product(range(steps), repeat=dimensions))
        covered = sum(any(all(c / steps >= x for c, x in zip(cell, p, strict=True)) for p in points) for cell in cells)
        assert hypervolume(points) == pytest.approx(covered / len(cells))


def test_nothing_dominates_nothing() -> None:
    assert hypervolume([]) == 0.0


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    (folder / "one.onnx").write_bytes(b"")
    (folder / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32, 64, 128], engines.vec.queue: [2, 3, 4]}\n"
        "networks: {one: one.onnx}\nobjectives: [cycles, flip_flops]\n"
    )
    run(read_space(folder / "space.yaml"), folder / "s", Choices("local", budget=12), serve=serve)
    return Study(folder / "s")


def test_a_search_that_learns_is_compared_with_as_many_spread_points(study: Study) -> None:
    counts = {name: len(labels) for name, labels in study.searches.items()}
    assert counts == {"local": 9, "spread": 9}  # of 15: no neighbour of the front is left after 9
    volumes = hypervolumes(study)
    assert 0.5 < volumes["spread"] <= 1 and 0.5 < volumes["local"] <= 1


def test_the_key_that_a_figure_follows_from_explains_it(study: Study) -> None:
    shares = importance(study)
    assert shares["engines.vec.queue"]["flip_flops"] == pytest.approx(1.0)
    assert shares["memories.act.kib"]["cycles"] > 0.99 > 0.2 > shares["engines.vec.queue"]["cycles"]
