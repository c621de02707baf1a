"""What makes an answer good: the right class among the first K, or a small difference from what is expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError

CLASSES_AXIS = 1
"""Of an output [images, classes, …], as ONNX's classifiers and segmentations have it."""

DIFFERENCES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {"mse": np.square, "mae": np.abs}
"""Metrics of numbers: what is averaged, of the differences from the labels."""

NAMES = "top1, top5 or any other topK, mse, mae"


@dataclass(frozen=True, slots=True)
class Metric:
    """`first` is the K of topK; None where `name` is one of DIFFERENCES."""

    name: str
    first: int | None

    @property
    def is_of_classes(self) -> bool:
        return self.first is not None

    def scores(self, outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
        """A score for each answer: 1 or 0 for a class, which is right or not; the mean of an image's differences."""
        if self.first is None:
            differences = DIFFERENCES[self.name](outputs.astype(np.float64) - labels)
            return differences.reshape(len(outputs), -1).mean(axis=1)
        best = np.argsort(-outputs.astype(np.float64), axis=CLASSES_AXIS, kind="stable")
        among = np.take(best, range(min(self.first, best.shape[CLASSES_AXIS])), axis=CLASSES_AXIS)
        return (among == np.expand_dims(labels, CLASSES_AXIS)).any(axis=CLASSES_AXIS).astype(np.float64)

    def require_labels(self, labels: NDArray[Any], outputs: NDArray[Any], source: str) -> NDArray[Any]:
        """The labels, of which there is one for each answer. Raises InputError for others."""
        shape = outputs.shape if self.first is None else (outputs.shape[0], *outputs.shape[CLASSES_AXIS + 1 :])
        if self.first is not None and labels.dtype.kind not in "iu":
            raise InputError(f"{source}: labels are {labels.dtype.name}; {self.name} takes integers, the right classes")
        if self.first is not None and labels.size == np.prod(shape):
            labels = labels.reshape(shape)
        if labels.shape != shape:
            raise InputError(f"{source}: labels of shape {list(labels.shape)}; the answers take {list(shape)}")
        if self.first is not None:
            _require_classes(labels, outputs.shape[CLASSES_AXIS], source)
        return labels


def _require_classes(labels: NDArray[Any], classes: int, source: str) -> None:
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= classes:
        raise InputError(
            f"{source}: labels from {least} to {most}; the output has {classes} classes, 0 to {classes - 1}. "
            "Are the labels of another numbering?"
        )


def parse_metric(name: str) -> Metric:
    """The metric of a name; raises InputError for an unknown one."""
    ranked = re.fullmatch(r"top([1-9]\d{0,5})", name)
    if ranked:
        return Metric(name, int(ranked[1]))
    if name in DIFFERENCES:
        return Metric(name, None)
    raise InputError(f"no metric {name!r}; --metric takes: {NAMES}")


def require_classes(outputs: NDArray[Any], name: str) -> None:
    """Raise InputError for an output in which no dimension is that of classes."""
    if outputs.ndim <= CLASSES_AXIS:
        raise InputError(
            f"output {name!r} is {list(outputs.shape)}; classes are expected in the second dimension: use --metric mse"
        )
