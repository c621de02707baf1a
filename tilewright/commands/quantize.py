"""`tilewright quantize`, and what it shows: each layer's signal-to-noise ratio, and the layers that hurt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.mixed_types import mixed_summary, print_mixed
from tilewright.commands.options import CALIBRATION_HELP, Json, Output, Seed, Set, Shape, report, write_output
from tilewright.files.kinds import require_models

if TYPE_CHECKING:
    from tilewright.compiler.importers.input_shapes import Shapes
    from tilewright.quantization.quantize import QuantizedModel


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A float ONNX model.")]
Calibration = Annotated[str, typer.Option("--calibration", metavar="FILE", help=CALIBRATION_HELP)]
Method = Annotated[
    str, typer.Option("--method", metavar="METHOD", help="How to find ranges: minmax, percentile or entropy.")
]
Percentile = Annotated[
    float | None,
    typer.Option(
        "--percentile",
        metavar="PERCENT",
        help="The percentage of values that --method percentile keeps; 99.999 by default.",
    ),
]
Activations = Annotated[
    str | None,
    typer.Option(
        "--activations",
        metavar="TYPE",
        help="The type of activations, such as int16 or e4m3; default: signed, eight bits.",
    ),
]
WeightType = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="TYPE",
        help="The type of weights of products, such as int4, e4m3 or e2m1; default: eight bits.",
    ),
]
Block = Annotated[
    int,
    typer.Option(
        "--block",
        metavar="COUNT",
        help="How many weights of a channel of MatMul and Gemm share a scale: 16, 32, 64 or 128; default: all.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="NODE",
        help="Leave a node, or all of an operator, in float; auto leaves those that hurt most. May be repeated.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a network in which a layer's own range costs more than 6 dB.")
]
Mixed = Annotated[
    float | None,
    typer.Option(
        "--mixed",
        metavar="DB",
        help="Give each layer the weights of --weights or eight bits, and results of --activations or eight bits, as "
        "saves most on --isa, as long as the worst output loses at most so many dB.",
    ),
]
MixedIsa = Annotated[
    str | None, typer.Option("--isa", metavar="MACHINE", help="The machine of --mixed: a name or a YAML file.")
]
Saves = Annotated[
    str | None, typer.Option("--saves", metavar="WHAT", help="What --mixed saves: cycles, as by default, or energy.")
]


def quantize_command(
    model: Model,
    calibration: Calibration,
    output: Output,
    method: Method = "minmax",
    percentile: Percentile = None,
    activations: Activations = None,
    weights: WeightType = None,
    block: Block = 0,
    keep: Keep = None,
    strict: Strict = False,
    mixed: Mixed = None,
    isa: MixedIsa = None,
    overrides: Set = None,
    saves: Saves = None,
    shape: Shape = None,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Quantise a float ONNX model to integers (QDQ form), and show how much each layer loses."""
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.isa.files.loader import load_machine
    from tilewright.isa.program.stored_types import DEFAULT_TYPE
    from tilewright.quantization.quantize import quantize
    from tilewright.quantization.ranges import DEFAULT_PERCENTILE
    from tilewright.terminal.progress import progress

    if percentile is not None and method != "percentile":
        raise typer.BadParameter("only --method percentile takes it", param_hint="--percentile")
    _require_mixed(mixed, isa, overrides, saves)
    require_models([model])
    with progress(f"quantising {model.name}"):
        shapes = parse_shapes(shape or ())
        budget = None
        if mixed is not None and isa is not None:
            from tilewright.quantization.costs import budget_of

            budget = budget_of(mixed, load_machine(isa, overrides or ()), saves or "cycles", shapes)
        quantized = quantize(
            model,
            calibration,
            mixed=budget,
            method=method,
            percentile=DEFAULT_PERCENTILE if percentile is None else percentile,
            activations=activations or DEFAULT_TYPE.name,
            weights=weights or DEFAULT_TYPE.name,
            block=block,
            shapes=shapes,
            seed=seed,
            keep=keep or (),
            strict=strict,
        )
    write_output(output, quantized.content)
    print_warnings(quantized)
    summary = quantize_summary(quantized)
    if report({"model": str(model), "output": str(output), **summary}, json, output):
        print_quantize_summary(f"{output}: {_calibrated(summary)}{_losing(summary)}", summary)


def _require_mixed(mixed: float | None, isa: str | None, overrides: list[str] | None, saves: str | None) -> None:
    """Refuse what says how types are chosen where none are, and a choice without a machine."""
    if (mixed is None) != (isa is None):
        raise typer.BadParameter("--mixed and --isa go together: what is saved depends on the machine")
    for name, value in {"--set": overrides, "--saves": saves}.items():
        if value and mixed is None:
            raise typer.BadParameter(f"{name} needs --mixed: it says what is saved on a machine")


def quantize_on_the_way(model: Path, calibration: str, shapes: Shapes, seed: int) -> QuantizedModel:
    """A float model, quantised as other commands do with --calibration; its warnings on standard error."""
    from tilewright.quantization.quantize import quantize
    from tilewright.terminal.progress import progress

    with progress(f"quantising {model.name}"):
        quantized = quantize(model, calibration, shapes=shapes, seed=seed)
    print_warnings(quantized)
    return quantized


