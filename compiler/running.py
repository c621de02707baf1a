"""How passes run: one after the other, each result held against its level's rules and handed on where that is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import Form, Source
from tilewright.compiler.options import Options
from tilewright.compiler.pass_list import PassList
from tilewright.compiler.passes import PLACED_BY, AnyPass, PassContext
from tilewright.compiler.rules import BrokenRule
from tilewright.compiler.search.finisher import Finisher, FinishingPasses
from tilewright.compiler.session import Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

Keep = Callable[[str, Form | Options], None]
"""Called with a pass's name and its result; with DECIDED and the `Options` with which the program fits."""

DECIDED = "options"
"""No pass has this name."""


def run(passes: Sequence[AnyPass], value: Form | Source, context: PassContext, keep: Keep | None = None) -> Form:
    """Run passes one after the other; the value is of no use once the context's blame collected an error."""
    for step in passes:
        if context.blame.faults:
            break
        value = step.apply(value, context)
        if context.options.verifies and not context.blame.faults:
            _require(step, value)
        if keep is not None:
            keep(step.name, value)
    assert not isinstance(value, str | Path | bytes), "no pass has read the model"
    return value


def _require(step: AnyPass, value: Form) -> None:
    """Raise CompileError if a pass gave what is not valid at its level."""
    try:
        step.after.require(value)
    except BrokenRule as broken:
        raise CompileError(f"pass {step.name}: {broken.place}", broken.fact, expected=broken.expected) from broken


def run_to_program(passes: Sequence[AnyPass], value: Form, context: PassContext, keep: Keep | None = None) -> Program:
    """Run the last passes, which make a program."""
    program = run(passes, value, context, keep)
    assert isinstance(program, Program)
    return program


def finisher_of(passes: PassList, machine: Machine, session: Session | None = None) -> Finisher:
    """Makes programs of tiles for a machine with passes after tiling, and knows what it has made."""
    plain = PassContext(machine, Options(), session=session or Session())

    def schedule(tiles: TileProgram, options: Options) -> TileProgram:
        scheduled = run(passes.step("schedule"), tiles, replace(plain, options=options))
        assert isinstance(scheduled, TileProgram)
        return scheduled

    def place(tiles: TileProgram, options: Options) -> PlacedTiles:
        placed = run(passes.step(PLACED_BY), tiles, replace(plain, options=options))
        assert isinstance(placed, PlacedTiles)
        return placed

    def wait(placed: PlacedTiles) -> OrderedTiles:
        ordered = run((*passes.step("waits"), *passes.step("pace")), placed, plain)
        assert isinstance(ordered, OrderedTiles)
        return ordered

    def settle(ordered: OrderedTiles, options: Options) -> OrderedTiles:
        settled = run(passes.step("ports"), ordered, replace(plain, options=options))
        assert isinstance(settled, OrderedTiles)
        return settled

    def emit(ordered: OrderedTiles) -> Program:
        return run_to_program(passes.step("emit"), ordered, plain)

    return Finisher(FinishingPasses(schedule, place, wait, settle, emit), plain.session)
