"""`tilewright compile`: a model, or the text of a pass, to a program; and the texts of passes on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import (
    Batch,
    Calibration,
    Isa,
    Json,
    OptionalOutput,
    Seed,
    Set,
    Shape,
    is_taken,
    report,
    save_program,
)
from tilewright.commands.quantize import hurting_line, quantize_on_the_way, quantize_summary
from tilewright.errors import InputError
from tilewright.files.kinds import require_models

if TYPE_CHECKING:
    from tilewright.commands.asked_dumps import AskedDumps
    from tilewright.compiler.options import Options
    from tilewright.compiler.pipeline import Dump
    from tilewright.isa.machine.machine import Machine
    from tilewright.program import Program
    from tilewright.quantization.quantize import QuantizedModel

Model = Annotated[
    Path | None,
    typer.Argument(metavar="MODEL", help="A quantised ONNX or TFLite model; or a float one, with --calibration."),
]
DumpAfter = Annotated[
    list[str] | None, typer.Option("--dump-after", metavar="PASS", help="Print the result of a pass.")
]
DumpDir = Annotated[
    Path | None, typer.Option("--dump-dir", metavar="DIR", help="Write the result of every pass to a file in DIR.")
]
ResumeFrom = Annotated[
    Path | None,
    typer.Option("--resume-from", metavar="FILE", help="Continue from such a file, even if edited; takes no MODEL."),
]
ReportFolder = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="Like --dump-dir, and also write the profile as JSON.")
]
Effort = Annotated[
    int,
    typer.Option(
        "--effort",
        metavar="LEVEL",
        min=0,
        max=2,
        help="How hard to search for a faster program: 0 takes the first choice, 2 takes minutes.",
    ),
]
Tuning = Annotated[
    Path | None,
    typer.Option(
        "--tuning",
        metavar="FILE",
        help="Use what searches found, from FILE, and add what it lacks; default: the cache.",
    ),
]
FailOnMiss = Annotated[
    bool, typer.Option("--fail-on-miss", help="Refuse to search: all must be in the file of --tuning, or in the cache.")
]
ExplainSelection = Annotated[
    bool,
    typer.Option("--explain-selection", help="Print the instructions compared for each layer, and what they cost."),
]
Constants = Annotated[bool, typer.Option("--constants", help="Dump long constants too, as --resume-from needs them.")]
DumpLayer = Annotated[str | None, typer.Option("--layer", metavar="NAME", help="Dump only what belongs to this layer.")]
Verify = Annotated[bool, typer.Option("--verify", help="Hold the result of each pass against the rules of its level.")]
Passes = Annotated[
    str | None,
    typer.Option(
        "--passes",
        metavar="LIST",
        help="The passes that run, in this order: import,forms,…; or those left out: -fuse,-columns. Each result is held against its level's rules.",  # noqa: E501
    ),
]
NoHost = Annotated[bool, typer.Option("--no-host", help="Refuse a model if the machine cannot run all of its nodes.")]


def compile_command(
    isa: Isa,
    model: Model = None,
    output: OptionalOutput = None,
    set: Set = None,  # noqa: A002
    shape: Shape = None,
    batch: Batch = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    dump_after: DumpAfter = None,
    dump_dir: DumpDir = None,
    layer: DumpLayer = None,
    constants: Constants = False,
    resume_from: ResumeFrom = None,
    report_folder: ReportFolder = None,
    explain_selection: ExplainSelection = False,
    no_host: NoHost = False,
    passes: Passes = None,
    verify: Verify = False,
    effort: Effort = 1,
    tuning: Tuning = None,
    fail_on_miss: FailOnMiss = False,
    json: Json = None,
) -> None:
    """Compile a model for a machine. Operators that the machine cannot run are left to the host."""
    from tilewright.terminal.progress import progress

    with progress("loading the compiler"):
        from tilewright.commands.asked_dumps import AskedDumps
        from tilewright.compiler.importers.input_shapes import parse_shapes
        from tilewright.compiler.options import Options
        from tilewright.dumps.files import DumpView
        from tilewright.isa.files.loader import load_machine

    names, view = _passes(passes, explain_selection), DumpView(constants, layer)
    asked = AskedDumps(dump_after or [], dump_dir, report_folder, explain_selection, view, names)
    _require_passes(asked.after, names)
    _require_source(model, resume_from, {"--shape": shape, "--batch": batch, "--calibration": calibration})
    if model is not None:
        require_models([model])
    if output is None and asked.dump is None:
        raise typer.BadParameter("say where the program goes", param_hint="--output")
    shapes, verifies = parse_shapes(shape or ()), verify or passes is not None
    options = Options(
        shapes=shapes, batch=batch, effort=effort, tuning=tuning, fails_on_miss=fail_on_miss, verifies=verifies,
        passes=names,
    )  # fmt: skip
    machine = load_machine(isa, tuple(set or ()))
    asked.require_folders()
    quantized = None if calibration is None or model is None else quantize_on_the_way(model, calibration, shapes, seed)
    start = perf_counter()
    program = _made(model, quantized, resume_from, machine, options, no_host, asked)
    seconds = perf_counter() - start
    typer.echo(asked.printed(program), nl=False, err=is_taken(output, json))
    asked.write(program)
    if output is not None:
        save_program(program, output)
    summary = _summary(program, seconds, quantized, asked)
    if report(summary, json, output) and not asked.after:
        _print_summary(summary)


def _summary(program: Program, seconds: float, quantized: QuantizedModel | None, asked: AskedDumps) -> dict[str, Any]:
    """What `report` takes: of a model quantised on the way its signal-to-noise, and the selection if that is asked."""
    from tilewright.commands.compile_report import compile_summary
    from tilewright.dumps.selection_report import columns_summary, instructions_summary, selection_summary

    summary = compile_summary(program, seconds)
    if quantized is not None:
        summary["quantization"] = quantize_summary(quantized)
    if asked.explains:
        summary["selection"] = selection_summary(asked.dumps.programs, program.machine)
        summary["instructions"] = instructions_summary(asked.dumps.programs, program.machine)
        summary["columns"] = columns_summary(asked.dumps.programs, program.machine)
    return summary


def _print_summary(summary: Mapping[str, Any]) -> None:
    from tilewright.commands.compile_report import print_compile_summary
    from tilewright.dumps.selection_report import print_columns, print_instructions, print_selection

    print_compile_summary(summary)
    if "selection" in summary:
        typer.echo()
        if summary["columns"]:
            print_columns(summary["columns"])
            typer.echo()
        print_selection(summary["selection"])
        typer.echo()
        print_instructions(summary["instructions"])
    if "quantization" in summary:
        typer.echo(f"\n{hurting_line(summary['quantization'])}")


# -- what may stand together -------------------------------------------------------------------------------------------


def _passes(text: str | None, explain_selection: bool) -> tuple[str, ...]:
    """The names of a list of passes; none if no list is given. Raises CompileError where they cannot run so."""
    from tilewright.compiler.pipeline import chosen_passes

    if text is None:
        return ()
    if explain_selection:
        raise typer.BadParameter("compares the passes as they are, without --passes", param_hint="--explain-selection")
    return chosen_passes(text)


def _require_passes(wanted: Sequence[str], names: tuple[str, ...]) -> None:
    from tilewright.compiler.pipeline import pass_names

    known = names or pass_names()
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"no pass {name!r}; there are: {', '.join(known)}", param_hint="--dump-after")


def _require_source(model: Path | None, resume_from: Path | None, about_model: Mapping[str, object]) -> None:
    """Refuse a model and a text together, neither of them, and options about models with a text."""
    if model is None and resume_from is None:
        raise typer.BadParameter("give a model, or a text with --resume-from", param_hint="MODEL")
    if resume_from is None:
        return
    for name, value in {"MODEL": model, **about_model}.items():
        if value:
            raise typer.BadParameter("a text of --resume-from says all about the model itself", param_hint=name)


# -- compiling ---------------------------------------------------------------------------------------------------------


def _made(
    model: Path | None,
    quantized: QuantizedModel | None,
    resume_from: Path | None,
    machine: Machine,
    options: Options,
    no_host: bool,
    asked: AskedDumps,
) -> Program:
    """The program of a model, or of the text of a pass's result: one of them is given."""
    if model is not None:
        return _compile(model, quantized, machine, options, no_host, asked.dump)
    assert resume_from is not None
    return _resume(resume_from, machine, options, asked)


def _compile(
    model: Path, quantized: QuantizedModel | None, machine: Machine, options: Options, no_host: bool, dump: Dump | None
) -> Program:
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.program import Program
    from tilewright.terminal.progress import progress

    with progress(f"compiling {model.name}"):
        content = model if quantized is None else quantized.content
        program = Program(compile_partitioned(content, machine, options, dump, host=not no_host))
        program.require_host()
    return program


def _resume(path: Path, machine: Machine, options: Options, asked: AskedDumps) -> Program:
    """Continue from a file; raises InputError for --dump-after a pass that has already run."""
    from tilewright.compiler.pipeline import passes_of, resume
    from tilewright.dumps.files import read_dump
    from tilewright.program import Program
    from tilewright.terminal.progress import progress

    after, text = read_dump(path, machine)
    passes = passes_of(options.passes)
    begun = passes.position(after)
    for name in asked.after:
        if passes.position(name) <= begun:
            raise InputError(f"{path}: has the result of {after}, and {name} is not run after that; see --dump-after")
    with progress(f"going on after {after}"):
        return Program(resume(after, text, machine, options, asked.dump))