def quantize_summary(quantized: QuantizedModel) -> dict[str, Any]:
    """The layers with their ratios, those that hurt, and how the network was calibrated."""
    parts = quantized.parts
    return {
        "method": quantized.method,
        "activations": quantized.activations,
        "weights": quantized.weights,
        "block": quantized.block,
        "samples": quantized.samples,
        "seed": quantized.seed,
        "warnings": list(quantized.warnings),
        "layers": [
            {
                "name": layer.name,
                "nodes": list(layer.nodes),
                "operators": list(layer.operators),
                "tensor": layer.tensor,
                "part": parts.get(layer.tensor),
                "snr_db": _rounded(layer.snr_db),
                "drop_db": _rounded(layer.drop_db),
                "own_db": _rounded(layer.own_db),
            }
            for layer in quantized.layers
        ],
        "losses": [{"name": loss.name, "loses_db": _rounded(loss.loses_db)} for loss in quantized.losses],
        "hurting": [layer.name for layer in quantized.hurting],
        "pieces": [
            {"name": curve.name, "count": curve.count, "gain_db": _rounded(curve.gain_db)} for curve in quantized.pieces
        ],
        "kept": [{"nodes": list(kept.nodes), "gain_db": _rounded(kept.gain_db)} for kept in quantized.kept],
        "mixed": None if quantized.mixed is None else mixed_summary(quantized.mixed),
    }


def print_warnings(quantized: QuantizedModel) -> None:
    for warning in quantized.warnings:
        typer.echo(f"warning: {warning}", err=True)


def print_quantize_summary(title: str, summary: dict[str, Any]) -> None:
    """A row for each layer, of a recurrence's steps the lowest ratio; then the layers that hurt, the worst first."""
    from tilewright.terminal.tables import print_table

    rows = [
        (_named(layer, count), "+".join(layer["operators"]), _decibel(layer["snr_db"]), _drop(layer["drop_db"]))
        for layer, count in _lowest_of_steps(summary["layers"])
    ]
    print_table(title, ("layer", "operators", "SNR in dB", "drop in dB"), rows, title_in_one_line=True)
    typer.echo(f"\n{hurting_line(summary)}")
    if summary.get("mixed"):
        print_mixed(summary["mixed"])
    for curve in summary["pieces"]:
        typer.echo(f"in {curve['count']} pieces: {curve['name']} gains {curve['gain_db']:.1f} dB")
    for kept in summary["kept"]:
        gain = "" if kept["gain_db"] is None else f": the worst output gains {kept['gain_db']:.1f} dB"
        typer.echo(f"kept in float: {', '.join(kept['nodes'])}{gain}")


def _lowest_of_steps(layers: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Of the layers that are one part of several steps, the one with the lowest ratio, and how many there are."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for layer in layers:
        groups.setdefault(layer["part"] or layer["tensor"], []).append(layer)
    return [(min(group, key=_ratio), len(group)) for group in groups.values()]


def _ratio(layer: Mapping[str, Any]) -> float:
    return math.inf if layer["snr_db"] is None else float(layer["snr_db"])


def _named(layer: Mapping[str, Any], count: int) -> str:
    return layer["name"] if count == 1 else f"{layer['name']} (lowest of {count})"


def hurting_line(summary: dict[str, Any]) -> str:
    """One line that names the layers that hurt."""
    drops = {layer["name"]: layer["drop_db"] for layer in summary["layers"]}
    if not summary["hurting"]:
        return "no layer doubles the noise of its operands"
    return "layers that hurt most: " + ", ".join(f"{name} (-{drops[name]:.1f} dB)" for name in summary["hurting"])


def _losing(summary: dict[str, Any]) -> str:
    """What loses more than 6 dB, for the first line."""
    from tilewright.quantization.noise import MOST_NAMED, TOO_MUCH_DB

    found = [f"{loss['name']} ({loss['loses_db']:.1f})" for loss in summary["losses"]]
    more = "" if len(found) <= MOST_NAMED else f" and {len(found) - MOST_NAMED} more"
    return f"; more than {TOO_MUCH_DB:g} dB lost: {', '.join(found[:MOST_NAMED])}{more}" if found else ""


def _calibrated(summary: dict[str, Any]) -> str:
    count = summary["samples"]
    types = summary["activations"]
    weights = summary["weights"]
    if summary["mixed"]:
        types, weights = (
            " and ".join(dict.fromkeys(each[what] for each in summary["mixed"]["networks"][::2]))
            for what in ("activations", "weights")
        )
    if weights != types or summary["block"]:
        types = f"{types}, {weights} weights"
    if summary["block"]:
        types = f"{types} in blocks of {summary['block']}"
    return f"{types}, {summary['method']} over {count} sample{'s' * (count != 1)}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _decibel(value: float | None) -> str:
    return "exact" if value is None else f"{value:.1f}"


def _drop(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
