"""A network compiled, with the forms that each of its programs had on the way through the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.compiler.columns.elements import joined_columns
from tilewright.compiler.emission.placed import OrderedTiles
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import pass_names
from tilewright.compiler.running import DECIDED
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.simplify.steps import SIMPLIFIED_BY
from tilewright.dumps.selection_report import BEFORE, BEFORE_SUMS
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program as Binary
from tilewright.program import Program


@dataclass(frozen=True)
class Compiled:
    """One program; `options` are those with which it fits. Its instructions are the operations of `ordered`.

    `joined` says of how many columns of a tensor one was made, where there are such tensors.
    """

    program: Binary
    plain_nests: NestProgram  # as the selection of instructions begins with them
    whole_nests: NestProgram  # as they are before any leaves its sums to its reader
    selection: Selection
    ordered: OrderedTiles
    options: Options
    joined: Mapping[str, int]


def compile_keeping(model: Path | bytes, machine: Machine, options: Options) -> tuple[Program, tuple[Compiled, ...]]:
    """The network and its programs in order. Raises CompileError, and InputError for nodes that nobody can run."""
    results: list[dict[str, Any]] = []

    def keep(name: str, value: Any) -> None:
        if name == pass_names()[0]:
            results.append({})
        results[-1][name] = value

    program = Program(compile_partitioned(model, machine, options, keep=keep))
    program.require_host()
    return program, tuple(_compiled(of) for of in results)


def _compiled(of: Mapping[str, Any]) -> Compiled:
    """A program from what each pass made."""
    joined = joined_columns(of[SIMPLIFIED_BY], of["columns"])
    ordered = next(of[name] for name in ("ports", "pace", "waits") if name in of)
    return Compiled(of["emit"], of[BEFORE], of[BEFORE_SUMS], of["select"], ordered, of[DECIDED], joined)
