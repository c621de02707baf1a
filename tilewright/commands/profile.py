"""`tilewright profile`: where the cycles of a program go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import (
    ON_TERMINAL,
    Budget,
    Json,
    OptionalIsa,
    ProgramFile,
    Set,
    Unchecked,
    report,
    running,
    write_output,
)
from tilewright.commands.price import print_energy, program_energy
from tilewright.errors import InputError
from tilewright.profiles.report import ORDERS, Order, View, layer_named, print_profile

if TYPE_CHECKING:
    from tilewright.host.segments import ProgramRun
    from tilewright.profiles.page.sections import Section
    from tilewright.profiles.what_if import Changed, Choice, WhatIf
    from tilewright.program import Program
    from tilewright.simulator.run_profile import RunProfile


On = Annotated[str, typer.Option("--on", metavar="EXECUTOR", help="sim or rtl.")]
Sort = Annotated[str, typer.Option("--sort", metavar="ORDER", help="The order of layers: program, cycles or loss.")]
Top = Annotated[
    int | None, typer.Option("--top", metavar="NUMBER", min=1, help="Show so many layers (instructions of one).")
]
OneLayer = Annotated[
    str | None, typer.Option("--layer", metavar="NAME", help="Only this layer, with its instructions.")
]
Against = Annotated[
    Path | None, typer.Option("--against", metavar="PROGRAM", help="Compare with another compiled program.")
]
Clock = Annotated[
    float | None, typer.Option("--clock", metavar="MHZ", help="The machine's clock, to print time beside cycles.")
]
Energy = Annotated[
    bool, typer.Option("--energy", help="Add the energy by layer; to price the machine takes a minute once.")
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Write a time line for Perfetto; with --layer, of that layer."),
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts, one file for any browser.")
]
Ideals = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="PART=IDEAL",
        help="The most that work on a part could bring: bus=inf, latency=0, array=inf, …; all is each by itself. "
        "Of a model, also a setting to compile it again with, such as memories.act.kib=64.",
    ),
]
Model = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL", help="What the program was compiled from: the page says its operators."),
]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a line a layer; - is standard output.")]


def profile_command(
    program: ProgramFile,
    on: On = "sim",
    sort: Sort = "program",
    top: Top = None,
    layer: OneLayer = None,
    against: Against = None,
    clock: Clock = None,
    energy: Energy = False,
    trace: Trace = None,
    html: Html = None,
    csv: Csv = None,
    what_if: Ideals = None,
    model: Model = None,
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    unchecked: Unchecked = False,
    budget: Budget = None,
    json: Json = None,
) -> None:
    """Show where the cycles go: by layer, by cause and by engine."""
    _require_one_stream(csv, html, json, trace)
    view = View(_order(sort), top, _clock(clock))
    _require_alone(what_if, against, layer)
    settings = [question for question in what_if or () if _is_setting(question)]
    source = _source(program, model)
    _require_model(program, settings)
    with running(program, on, isa, set, budget) as loaded:
        choices = _choices(loaded, [question for question in what_if or () if question not in settings])
        runs = loaded.runs(on, unchecked)
    found = loaded.profile_of(runs)
    energies = program_energy(loaded, program.name, view.clock_mhz) if energy else None
    notes = _notes(loaded, found, energies)
    bounds = _bounds(runs, found.cycles, choices)
    changes = _changes(program, isa, set, settings)
    position = None if layer is None else found.layers.index(layer_named(found, layer))
    other = None if against is None else _other(against, on, isa, set, budget, unchecked)
    if trace is not None:
        _write_trace(trace, runs, position)
    if html is not None:
        names = None if against is None else _names(program, against)
        sections = _sections(found, other, names, bounds, changes)
        _write_page(html, program.name, loaded, runs, view, notes, source, sections)
    if csv is not None:
        _write_csv(csv, found)
    is_free = report(_as_json(found, energies, bounds, changes), json)
    if not is_free or ON_TERMINAL in (csv, trace, html):
        return
    if against is not None and other is not None:
        _print_against(found, other, *_names(program, against))
    elif position is not None:
        _print_layer(found, runs, position, top)
    elif bounds is not None or changes:
        _print_what_if(bounds, changes, program, found)
    else:
        _print_profile(found, view, notes)
    if energies is not None:
        print_energy(energies)


def _other(
    program: Path, on: str, isa: str | None, overrides: list[str] | None, budget: list[str] | None, unchecked: bool
) -> RunProfile:
    """The profile of a program that another one is compared with."""
    with running(program, on, isa, overrides, budget) as beside:
        return beside.run_profile(on, unchecked)


def _is_setting(question: str) -> bool:
    """Whether it names a key of the machine, which has dots, and no part."""
    return "." in question.partition("=")[0]


def _source(program: Path, model: Path | None) -> Path | None:
    """The model of a program, where it is known."""
    from tilewright.files.kinds import model_kind

    is_model = model_kind(program) is not None
    if is_model and model is not None:
        raise typer.BadParameter(f"{program} is a model already", param_hint="--model")
    return program if is_model else model


def _require_model(program: Path, settings: Sequence[str]) -> None:
    from tilewright.files.kinds import model_kind

    if settings and model_kind(program) is None:
        raise InputError(
            f"--what-if {settings[0]} compiles again: give the model in place of the program, "
            "tilewright profile NET.onnx --isa MACHINE"
        )


def _changes(model: Path, isa: str | None, overrides: list[str] | None, settings: Sequence[str]) -> list[Changed]:
    """The network, compiled anew with each setting."""
    if not settings:
        return []
    from tilewright.compiler.options import Options
    from tilewright.explain.reruns import what_if
    from tilewright.terminal.progress import progress

    assert isa is not None  # without, the model was refused
    with progress("compiling for other machines"):
        return [what_if(model, isa, overrides or (), setting, Options()) for setting in settings]


def _sections(
    profile: RunProfile,
    other: RunProfile | None,
    names: tuple[str, str] | None,
    bounds: WhatIf | None,
    changes: Sequence[Changed],
) -> list[Section]:
    """What else was asked for, for the page."""
    from tilewright.profiles.page.sections import compared, what_if_section

    found = []
    if other is not None and names is not None:
        found.append(compared(profile, other, *names))
    if bounds is not None or changes:
        found.append(what_if_section(bounds, changes, profile.cycles))
    return found


def _as_json(
    found: RunProfile, energies: dict[str, Any] | None, bounds: WhatIf | None, changes: Sequence[Changed]
) -> dict[str, Any]:
    """What `report` takes: the profile, with energies, bounds and changes where they are asked for."""
    from tilewright.simulator.run_profile import profile_json

    value = profile_json(found)
    if energies is not None:
        value["energy"] = energies
    if bounds is not None:
        value["what_if"] = bounds.as_json()
    if changes:
        value["changes"] = [asdict(change) for change in changes]
    return value


def _require_one_stream(*files: Path | None) -> None:
    if files.count(ON_TERMINAL) > 1:
        raise typer.BadParameter(
            "only one of --csv, --html, --json and --trace can be standard output: give the others files"
        )


def _require_alone(what_if: list[str] | None, against: Path | None, layer: str | None) -> None:
    if what_if and (against is not None or layer is not None):
        raise typer.BadParameter("--what-if is about one whole program: leave out --against and --layer")


def _choices(program: Program, questions: Sequence[str]) -> list[Choice]:
    """The ideal parts that are asked for; without any, what they are is not loaded."""
    if not questions:
        return []
    from tilewright.profiles.what_if import choices_of

    return choices_of(program.machine, questions)


def _bounds(runs: Sequence[ProgramRun], cycles: int, choices: Sequence[Choice]) -> WhatIf | None:
    if not choices:
        return None
    from tilewright.profiles.what_if import what_if

    return what_if([run.program for run in runs], cycles, choices)


def _print_what_if(bounds: WhatIf | None, changes: Sequence[Changed], program: Path, found: RunProfile) -> None:
    from tilewright.explain.report import print_changes
    from tilewright.profiles.what_if import print_what_if

    if bounds is not None:
        print_what_if(bounds, program.name, found.isa, found.images)
    if changes:
        print("\n" * (bounds is not None), end="")
        print_changes([asdict(change) for change in changes], found.cycles, found.images)


def _order(sort: str) -> Order:
    for order in ORDERS:
        if order == sort:
            return order
    raise InputError(f"no order {sort!r}; --sort takes: {', '.join(ORDERS)}")


def _clock(clock: float | None) -> float | None:
    if clock is not None and not 0 < clock < float("inf"):
        raise InputError(f"a clock of {clock:g} MHz; --clock takes a number above 0")
    return clock


def _write_trace(path: Path, runs: Sequence[ProgramRun], layer: int | None) -> None:
    from tilewright.profiles.trace import trace_bytes

    write_output(path, trace_bytes(runs, layer))


def _notes(loaded: Program, profile: RunProfile, energies: dict[str, Any] | None) -> tuple[str, ...]:
    """The power, if energies are known, and what shipped machines have for layers that hardly use the array."""
    from tilewright.codesign.price.report import power_line
    from tilewright.profiles.shipped import shipped_advice

    power = () if energies is None else (power_line(energies),)
    return (*power, *shipped_advice(profile, loaded.machine))


def _write_page(
    path: Path,
    name: str,
    loaded: Program,
    runs: Sequence[ProgramRun],
    view: View,
    notes: Sequence[str],
    source: Path | None,
    sections: Sequence[Section],
) -> None:
    from tilewright.profiles.page.hosts import host_parts
    from tilewright.profiles.page.operators import operators_of
    from tilewright.profiles.page.page import page

    profile = loaded.profile_of(runs)
    operators = () if source is None else operators_of(source, profile.layers)
    hosts = host_parts(loaded.network)
    write_output(path, page(f"{name} on {profile.isa}", profile, runs, view, hosts, notes, operators, sections))


def _write_csv(path: Path, profile: RunProfile) -> None:
    from tilewright.profiles.csv import layers_csv

    write_output(path, layers_csv(profile.layers))


def _names(program: Path, against: Path) -> tuple[str, str]:
    """The names of two files; their paths where the names are equal."""
    return (program.name, against.name) if program.name != against.name else (str(program), str(against))


def _print_against(profile: RunProfile, other: RunProfile, name: str, other_name: str) -> None:
    from tilewright.profiles.against import print_against

    print_against(profile, other, name, other_name)


def _print_layer(profile: RunProfile, runs: Sequence[ProgramRun], position: int, top: int | None) -> None:
    from tilewright.profiles.one_layer import instructions_of_layer, print_layer, run_of_layer

    timed = instructions_of_layer(runs, position)
    print_layer(profile.layers[position], run_of_layer(runs, position)[0].program, timed, top)


def _print_profile(profile: RunProfile, view: View, notes: Sequence[str]) -> None:
    from tilewright.commands.compile_report import print_host_nodes

    print_profile(profile, view, notes)
    print_host_nodes(profile.host_nodes)
