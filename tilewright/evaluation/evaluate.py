"""A network's answers to a data set on a machine, beside those of ONNX Runtime and of the float network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.importers.import_onnx import read_onnx
from tilewright.errors import InputError
from tilewright.evaluation.changes import Changes, changes_of
from tilewright.evaluation.metric import Metric, parse_metric, require_classes
from tilewright.evaluation.over_cores import Arrays, Way, answers
from tilewright.host.model import HostModel
from tilewright.program import Program

MACHINE, MODEL, FLOAT = "machine", "model", "float"
"""Who answers: the machine, the quantised model in ONNX Runtime, the float model there."""


@dataclass(frozen=True)
class Evaluation:
    """Answers to `images` images; what `scores` says of each who answers is None without labels."""

    isa: str
    metric: Metric
    images: int
    cycles_per_image: float
    answers: Mapping[str, NDArray[Any]]  # by who answers; the machine is first
    scores: Mapping[str, NDArray[np.float64]] | None
    changes: Mapping[str, Changes]  # of the machine, against each other

    def __repr__(self) -> str:
        means = ", ".join(f"{who} {scores.mean():.4g}" for who, scores in (self.scores or {}).items())
        return f"<Evaluation on {self.isa}: {self.images} images; {self.metric.name}: {means or 'no labels'}>"


def evaluate_program(
    program: Program,
    models: Mapping[str, onnx.ModelProto],
    data: Arrays,
    labels: tuple[NDArray[Any], str] | None,
    metric: str = "top1",
    output: str | None = None,
    jobs: int | None = None,
    done: Callable[[int, int], None] = lambda finished, asked: None,
) -> Evaluation:
    """The answers of a program and of `models` (by MODEL and FLOAT) to `data`, arrays by input, images first.

    `labels` go with where they come from, for messages; `output` is the one that answers, needed where there are
    several. Raises InputError for data, labels or an output that do not fit.
    """
    chosen = parse_metric(metric)
    name = _answering(program, output)
    batches = program.batches(data)
    ways: list[Way] = [lambda part: program.run(part).outputs[name]]
    ways += [
        _reference(model, name, [value.name for value in program.outputs].index(name)) for model in models.values()
    ]
    images = batches.images if batches else len(next(iter(data.values())))
    each = batches.each if batches else images  # all in one run
    found = answers(ways, data, images, each, jobs, done)
    if chosen.is_of_classes:
        require_classes(found[0], name)
    of_all = dict(zip((MACHINE, *models), found, strict=True))
    known = None if labels is None else chosen.require_labels(labels[0], found[0], labels[1])
    scores = None if known is None else {who: chosen.scores(given, known) for who, given in of_all.items()}
    changes = {who: changes_of(chosen, found[0], of_all[who], known) for who in models}
    cycles = program.run_profile().cycles / each
    return Evaluation(program.machine.name, chosen, len(found[0]), cycles, of_all, scores, changes)


def _answering(program: Program, output: str | None) -> str:
    names = [value.name for value in program.outputs]
    if output is None and len(names) == 1:
        return names[0]
    if output not in names:
        asked = "the network has several outputs" if output is None else f"no output {output!r}"
        raise InputError(f"{asked}; say which one answers with --answer: {', '.join(names)}")
    return output


def _reference(model: onnx.ModelProto, name: str, position: int) -> Way:
    """A model in ONNX Runtime, which is given as many images at once as it takes. It is loaded by who first asks."""
    loaded = HostModel(model.SerializeToString())
    names = [value.name for value in model.graph.output]
    answer = name if name in names else names[position] if position < len(names) else names[0]

    def run(part: Arrays) -> NDArray[Any]:
        images = len(next(iter(part.values())))
        step = _images_of(model) or images
        starts = range(0, images, step)
        return np.concatenate([_of_one_run(loaded, answer, part, at, min(step, images - at), step) for at in starts])

    return run


def _of_one_run(model: HostModel, answer: str, part: Arrays, start: int, images: int, step: int) -> NDArray[Any]:
    """The answers to some images; where there are fewer than the model takes, zeros fill it up and are dropped."""
    fed = {name: array[start : start + images] for name, array in part.items()}
    if images < step:
        fed = {n: np.concatenate([a, np.zeros((step - images, *a.shape[1:]), a.dtype)]) for n, a in fed.items()}
    return np.asarray(model.run([answer], fed)[answer])[:images]


def _images_of(model: onnx.ModelProto) -> int | None:
    """How many images the model takes at once; None if any number."""
    first = model.graph.input[0].type.tensor_type.shape.dim[0]
    return first.dim_value if first.HasField("dim_value") else None


def read_reference(model: str | Path | bytes, shapes: Mapping[str, Sequence[int]] | None) -> onnx.ModelProto:
    """A model as ONNX Runtime is given it, TFLite ones as ONNX. Raises CompileError."""
    return read_onnx(model, {name: tuple(sizes) for name, sizes in (shapes or {}).items()})[0]
