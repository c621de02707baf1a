"""`tilewright compare-values`: a network's tensors on the machine beside ONNX Runtime's; and `run --dump-tensors`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import Calibration, Isa, Json, SameEffort, Seed, Set, Shape, report, write_output
from tilewright.errors import InputError
from tilewright.files.kinds import require_models

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.program import Program

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A quantised ONNX model; or a float one, with --calibration.")
]
Input = Annotated[
    Path, typer.Option("--input", metavar="FILE", help="A .npz file with an array for each input of the model.")
]


def compare_values_command(
    model: Model,
    isa: Isa,
    input: Input,  # noqa: A002
    set: Set = None,  # noqa: A002
    shape: Shape = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    effort: SameEffort = 1,
    json: Json = None,
) -> None:
    """Compare a model's values with ONNX Runtime's, layer by layer, down to the instruction behind a difference.

    Exit code 1 when a layer, on ONNX Runtime's own tensors, is more than one step away for each rounding that it does.
    """
    from tilewright.commands.quantize import quantize_on_the_way
    from tilewright.compiler.importers.import_onnx import read_onnx
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.compiler.options import Options
    from tilewright.files.arrays import read_arrays
    from tilewright.isa.files.loader import load_machine
    from tilewright.terminal.progress import progress
    from tilewright.values.compare import compare_values
    from tilewright.values.compiled import compile_keeping
    from tilewright.values.report import comparison_json, print_comparison

    require_models([model])
    machine = load_machine(isa, tuple(set or ()))
    options = Options(shapes=parse_shapes(shape or ()), effort=effort)
    with input.open("rb"):  # said before the model is compiled
        pass
    given = model if calibration is None else quantize_on_the_way(model, calibration, options.shapes, seed).content
    with progress(f"compiling {model.name}"):
        proto, _ = read_onnx(given, options.shapes)
        network, programs = compile_keeping(given, machine, options)
    inputs = read_arrays(input, network.require_inputs)
    with progress(f"running {model.name}"):
        comparison = compare_values(proto, network, programs, inputs)
    if report(comparison_json(comparison), json):
        print_comparison(comparison, model.name, machine.name)
    if comparison.first is not None:
        raise typer.Exit(1)


def dump_tensors(path: Path, program: Program, model: Path | None, inputs: Mapping[str, NDArray[Any]]) -> None:
    """Write the tensors of a run to a .npz file.

    The program does not say where they lie, so that its model is compiled again. Raises InputError without a model, or
    if another program comes of it.
    """
    from tilewright.compiler.options import Options
    from tilewright.files.arrays import archive
    from tilewright.terminal.progress import progress
    from tilewright.values.compare import machine_tensors
    from tilewright.values.compiled import compile_keeping

    if model is None:
        raise InputError("--dump-tensors takes the model, too: --model NET.onnx says which tensors there are")
    with progress(f"compiling {model.name} again"):
        network, programs = compile_keeping(model, program.machine, Options())
    if network.to_bytes() != program.to_bytes():
        raise InputError(
            f"{model}: another program comes of it; expected the model of this program, and one that was compiled with "
            "the default options by this version: compile it again"
        )
    write_output(path, archive(machine_tensors(network, programs, inputs)))
