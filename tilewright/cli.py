"""The command line: `tilewright quantize, compile, explain, run, evaluate, compare-values, profile, bundle, fpga,
price, compare, advise, require, specialise, explore, mcp, doctor, check, disassemble, assemble, operators, isa, rtl`.

Exit codes: 0 done, 1 the input's fault, 2 wrong usage, 130 interrupted. Modules that take long to import are
imported by the command that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.advise import advise_command
from tilewright.commands.bundle import bundle_command
from tilewright.commands.compare import compare_command
from tilewright.commands.compare_values import compare_values_command
from tilewright.commands.compile import compile_command
from tilewright.commands.doctor import doctor_command
from tilewright.commands.evaluate import evaluate_command
from tilewright.commands.explain import explain_command
from tilewright.commands.explore import explore_app
from tilewright.commands.fpga import fpga_command
from tilewright.commands.isa import isa_app
from tilewright.commands.mcp import mcp_command
from tilewright.commands.options import (
    Budget,
    Isa,
    Json,
    OptionalIsa,
    OptionalOutput,
    Output,
    OutputArrays,
    ProgramFile,
    Set,
    Unchecked,
    load_program,
    report,
    running,
    save_program,
    write_output,
    write_text,
)
from tilewright.commands.price import price_command
from tilewright.commands.profile import profile_command
from tilewright.commands.quantize import quantize_command
from tilewright.commands.require import require_command
from tilewright.commands.rtl import rtl_command
from tilewright.commands.specialise import specialise_command
from tilewright.errors import InputError
from tilewright.terminal.ending import run_to_end
from tilewright.terminal.plain_help import with_plain_help

if TYPE_CHECKING:
    from tilewright.program import Program, Result

app = typer.Typer(
    name="tilewright",
    help="Make NPUs from one YAML file, and the programs that run on them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(isa_app, name="isa")
app.add_typer(explore_app, name="explore")
app.command("quantize")(quantize_command)
app.command("compile")(compile_command)
app.command("explain")(explain_command)
app.command("evaluate")(evaluate_command)
app.command("compare-values")(compare_values_command)
app.command("price")(price_command)
app.command("profile")(profile_command)
app.command("bundle")(bundle_command)
app.command("fpga")(fpga_command)
app.command("compare")(compare_command)
app.command("advise")(advise_command)
app.command("require")(require_command)
app.command("specialise")(specialise_command)
app.command("mcp")(mcp_command)
app.command("doctor")(doctor_command)

COMPLETION = "_TILEWRIGHT_COMPLETE"
"""What a shell sets when it asks for completions, or a user for the script that makes the shell ask."""

On = Annotated[str, typer.Option("--on", metavar="EXECUTOR", help="sim, rtl or interpreter.")]


Waves = Annotated[
    Path | None,
    typer.Option("--waves", metavar="FILE", help="Write the hardware's signals over time, to a .vcd or .fst file."),
]
FromCycle = Annotated[
    int | None, typer.Option("--from-cycle", metavar="CYCLE", min=0, help="Where the waves begin; default: cycle 0.")
]
WavesLayer = Annotated[
    str | None, typer.Option("--layer", metavar="NAME", help="Only the waves of the cycles in which this layer works.")
]


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from tilewright.isa.binary.elf_writer import tool_version

        typer.echo(f"tilewright {tool_version()}")
        raise typer.Exit()


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def _common(version: Version = False) -> None:
    """Options that stand before the command."""


def main() -> None:
    """Run the command line; errors of the input become one or two lines and exit code 1, an interruption one line."""
    if COMPLETION in os.environ:
        from typer.completion import completion_init

        completion_init()
    run_to_end(partial(with_plain_help(typer.main.get_command(app)), complete_var=COMPLETION))


@app.command()
def run(
    program: ProgramFile,
    input: Annotated[  # noqa: A002
        Path | None,
        typer.Option("--input", metavar="FILE", help="A .npz file with an array for each input of the model."),
    ] = None,
    output: OutputArrays = None,
    dump_tensors: Annotated[
        Path | None,
        typer.Option("--dump-tensors", metavar="FILE", help="Write all tensors to this .npz file; takes --model."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="What the program was compiled from.")
    ] = None,
    on: On = "sim",
    waves: Waves = None,
    from_cycle: FromCycle = None,
    layer: WavesLayer = None,
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    unchecked: Unchecked = False,
    budget: Budget = None,
    json: Json = None,
) -> None:
    """Run a compiled program on arrays."""
    from tilewright.commands.compare_values import dump_tensors as dump
    from tilewright.files.arrays import archive, read_arrays
    from tilewright.terminal.tables import print_table

    _require_hardware(waves, on, from_cycle, layer)
    with running(program, on, isa, set, budget, waves is not None) as loaded:
        if input is None and loaded.inputs:
            raise InputError(f"a run takes the model's inputs: --input FILE.npz with {loaded.listed_inputs}")
        inputs = {} if input is None else read_arrays(input, loaded.require_inputs)
        if waves is not None or dump_tensors is not None:
            _require_one_run(loaded, inputs)
        if waves is None:
            result = loaded.run(inputs, on=on, unchecked=unchecked)
        else:
            result = _run_for_waves(loaded, inputs, waves, (from_cycle, layer), unchecked)
    if output is not None:
        write_output(output, archive(result.outputs))
    if dump_tensors is not None:
        dump(dump_tensors, loaded, model, inputs)
    summary = {
        "on": on,
        "cycles": result.cycles,
        "images": result.batches.images,
        "runs": result.batches.runs,
        "padding": result.batches.padding,
        "cycles_per_image": result.cycles_per_image,
        "outputs": [
            {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
            for name, array in result.outputs.items()
        ],
    }
    if report(summary, json, output):
        title = f"{program.name} on {on}{result.took}"
        rows = [(name, array.dtype.name, array.shape, _preview(array)) for name, array in result.outputs.items()]
        print_table(title, ("output", "dtype", "shape", "values"), rows)


def _require_hardware(waves: Path | None, on: str, from_cycle: int | None, layer: str | None) -> None:
    if waves is None and (from_cycle is not None or layer is not None):
        raise typer.BadParameter("say where the waves go", param_hint="--waves")
    if waves is not None and on != "rtl":
        raise typer.BadParameter("waves are of the hardware: add --on rtl", param_hint="--waves")
    if waves is not None and waves.suffix not in (".vcd", ".fst"):
        raise typer.BadParameter(
            f"waves are VCD, or FST, which is smaller: name a file like out.vcd or out.fst, not {waves.name!r}",
            param_hint="--waves",
        )


def _require_one_run(program: Program, inputs: Mapping[str, Any]) -> None:
    """Raise InputError for arrays of more or fewer images than a run takes."""
    batches = program.batches(inputs)
    if batches is not None:
        images = f"{batches.each} image{'s' * (batches.each != 1)}"
        raise InputError(f"--waves and --dump-tensors are of one run: give {images}, not {batches.images}")


def _run_for_waves(
    program: Program, inputs: Mapping[str, Any], path: Path, part: tuple[int | None, str | None], unchecked: bool
) -> Result:
    from tilewright.rtl.simulation.fst import fst_of
    from tilewright.waves import run_for_waves, waves_window

    program.require_allowed(unchecked)
    result, vcd = run_for_waves(program, inputs, waves_window(program, *part))
    write_output(path, fst_of(vcd) if path.suffix == ".fst" else vcd)
    return result


def _preview(array: Any) -> str:
    shown = ", ".join(f"{value:.4g}" for value in array.reshape(-1)[:4].tolist())
    return shown + (", …" if array.size > 4 else "")


@app.command()
def check(
    program: ProgramFile,
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    budget: Budget = None,
    json: Json = None,
) -> None:
    """Prove that a program stays in bounds, cannot deadlock or race, and reads nothing unwritten."""
    loaded = load_program(program, isa, set, budget)
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
    budget: Budget = None,
    json: Json = None,
) -> None:
    """Print a program as assembly text. `assemble` turns it back into the same bytes.

    For a network with nodes on the host, it prints the text of each program, under a heading.
    """
    from tilewright.isa.assembly.disassembler import disassemble as to_text
    from tilewright.isa.assembly.disassembler import format_instruction

    loaded = load_program(program, isa, set, budget)
    binaries = loaded.programs
    if loaded.host_nodes:
        text = "\n".join(f"# program {number} of {len(binaries)}\n{to_text(b)}" for number, b in enumerate(binaries, 1))
    else:
        text = to_text(loaded.binary)
    lines = [format_instruction(instruction) for binary in binaries for instruction in binary.instructions]
    write_text({"machine": loaded.machine.name, "instructions": lines}, text, output, json)


@app.command()
def assemble(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="An assembly text, such as prog.s.")],
    isa: Isa,
    output: Output,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """Assemble a text into a program for a machine."""
    from tilewright.commands.compile_report import region_sizes
    from tilewright.files.whole import read_text
    from tilewright.isa.assembly.assembler import assemble as to_program
    from tilewright.isa.files.loader import load_machine
    from tilewright.program import Program
    from tilewright.terminal.tables import print_table

    machine = load_machine(isa, tuple(set or ()))
    program = Program(to_program(read_text(source), machine, source.name))
    save_program(program, output)
    sizes = region_sizes(program)
    summary = {"machine": machine.name, "instructions": len(program.binary.instructions), "bytes": sizes}
    if report(summary, json, output):
        print_table(f"{output} for {machine.name}", ("region", "bytes"), sizes.items())


@app.command()
def operators(
    isa: Isa,
    operator: Annotated[
        str | None,
        typer.Argument(metavar="OPERATOR", help="One ONNX operator, such as Conv; all operators if left out."),
    ] = None,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """List the ONNX operators that a machine can run, and in which form. The others run on the host."""
    from tilewright.compiler.partition.support import support_table
    from tilewright.isa.files.loader import load_machine
    from tilewright.terminal.progress import progress
    from tilewright.terminal.tables import print_table

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


app.command("rtl")(rtl_command)
