"""A model where a program is expected: compiled for the machine that is named, or refused with the command for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.isa.program.budgets import Budgets
    from tilewright.program import Program


def compile_in_place(path: Path, kind: str, isa: str | None, overrides: Sequence[str], budgets: Budgets) -> Program:
    """The program of a model; says in a line on standard error that it was compiled.

    Raises InputError without a machine, and with what `compile` says of the model, which has options for that.
    """
    if isa is None:
        raise InputError(
            f"{path}: {kind}; expected a compiled program. Compile it first: {_command(path, 'MACHINE', overrides)}; "
            "or name the machine here, too: --isa MACHINE"
        )
    from tilewright.compiler.errors import CompileError
    from tilewright.compiler.options import Options
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.isa.files.loader import load_machine
    from tilewright.program import Program
    from tilewright.terminal.progress import progress

    machine = load_machine(isa, tuple(overrides))
    try:
        with progress(f"compiling {path.name}"):
            program = Program(compile_partitioned(path, machine, Options()), budgets, is_checked=True)
    except CompileError as error:
        hint = f"(compiling {path.name} for {machine.name}; `tilewright compile` has options)"
        raise InputError(f"{error}\n{hint}") from error
    program.require_host()
    print(f"compiled for {machine.name} first; to keep that: {_command(path, isa, overrides)}", file=sys.stderr)
    return program


def _command(path: Path, isa: str, overrides: Sequence[str]) -> str:
    settings = "".join(f" --set {setting}" for setting in overrides)
    return f"tilewright compile {path} --isa {isa}{settings} -o {path.stem}.npu"
