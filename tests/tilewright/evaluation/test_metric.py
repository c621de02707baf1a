"""What metrics make of answers, and which answers changed: small arrays whose scores are counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.evaluation.changes import Confused, changes_of
from tilewright.evaluation.metric import parse_metric

ANSWERS = np.array([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [0.3, 0.2, 0.9]])
"""The classes by rank: 1 2 0, 0 1 2 (the smaller number first), 2 0 1."""

LABELS = np.array([1, 1, 1])


@pytest.mark.parametrize(("name", "scores"), [("top1", [1, 0, 0]), ("top2", [1, 1, 0]), ("top9", [1, 1, 1])])
def test_the_label_is_among_the_first(name: str, scores: list[int]) -> None:
    assert parse_metric(name).scores(ANSWERS, LABELS).tolist() == scores


def test_each_pixel_is_an_answer() -> None:
    pixels = np.array([[[[3, 1]], [[2, 5]]]])  # one image, two classes, one row of two pixels: classes 0 and 1
    assert parse_metric("top1").scores(pixels, np.array([[[0, 0]]])).tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize(("name", "scores"), [("mse", [(1 + 9) / 2, 0]), ("mae", [(1 + 3) / 2, 0])])
def test_differences_are_averaged_for_each_image(name: str, scores: list[float]) -> None:
    given, right = np.array([[2, 5], [7, 7]], np.int8), np.array([[1, 8], [7, 7]], np.int8)
    assert parse_metric(name).scores(given, right).tolist() == scores


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3], "y: labels from 1 to 3; the output has 3 classes, 0 to 2. Are the labels of another numbering?"),
        ([0, 1], "y: labels of shape [2]; the answers take [3]"),
        ([0.0, 1.0, 2.0], "y: labels are float64; top1 takes integers, the right classes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: list[float], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_metric("top1").require_labels(np.array(labels), ANSWERS, "y")
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["top0", "top", "accuracy", "top1 "])
def test_an_unknown_metric_is_refused(name: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_metric(name)
    assert str(refused.value) == f"no metric {name!r}; --metric takes: top1, top5 or any other topK, mse, mae"


def test_changed_answers_are_counted_by_class() -> None:
    before = np.eye(3)[[0, 0, 0, 1, 2]]
    now = np.eye(3)[[1, 0, 1, 2, 2]]  # images 0 and 2: from 0 to 1; image 3: from 1 to 2
    found = changes_of(parse_metric("top1"), now, before, np.array([1, 0, 0, 0, 2]))
    assert (found.answers, found.changed, found.gained, found.lost) == (5, 3, 1, 1)
    assert set(found.confused) == {
        Confused(1, 0, 1, 1, (0,)),
        Confused(0, 0, 1, 1, (2,)),
        Confused(0, 1, 2, 1, (3,)),
    }
    unlabelled = changes_of(parse_metric("top1"), now, before, None)
    assert unlabelled.confused == (Confused(None, 0, 1, 2, (0, 2)), Confused(None, 1, 2, 1, (3,)))
    assert (unlabelled.gained, unlabelled.lost) == (None, None)


def test_changed_numbers_are_measured() -> None:
    found = changes_of(
        parse_metric("mse"), np.array([[1.0, 5.0], [2.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 2.0]]), None
    )
    assert (found.changed, found.mean, found.furthest, found.confused) == (1, 0.75, 3.0, ())
