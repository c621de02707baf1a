"""`tilewright explain`: what the compiler decided for a network or one of its layers, and what else it would cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.commands.options import Batch, Calibration, Json, SameEffort, Seed, Set, Shape, load_program, report
from tilewright.errors import InputError
from tilewright.files.kinds import is_program
from tilewright.isa.folders.scratch import scratch
from tilewright.terminal.completion import complete_machine

if TYPE_CHECKING:
    from tilewright.program import Program

Source = Annotated[
    Path, typer.Argument(metavar="MODEL|PROGRAM", help="An ONNX or TFLite model, or a compiled program.")
]
Model = Annotated[
    Path | None, typer.Option("--model", metavar="MODEL", help="What the program was compiled from, for the reasons.")
]
Layer = Annotated[str | None, typer.Argument(metavar="LAYER", help="One layer, with all that was compared for it.")]
Isa = Annotated[
    str | None,
    typer.Option(
        "--isa",
        metavar="MACHINE",
        autocompletion=complete_machine,
        help="A shipped machine's name, or a .yaml file. A program has its own.",
    ),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="KEY=VALUE",
        help="Compile again with a setting of the machine; default: twice the bus, twice the memory of activations.",
    ),
]


def explain_command(
    source: Source,
    layer: Layer = None,
    isa: Isa = None,
    model: Model = None,
    what_if: WhatIf = None,
    set: Set = None,  # noqa: A002
    shape: Shape = None,
    batch: Batch = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    effort: SameEffort = 1,
    json: Json = None,
) -> None:
    """Say why a network's program is as it is: tiles, order, instructions, what stays on chip, what is loaded again."""
    if layer is not None and what_if:
        raise typer.BadParameter("takes the whole network: leave LAYER out", param_hint="--what-if")
    question = ExplainRequest(layer, what_if, shape or [], batch, calibration, seed, effort, json)
    if not is_program(source):
        if model is not None:
            raise typer.BadParameter(f"{source} is a model already", param_hint="--model")
        if isa is None:
            raise typer.BadParameter("a model is compiled for a machine: name it", param_hint="--isa")
        _explain_model(source, isa, tuple(set or ()), question, None)
        return
    program = load_program(source, isa, set, None)
    if calibration is not None and model is None:
        raise typer.BadParameter("is about a float model: give it, too, with --model", param_hint="--calibration")
    if model is None:
        _explain_program(program, source.name, question)
        return
    with scratch() as folder:  # the machine that the program carries, as a file that takes settings
        machine = folder / "machine.yaml"
        machine.write_text(program.machine.text)
        _explain_model(model, str(machine), (), question, program)


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What is asked, of a model or a program."""

    layer: str | None
    what_if: list[str] | None
    shape: list[str]
    batch: int | None
    calibration: str | None
    seed: int
    effort: int
    json: Path | None


def _explain_program(program: Program, name: str, question: ExplainRequest) -> None:
    """What the program itself says. Raises InputError for a question that takes the model."""
    from tilewright.explain.program import explain_program, one_layer, print_program, print_program_layer

    if question.what_if:
        raise InputError("--what-if compiles again: give the model, too, with --model NET.onnx")
    found = explain_program(program)
    if question.layer is not None:
        of_layer = one_layer(found, question.layer)
        if report(of_layer, question.json):
            print_program_layer(of_layer)
    elif report(found, question.json):
        print_program(found, name)


def _explain_model(
    model: Path, isa: str, settings: tuple[str, ...], question: ExplainRequest, same: Program | None
) -> None:
    """Compile and explain; raises InputError if another program than `same` comes of it."""
    from tilewright.commands.quantize import quantize_on_the_way
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.compiler.options import Options
    from tilewright.explain.explain import explain_layer, explain_network
    from tilewright.explain.layers import planner_of
    from tilewright.explain.report import print_layer, print_network
    from tilewright.explain.reruns import usual_changes, what_if
    from tilewright.isa.files.loader import load_machine
    from tilewright.terminal.progress import progress
    from tilewright.values.compiled import compile_keeping

    machine = load_machine(isa, settings) if same is None else same.machine
    options = Options(shapes=parse_shapes(question.shape), batch=question.batch, effort=question.effort)
    given: Path | bytes = model
    if question.calibration is not None:
        given = quantize_on_the_way(model, question.calibration, options.shapes, question.seed).content
    with progress(f"compiling {model.name}"):
        network, programs = compile_keeping(given, machine, options)
    if same is not None and network.to_bytes() != same.to_bytes():
        raise InputError(
            f"{model}: another program comes of it; expected the model of this program, the --shape, --batch, "
            "--calibration and --effort that it was compiled with, and this version: compile it again"
        )
    if question.layer is not None:
        with progress("measuring other tiles"):
            found = explain_layer(network, programs, question.layer)
        if report(found, question.json):
            print_layer(found)
        return
    asked = question.what_if
    changes = asked if asked is not None else usual_changes(machine, planner_of(programs[0]).plan().memory)
    with progress("compiling for other machines"):
        measured = [what_if(given, isa, settings, change, options) for change in changes]
        found = explain_network(network, programs, measured)
    if report(found, question.json):
        print_network(found, model.name)
