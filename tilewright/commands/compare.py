"""`tilewright compare`: networks on machines side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import (
    ON_TERMINAL,
    Batch,
    Calibration,
    Effort,
    Json,
    Networks,
    Seed,
    Shape,
    report,
    write_output,
)
from tilewright.errors import InputError
from tilewright.terminal.completion import complete_machine

if TYPE_CHECKING:
    from tilewright.codesign.compare.comparison import Comparison
    from tilewright.profiles.against import Row
    from tilewright.simulator.run_profile import LayerProfile

Machines = Annotated[
    list[str],
    typer.Option(
        "--isa",
        metavar="MACHINE",
        autocompletion=complete_machine,
        help="A machine by name or .yaml file; give several.",
    ),
]
Overlays = Annotated[
    list[str] | None,
    typer.Option(
        "--overlay", metavar="FILE", help="Also each machine with this laid over it: a .yaml file, or a machine's name."
    ),
]
AllSet = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Also each machine with all these settings together."),
]
NoPrice = Annotated[bool, typer.Option("--no-price", help="Only cycles and bytes: no area, clock or energy.")]
Clock = Annotated[
    float | None, typer.Option("--clock", metavar="MHZ", help="One clock for all, in place of finding each machine's.")
]
By = Annotated[
    str | None, typer.Option("--by", metavar="layer", help="Where the others differ from the first machine, and why.")
]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write a line a network and machine; - is standard output.")
]

LAYERS = 8
"""As many layers are shown of two machines."""


def compare_command(
    networks: Networks,
    isa: Machines,
    set: AllSet = None,  # noqa: A002
    overlay: Overlays = None,
    by: By = None,
    no_price: NoPrice = False,
    clock: Clock = None,
    effort: Effort = 1,
    shape: Shape = None,
    batch: Batch = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    csv: Csv = None,
    json: Json = None,
) -> None:
    """Compare machines on networks: cycles, time, area, energy.

    (`compare-values` compares a program's values with ONNX Runtime's; `isa diff` compares two machine files.)
    """
    from tilewright.codesign.compare.comparison import compare_machines
    from tilewright.codesign.compare.machines import candidates
    from tilewright.codesign.compare.tables import comparison_csv
    from tilewright.commands.quantize import print_warnings
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.quantization.networks import read_quantized
    from tilewright.terminal.progress import progress

    if by not in (None, "layer"):
        raise typer.BadParameter(f"{by!r}; expected layer", param_hint="--by")
    if [csv, json].count(ON_TERMINAL) > 1:
        raise typer.BadParameter("--csv and --json cannot both be standard output: give one of them a file")
    if clock is not None and not 0 < clock < float("inf"):
        raise InputError(f"a clock of {clock:g} MHz; --clock takes a number above 0")
    if clock is not None and no_price:
        raise typer.BadParameter("--no-price shows no time: leave one of the two out", param_hint="--clock")
    machines = candidates(isa, set or (), overlay or ())
    models = read_quantized(networks, parse_shapes(shape or ()), calibration, seed, print_warnings)
    models = [replace(model, batch=batch) for model in models]
    found = compare_machines(models, machines, effort, not no_price, clock, progress)
    if csv is not None:
        write_output(csv, comparison_csv(found))
    if report(_value(found, by), json) and csv != ON_TERMINAL:
        _print(found, by)


def _value(found: Comparison, by: str | None) -> dict[str, Any]:
    from tilewright.simulator.run_profile import profile_json

    value = found.as_json()
    if by == "layer":
        for point, own in zip(found.points, value["points"], strict=True):
            if point.measured is not None:
                own["layers"] = [profile_json(layer) for layer in point.measured.layers()]
    return value


def _print(found: Comparison, by: str | None) -> None:
    from tilewright.codesign.compare.tables import comparison_tables, folded, notes
    from tilewright.terminal.tables import print_tables, print_text, terminal_width

    names = list(found.machines)
    width = terminal_width() - max(map(len, found.networks)) - 19
    columns = max(1, width // (2 + max(12, *(len(line) for name in names for line in folded(name).splitlines()))))
    print_tables(comparison_tables(found, columns))
    lines = notes(found)
    if lines:
        print()
    for line in lines:
        print_text(line)
    if by == "layer":
        for network in found.networks:
            _print_layers(found, network)


def _print_layers(found: Comparison, network: str) -> None:
    """The first machine against each other one: the layers that differ most."""
    from tilewright.terminal.tables import print_table

    first, *others = found.machines
    base = found.point(network, first)
    for name in others:
        other = found.point(network, name)
        if base.measured is None or other.measured is None:
            continue
        rows = list(layer_rows(other.measured.layers(), base.measured.layers()))
        shown = rows[:LAYERS]
        more = f"; {len(rows) - len(shown)} more differ less" if len(rows) > len(shown) else ""
        print()
        title = f"{network}: {name} against {first}, by layer{more}"
        if rows:
            print_table(title, ("layer", "cycles", "before", "difference", "mostly", "bound"), shown)
        else:
            print(f"{network}: no layer takes other cycles on {name} than on {first}")


def layer_rows(layers: Sequence[LayerProfile], before: Sequence[LayerProfile]) -> Iterator[Row]:
    """Layers whose cycles differ, the largest difference first: why, and what bounds them there and here."""
    from tilewright.profiles.against import by_layer
    from tilewright.profiles.layers import distinct_names

    own, others = (dict(zip(distinct_names(of), of, strict=True)) for of in (layers, before))
    for name, now, then, difference, mostly in by_layer(layers, before):
        if name in own and name in others and now != then:
            yield name, now, then, difference, _why(own[name], others[name]), _bounds(own[name], others[name])
        elif now != then:
            yield name, now, then, difference, mostly, (own.get(name) or others[name]).bound


def _why(layer: LayerProfile, other: LayerProfile) -> str:
    """The part of a layer's cycles that changed most, in the direction in which the layer did."""
    from tilewright.losses.causes import parts
    from tilewright.profiles.against import signed

    now, before = (parts(of.cycles, of.loss) for of in (layer, other))
    sign = 1 if layer.cycles > other.cycles else -1
    cause = max(now, key=lambda name: sign * (now[name] - before[name]))
    return f"{cause} {signed(round(now[cause] - before[cause]))}"


def _bounds(layer: LayerProfile, other: LayerProfile) -> str:
    return layer.bound if layer.bound == other.bound else f"{other.bound} → {layer.bound}"
