"""`tilewright explain`: what the compiler decided for a network or one of its layers, and what else it would cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.errors import InputError
from tilewright.options import Isa, Json, SameEffort, Set, Shape, report

ELF = b"\x7fELF"

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="An int8 ONNX or TFLite model.")]
Layer = Annotated[str | None, typer.Argument(metavar="[LAYER]", help="One layer, with all that was compared for it.")]
What = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="KEY=VALUE",
        help="Compile again with a setting of the machine; default: twice the bus, twice the memory of activations.",
    ),
]


def explain_command(
    model: Model,
    isa: Isa,
    layer: Layer = None,
    what: What = None,
    set: Set = None,  # noqa: A002
    shape: Shape = None,
    effort: SameEffort = 1,
    json: Json = None,
) -> None:
    """Say why a network's program is as it is: tiles, order, instructions, what stays on chip, what is loaded again."""
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.compiler.options import Options
    from tilewright.explain.explain import explain_layer, explain_network
    from tilewright.explain.layers import planner_of
    from tilewright.explain.report import print_layer, print_network
    from tilewright.explain.reruns import usual_changes, what_if
    from tilewright.isa.files.loader import load_machine
    from tilewright.progress import progress
    from tilewright.values.compiled import compile_keeping

    _require_model(model, isa)
    if layer is not None and what:
        raise typer.BadParameter("takes the whole network: leave LAYER out", param_hint="--what-if")
    machine = load_machine(isa, tuple(set or ()))
    options = Options(shapes=parse_shapes(shape or ()), effort=effort)
    with progress(f"compiling {model.name}"):
        network, programs = compile_keeping(model, machine, options)
    if layer is not None:
        with progress("measuring other tiles"):
            found = explain_layer(network, programs, layer)
        if report(found, json):
            print_layer(found)
        return
    changes = what if what is not None else usual_changes(machine, planner_of(programs[0]).plan().memory)
    with progress("compiling for other machines"):
        measured = [what_if(model, isa, tuple(set or ()), change, options) for change in changes]
        found = explain_network(network, programs, measured)
    if report(found, json):
        print_network(found, model.name)


def _require_model(path: Path, isa: str) -> None:
    """Raise InputError for a compiled program: it holds what was decided, not what it was compared with."""
    with path.open("rb") as file:
        start = file.read(len(ELF))
    if start == ELF:
        raise InputError(
            f"{path}: a compiled program, which does not say what its compiler compared; give the model that it was "
            f"compiled from: tilewright explain MODEL --isa {isa}"
        )
