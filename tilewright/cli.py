"""The command line: `tilewright quantize, compile, run, profile, price, check, disassemble,
assemble, operators, isa, rtl`.

Exit codes: 0 done, 1 the input's fault, 2 wrong usage. Modules that take long to import are imported by the command
that needs them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.isa_commands import isa_app
from tilewright.options import (
    Calibration,
    Isa,
    Json,
    OptionalIsa,
    OptionalOutput,
    Output,
    ProgramFile,
    Seed,
    Set,
    Shape,
    Unchecked,
    read_text,
    report,
    write_or_print,
)
from tilewright.price_command import price_command
from tilewright.quantize_command import hurting_line, print_warnings, quantize_command, quantize_summary

if TYPE_CHECKING:
    from tilewright.api import Program
    from tilewright.compiler.importers.input_shapes import Shapes
    from tilewright.quantization.quantize import QuantizedModel

app = typer.Typer(
    name="tilewright",
    help="Make NPUs from one YAML file, and the programs that run on them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(isa_app, name="isa")
app.command("quantize")(quantize_command)
app.command("price")(price_command)

On = Annotated[str, typer.Option("--on", metavar="EXECUTOR", help="sim, rtl or interpreter.")]


def _print_version(is_wanted: bool) -> None:
    from tilewright.isa.binary.elf_writer import tool_version

    if is_wanted:
        typer.echo(f"tilewright {tool_version()}")
        raise typer.Exit()


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def _common(version: Version = False) -> None:
    """Options that stand before the command."""


def main() -> None:
    """Run the command line; errors of the input become one or two lines and exit code 1."""
    from tilewright.errors import USER_ERRORS, describe

    try:
        app()
    except BrokenPipeError:
        # The reader of a pipe went away; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except USER_ERRORS as error:
        typer.echo(f"error: {describe(error)}", err=True)
        sys.exit(1)


@app.command("compile")
def compile_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An ONNX or TFLite model, int8; or float, with --calibration.")
    ],
    isa: Isa,
    output: OptionalOutput = None,
    set: Set = None,  # noqa: A002
    shape: Shape = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    dump_after: Annotated[
        list[str] | None, typer.Option("--dump-after", metavar="PASS", help="Print the result of a pass.")
    ] = None,
    report_folder: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Write every pass's result and the profile here.")
    ] = None,
    no_host: Annotated[
        bool, typer.Option("--no-host", help="Refuse a model of which the machine cannot do every node.")
    ] = False,
    json: Json = None,
) -> None:
    """Compile an ONNX model for a machine; what the machine cannot do runs on the host."""
    from tilewright.api import Program
    from tilewright.compile_report import compile_summary, print_compile_summary, write_report
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.compiler.pipeline import Options, compile_model, pass_names
    from tilewright.isa.files.loader import load_machine
    from tilewright.progress import progress

    wanted = dump_after or []
    for name in wanted:
        if name not in pass_names():
            raise typer.BadParameter(
                f"no pass {name!r}; there are: {', '.join(pass_names())}", param_hint="--dump-after"
            )
    if output is None and not wanted and report_folder is None:
        raise typer.BadParameter("say where the program goes", param_hint="--output")
    options = Options(shapes=parse_shapes(shape or ()))
    machine = load_machine(isa, tuple(set or ()))
    quantized = None if calibration is None else _quantize(model, calibration, options.shapes, seed)
    stages: list[tuple[str, str]] = []
    keeps = bool(wanted or report_folder)
    start = perf_counter()
    with progress(f"compiling {model.name}"):
        keep = (lambda name, text: stages.append((name, text))) if keeps else None
        compile_ = compile_model if no_host else compile_partitioned
        program = Program(compile_(model if quantized is None else quantized.content, machine, options, keep))
        program.require_host()
    seconds = perf_counter() - start
    for name, text in stages:
        if name in wanted:
            typer.echo(text, nl=False)
    if report_folder is not None:
        write_report(report_folder, program, stages)
    if output is not None:
        program.save(output)
    summary = compile_summary(program, seconds)
    if quantized is not None:
        summary["quantization"] = quantize_summary(quantized)
    if report(summary, json) and not wanted:
        print_compile_summary(summary)
        if quantized is not None:
            typer.echo(f"\n{hurting_line(summary['quantization'])}")


def _quantize(model: Path, calibration: str, shapes: Shapes, seed: int) -> QuantizedModel:
    """A float model as int8; its warnings on standard error."""
    from tilewright.progress import progress
    from tilewright.quantization.quantize import quantize

    with progress(f"quantising {model.name}"):
        quantized = quantize(model, calibration, shapes=shapes, seed=seed)
    print_warnings(quantized)
    return quantized


@app.command()
def run(
    program: ProgramFile,
    input: Annotated[  # noqa: A002
        Path | None, typer.Option("--input", metavar="FILE", help="A .npz with arrays named as the model's inputs.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The .npz that gets the outputs.")
    ] = None,
    on: On = "sim",
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    unchecked: Unchecked = False,
    json: Json = None,
) -> None:
    """Run a program on inputs."""
    from tilewright.files import read_arrays, write_arrays
    from tilewright.progress import progress
    from tilewright.tables import print_table

    loaded = _load(program, isa, set)
    inputs = {} if input is None else read_arrays(input)
    with progress(f"running {program.name} on {on}"):
        result = loaded.run(inputs, on=on, unchecked=unchecked)
    if output is not None:
        write_arrays(output, result.outputs)
    cycles = None if result.profile is None else result.profile["cycles"]
    summary = {
        "on": on,
        "cycles": cycles,
        "outputs": [
            {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
            for name, array in result.outputs.items()
        ],
    }
    if report(summary, json):
        title = f"{program.name} on {on}" + (f": {cycles:,} cycles" if cycles is not None else "")
        rows = [(name, array.dtype.name, array.shape, _preview(array)) for name, array in result.outputs.items()]
        print_table(title, ("output", "dtype", "shape", "values"), rows)


def _preview(array: Any) -> str:
    shown = ", ".join(f"{value:.4g}" for value in array.reshape(-1)[:4].tolist())
    return shown + (", …" if array.size > 4 else "")


@app.command()
def profile(
    program: ProgramFile,
    on: Annotated[str, typer.Option("--on", metavar="EXECUTOR", help="sim or rtl.")] = "sim",
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    unchecked: Unchecked = False,
    json: Json = None,
) -> None:
    """Cycles, utilisation and DRAM bytes, by layer and by engine."""
    from tilewright.compile_report import print_host_nodes
    from tilewright.progress import progress
    from tilewright.tables import print_profile

    loaded = _load(program, isa, set)
    with progress(f"running {program.name} on {on}"):
        found = loaded.profile(on=on, unchecked=unchecked)
    if report(found, json):
        print_profile(found)
        print_host_nodes(found["host_nodes"])


@app.command()
def check(program: ProgramFile, isa: OptionalIsa = None, set: Set = None, json: Json = None) -> None:  # noqa: A002
    """Prove that a program stays in bounds, cannot deadlock or race, and reads nothing unwritten."""
    loaded = _load(program, isa, set)
    findings = loaded.check()
    value = [
        {"code": of.code.value, "instruction": of.instruction, "layer": of.layer, "message": of.message}
        for of in findings
    ]
    if report({"program": str(program), "findings": value}, json):
        for finding in findings:
            typer.echo(str(finding))
        count = sum(len(binary.instructions) for binary in loaded.programs)
        typer.echo(f"{program}: {count} instructions, {len(findings) or 'no'} finding{'s' * (len(findings) != 1)}")
    if findings:
        raise typer.Exit(1)


@app.command()
def disassemble(
    program: ProgramFile,
    output: OptionalOutput = None,
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """A program as assembly text, which `assemble` turns back into the same bytes.

    A network with nodes on the host gives the text of each of its programs, under a heading.
    """
    from tilewright.isa.assembly.disassembler import disassemble as to_text
    from tilewright.isa.assembly.disassembler import format_instruction

    loaded = _load(program, isa, set)
    binaries = loaded.programs
    if loaded.host_nodes:
        text = "\n".join(f"# program {number} of {len(binaries)}\n{to_text(b)}" for number, b in enumerate(binaries, 1))
    else:
        text = to_text(loaded.binary)
    lines = [format_instruction(instruction) for binary in binaries for instruction in binary.instructions]
    if report({"machine": loaded.machine.name, "instructions": lines}, json):
        write_or_print(text, output)


@app.command()
def assemble(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="An assembly text, such as prog.s.")],
    isa: Isa,
    output: Output,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """Assemble a text for a machine."""
    from tilewright.api import Program
    from tilewright.compile_report import region_sizes
    from tilewright.isa.assembly.assembler import assemble as to_program
    from tilewright.isa.files.loader import load_machine
    from tilewright.tables import print_table

    machine = load_machine(isa, tuple(set or ()))
    program = Program(to_program(read_text(source), machine, source.name))
    program.save(output)
    sizes = region_sizes(program)
    summary = {"machine": machine.name, "instructions": len(program.binary.instructions), "bytes": sizes}
    if report(summary, json):
        print_table(f"{output} for {machine.name}", ("region", "bytes"), sizes.items())


@app.command()
def operators(
    isa: Isa,
    operator: Annotated[
        str | None, typer.Argument(metavar="OPERATOR", help="One ONNX operator, such as Conv; all if left out.")
    ] = None,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """What a machine can do of ONNX's operators, and in which form; the rest runs on the host."""
    from tilewright.compiler.partition.support import support_table
    from tilewright.isa.files.loader import load_machine
    from tilewright.progress import progress
    from tilewright.tables import print_table

    machine = load_machine(isa, tuple(set or ()))
    with progress(f"asking the compiler for {machine.name}"):
        found = list(support_table(machine, operator or ""))
    if not found:
        raise typer.BadParameter(f"no form of {operator!r} is known", param_hint="OPERATOR")
    value = [
        {"operator": of.operator, "form": of.form, "where": of.place, "types": list(of.dtypes), "reason": of.reason}
        for of in found
    ]
    if report({"isa": machine.name, "operators": value}, json):
        rows = [(of.operator, of.form, of.place, of.reason) for of in found]
        print_table(f"Operators on {machine.name}", ("operator", "form", "where", "reason"), rows)


