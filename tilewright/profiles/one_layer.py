"""One layer of a program: its cycles by cause, and its instructions with the times of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.host.segments import ProgramRun
from tilewright.isa.assembly.disassembler import format_instruction
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.program.program import Program
from tilewright.losses.causes import MEANINGS, PRODUCTS, parts
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.terminal.tables import percent, print_table

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import LayerProfile

SHOWN_INSTRUCTIONS = 24
"""As many are listed unless more are asked for."""


@dataclass(frozen=True, slots=True)
class TimedInstruction:
    """An instruction of a run. It starts in cycle `started`; what it did is visible from cycle `retired` on.

    `held_by` is the instruction that it waited for and that was done in the cycle of its start; None if there is none.
    """

    index: int
    instruction: Instruction
    started: int
    retired: int
    held_by: int | None


def instructions_of_layer(runs: Sequence[ProgramRun], layer_position: int) -> list[TimedInstruction]:
    """The instructions that serve a layer, counted over all programs, in program order."""
    run, position = run_of_layer(runs, layer_position)
    return list(timed_instructions(run, instructions_of_layers(run.program, layers_of(run.program))[position]))


def run_of_layer(runs: Sequence[ProgramRun], layer_position: int) -> tuple[ProgramRun, int]:
    """The program with a layer that is counted over all programs, and its position there."""
    for run in runs:
        count = len(layers_of(run.program))
        if layer_position < count:
            return run, layer_position
        layer_position -= count
    raise IndexError(layer_position)


def timed_instructions(run: ProgramRun, indices: Sequence[int]) -> Iterator[TimedInstruction]:
    """These instructions of a program, with their times."""
    instructions, counters = run.program.instructions, run.counters
    engines = run.program.machine.engines
    by_engine = {engine: [i for i, each in enumerate(instructions) if each.engine.name == engine] for engine in engines}
    for index in indices:
        started = int(counters.started[index])
        waited = [
            by_engine[engine][count - 1]
            for engine, count in instructions[index].waits.items()
            if 0 < count <= len(by_engine[engine])
        ]
        held_by = next((other for other in waited if int(counters.retired[other]) == started), None)
        yield TimedInstruction(index, instructions[index], started, int(counters.retired[index]), held_by)


def print_layer(layer: LayerProfile, program: Program, timed: Sequence[TimedInstruction], top: int | None) -> None:
    """The layer's cycles by cause, the bounds of its own instructions, its instructions in all, then one by one."""
    cycles = layer.cycles
    title = f"{layer.name}: {cycles:,} cycles, {percent(layer.utilisation)} of the array"
    rows = [
        (cause, round(part), _share(part, cycles), MEANINGS[cause])
        for cause, part in parts(cycles, layer.loss).items()
        if cause == PRODUCTS or round(part)
    ]
    print_table(title, ("cause", "cycles", "share", ""), rows)
    print()
    bounds = layer.bound_cycles.items()
    print_table("At the least, if nothing else limited it", ("resource", "cycles"), bounds)
    print()
    print_table(
        "Instructions", ("instruction", "engine", "count", "cycles in flight", "held up by"), _kinds(program, timed)
    )
    print()
    shown = timed[: SHOWN_INSTRUCTIONS if top is None else top]
    more = "" if len(shown) == len(timed) else f", the first {len(shown)} of {len(timed)}: --top shows more"
    print_table(
        f"In program order{more}",
        ("number", "start", "end", "after", "instruction"),
        [
            (one.index, one.started, one.retired, _number(one.held_by), format_instruction(one.instruction))
            for one in shown
        ],
    )


def _number(held_by: int | None) -> int | str:
    return "" if held_by is None else held_by


def _share(part: float, cycles: int) -> str:
    return percent(part / cycles) if cycles else ""


def _kinds(program: Program, timed: Sequence[TimedInstruction]) -> list[tuple[str, str, int, int, str]]:
    """Instructions by mnemonic: how many, the cycles they are in flight, and how often another engine held them up."""
    rows = []
    for mnemonic in dict.fromkeys(one.instruction.mnemonic for one in timed):
        own = [one for one in timed if one.instruction.mnemonic == mnemonic]
        engines = [program.instructions[one.held_by].engine.name for one in own if one.held_by is not None]
        held = {engine: engines.count(engine) for engine in program.machine.engines}
        waits = ", ".join(f"{engine} {count}" for engine, count in held.items() if count)
        rows.append(
            (mnemonic, own[0].instruction.engine.name, len(own), sum(o.retired - o.started for o in own), waits)
        )
    return rows
