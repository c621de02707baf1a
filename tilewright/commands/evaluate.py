"""`tilewright evaluate`: how good a network's answers are on a machine, and what quantising and the machine changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.commands.options import Batch, Calibration, Isa, Jobs, Json, SameEffort, Seed, Set, Shape, report

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A quantised ONNX or TFLite model; or a float one, with --calibration."),
]
Data = Annotated[
    Path, typer.Option("--data", metavar="FILE", help="A .npz file with an array for each input, images first.")
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels", metavar="FILE", help="What is right: a .npy file, or a .npz file of one array. Classes or numbers."
    ),
]
MetricName = Annotated[str, typer.Option("--metric", metavar="METRIC", help="top1, top5, topK, mse or mae.")]
Float = Annotated[
    Path | None,
    typer.Option("--float", metavar="MODEL", help="Also the float model; with --calibration, it is there already."),
]
Answer = Annotated[
    str | None, typer.Option("--answer", metavar="OUTPUT", help="The output that answers, where there are several.")
]


def evaluate_command(
    model: Model,
    isa: Isa,
    data: Data,
    labels: Labels = None,
    metric: MetricName = "top1",
    float_model: Float = None,
    answer: Answer = None,
    set: Set = None,  # noqa: A002
    shape: Shape = None,
    batch: Batch = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    effort: SameEffort = 1,
    jobs: Jobs = None,
    json: Json = None,
) -> None:
    """Count the right answers to a data set: on the machine, in ONNX Runtime, and of the float model."""
    from tilewright.api import evaluate
    from tilewright.commands.quantize import print_warnings
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.evaluation.report import evaluation_json, print_evaluation
    from tilewright.terminal.progress import counting

    with counting("images") as (done, _):
        found = evaluate(
            model, isa, data, labels, metric, float_model, answer, set or (), parse_shapes(shape or ()), batch,
            calibration, seed, effort, jobs, done, print_warnings,
        )  # fmt: skip
    if report({"model": str(model), **evaluation_json(found)}, json):
        print_evaluation(found, model.name)
