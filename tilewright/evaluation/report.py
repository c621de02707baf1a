"""An evaluation as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.evaluation.changes import Changes
from tilewright.evaluation.evaluate import FLOAT, MACHINE, MODEL, Evaluation
from tilewright.terminal.tables import print_table, print_text

TITLES = {MACHINE: "the machine", MODEL: "the model in ONNX Runtime", FLOAT: "the float model in ONNX Runtime"}

SHOWN = 10
"""So many kinds of changed answers are printed."""


def evaluation_json(found: Evaluation) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "isa": found.isa,
        "images": found.images,
        "metric": found.metric.name,
        "cycles_per_image": found.cycles_per_image,
        "answers": [_scored(found, who) for who in found.answers],
        "changes": {who: _changes_json(changes) for who, changes in found.changes.items()},
    }


def _scored(found: Evaluation, who: str) -> dict[str, Any]:
    if found.scores is None:
        return {"of": who}
    scores = found.scores[who]
    own: dict[str, Any] = {"of": who, "score": float(scores.mean())}
    return {**own, "right": int(scores.sum()), "answers": scores.size} if found.metric.is_of_classes else own


def _changes_json(changes: Changes) -> dict[str, Any]:
    return {
        "answers": changes.answers,
        "changed": changes.changed,
        "gained": changes.gained,
        "lost": changes.lost,
        "mean_difference": changes.mean,
        "largest_difference": changes.furthest,
        "confused": [
            {"label": of.label, "before": of.before, "now": of.now, "count": of.count, "images": list(of.images)}
            for of in changes.confused
        ],
    }


def print_evaluation(found: Evaluation, name: str) -> None:
    """The scores; then what the machine answers otherwise than each reference."""
    title = f"{name} on {found.isa}: {found.images:,} images, {found.cycles_per_image:,.0f} cycles for each"
    value = evaluation_json(found)
    if found.scores is not None:
        rows = [_row(each, found.metric.is_of_classes) for each in value["answers"]]
        right = ("right",) if found.metric.is_of_classes else ()
        print_table(title, ("answers of", *right, found.metric.name), rows)
    else:
        print_text(f"{title}; without --labels, only what differs is known")
    for who, changes in found.changes.items():
        print()
        print_text(_sentence(changes, who, found.metric.is_of_classes))
        if changes.confused:
            _print_confused(changes, who)


def _row(answer: Mapping[str, Any], is_of_classes: bool) -> tuple[Any, ...]:
    who = TITLES[answer["of"]]
    if not is_of_classes:
        return who, f"{answer['score']:.6g}"
    return who, f"{answer['right']:,} of {answer['answers']:,}", f"{100 * answer['score']:.2f} %"


def _sentence(changes: Changes, who: str, is_of_classes: bool) -> str:
    numbers = f"Its numbers differ by {changes.mean:.3g} on average, and by {changes.furthest:.3g} at most."
    if not is_of_classes:
        return f"Against {TITLES[who]}: {changes.changed:,} of {changes.answers:,} images have other numbers. {numbers}"
    if not changes.changed:
        return f"Against {TITLES[who]}: all {changes.answers:,} answers are the same. {numbers}"
    came = "" if changes.gained is None else f" ({changes.gained} right now, {changes.lost} no longer)"
    return f"Against {TITLES[who]}: {changes.changed:,} of {changes.answers:,} answers are others{came}. {numbers}"


def _print_confused(changes: Changes, who: str) -> None:
    has_labels = changes.confused[0].label is not None
    rows = [
        (*([of.label] if has_labels else []), of.before, of.now, of.count, _images(of.images, of.count))
        for of in changes.confused[:SHOWN]
    ]
    more = len(changes.confused) - len(rows)
    title = "Changed answers, by class" + (f"; {more} more kinds of change" if more > 0 else "")
    print_table(title, (*(["label"] if has_labels else []), who, MACHINE, "count", "images"), rows)


def _images(images: tuple[int, ...], count: int) -> str:
    return ", ".join(map(str, images)) + (", …" if count > len(images) else "")