@app.command()
def rtl(isa: Isa, output: Output, set: Set = None, json: Json = None) -> None:  # noqa: A002
    """Write the machine's hardware as Verilog, with the host's register map in its head."""
    from tilewright.files import write_file
    from tilewright.isa.files.loader import load_machine
    from tilewright.progress import progress
    from tilewright.rtl.registers import register_map_markdown
    from tilewright.rtl.verilog import TOP, emit_verilog
    from tilewright.tables import print_table

    machine = load_machine(isa, tuple(set or ()))
    with progress(f"elaborating {machine.name}"):
        head = "".join(f"// {line}".rstrip() + "\n" for line in register_map_markdown(machine).splitlines())
        text = head + emit_verilog(machine)
    write_file(output, text)
    summary = {"machine": machine.name, "top": TOP, "lines": text.count("\n"), "bytes": len(text.encode())}
    if report(summary, json):
        print_table(f"{output}", ("machine", "top module", "lines", "bytes"), [tuple(summary.values())])


def _load(path: Path, isa: str | None, overrides: list[str] | None) -> Program:
    from tilewright.api import Program
    from tilewright.isa.files.loader import load_machine

    if isa is None:
        if overrides:
            raise typer.BadParameter("overrides change a machine: name it with --isa", param_hint="--set")
        return Program.load(path)
    return Program.load(path, load_machine(isa, tuple(overrides or ())))
