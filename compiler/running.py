"""Which passes run, in which order, and how: all as the compiler has them, or those of a user's list.

They run one after the other. Each result is held against its level's rules, and handed on where that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import Form, Source
from tilewright.compiler.options import Options
from tilewright.compiler.passes import MACHINE_FROM, PLACED_BY, SIZED_FROM, AnyPass, PassContext, in_order
from tilewright.compiler.rules import BrokenRule
from tilewright.compiler.search.finisher import Finisher, FinishingPasses
from tilewright.compiler.session import Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

LEFT_OUT = "-"
"""What begins the name of a pass that is left out."""


@dataclass(frozen=True)
class PassList:
    """Passes in the order in which they run. A position is one among them."""

    passes: tuple[AnyPass, ...]
    sized: Collection[str]  # passes that sizes of memories matter to

    @staticmethod
    def standard(passes: tuple[AnyPass, ...]) -> PassList:
        """All passes in their usual order."""
        names = [step.name for step in passes]
        return PassList(passes, names[names.index(SIZED_FROM) :])

    def names(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.passes)

    def named(self, name: str) -> AnyPass:
        """The pass of a name; raises CompileError when there is none."""
        return self.passes[self.position(name)]

    def position(self, name: str) -> int:
        """Where a pass is; raises CompileError when it is not there."""
        names = self.names()
        if name not in names:
            raise CompileError(fact=f"there is no pass {name!r}", expected=f"one of {', '.join(names)}")
        return names.index(name)

    def step(self, name: str) -> tuple[AnyPass, ...]:
        """The pass of a name alone; nothing if it is left out."""
        return tuple(step for step in self.passes if step.name == name)

    def sized_from(self) -> int:
        """The position of the first pass that sizes of memories matter to."""
        return next(position for position, step in enumerate(self.passes) if step.name in self.sized)

    def after(self, wanted: Collection[str]) -> int:
        """The position behind the last of some passes."""
        return 1 + max(position for position, step in enumerate(self.passes) if step.name in wanted)


def chosen(text: str, standard: PassList) -> tuple[str, ...]:
    """The names of a user's list: all in their order, `import,forms,simplify,…`, or those left out, `-fuse,-columns`.

    Raises CompileError for an unknown name, and for a list of both kinds.
    """
    words = [word.strip() for word in text.split(",")]
    left_out = [word.removeprefix(LEFT_OUT) for word in words if word.startswith(LEFT_OUT)]
    for name in left_out or words:
        standard.position(name)
    if not left_out:
        return tuple(words)
    if len(left_out) < len(words):
        raise CompileError(
            fact=f"the list {text!r} has names with and without {LEFT_OUT!r}", expected="one or the other"
        )
    return tuple(name for name in standard.names() if name not in left_out)


def listed(names: Sequence[str], standard: PassList) -> PassList:
    """The passes of these names in this order; raises CompileError where they cannot run so."""
    passes = tuple(standard.named(name) for name in names)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise CompileError(f"pass {repeated[0]!r}", "is listed twice", expected="each pass once at most")
    first = standard.names()[: standard.position(MACHINE_FROM)]
    if tuple(names[: len(first)]) != first:
        reason = "what they make is cut into parts for the machine and the host"
        raise CompileError(
            fact=f"the list begins with {', '.join(names[: len(first)])}", expected=f"{', '.join(first)}: {reason}"
        )
    last = standard.names()[-1]
    if names[-1] != last:
        raise CompileError(fact=f"the list ends with {names[-1]}", expected=f"{last}, which makes the program")
    return PassList(in_order(passes), standard.sized)


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
