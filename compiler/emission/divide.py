"""Which engine runs each operation, where a machine has several that can: work is divided among engines of a kind.

The operations start one after the other, each on the engine that completes it first; of two that complete it at once,
on that of what it comes after, which then need not wait for another. How long each takes is estimated (durations):
longer on an engine of fewer lanes than on another. Of loads through one AXI port, the beats come one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tilewright.compiler.emission.dependences import dependences, durations, fills
from tilewright.compiler.templates.table import facet_of
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.work import Work


def has_choice(program: TileProgram) -> bool:
    """Whether several engines of the machine can run some of the operations."""
    alike = program.machine.alike
    return any(len(alike[operation.mnemonic]) > 1 for operation in program.operations)


def groups(program: TileProgram) -> tuple[tuple[str, ...], ...]:
    """The engines that some operations have a choice of, by name: of each instruction, that of its file first."""
    alike = program.machine.alike
    found = dict.fromkeys(operation.mnemonic for operation in program.operations)
    of_each = dict.fromkeys(tuple(format.engine.name for format in alike[mnemonic]) for mnemonic in found)
    return tuple(names for names in of_each if len(names) > 1)


def divided(program: TileProgram, idle: Collection[str] = ()) -> TileProgram:
    """The same operations in the same order, each on one of the engines that have its instruction; deterministic.

    `idle`: engines that get nothing that another one can do.
    """
    if not has_choice(program):
        return program
    alike = _without(idle, program.machine)
    before, own, others = program.of_order(dependences), program.of_each(durations), _of_other_lanes(program)
    free, of_port = dict.fromkeys(program.machine.engines.values(), 0), defaultdict[int, int](int)
    chosen, ends = list(program.of_each(engines)), [0] * len(program.operations)
    mnemonics = []
    for index, operation in enumerate(program.operations):
        comes_after = (*before.completed[index], *before.started[index])
        ready = max((ends[earlier] for earlier in comes_after), default=0)
        previous = {chosen[earlier] for earlier in comes_after if ends[earlier] == ready}

        taken = {format.engine: others.get(format.engine, own)[index] for format in alike[operation.mnemonic]}

        def start(engine: Engine, ready: int = ready) -> int:
            through = of_port[engine.dma.port] if fills(engine) else 0
            return max(free[engine], through, ready)

        def turn(
            engine: Engine, previous: set[Engine] = previous, taken: Mapping[Engine, Work] = taken
        ) -> tuple[int, bool, int]:
            return start(engine) + taken[engine].complete, engine not in previous, engine.number

        format = min(alike[operation.mnemonic], key=lambda format: turn(format.engine))
        begin, work = start(format.engine), taken[format.engine]
        chosen[index], ends[index] = format.engine, begin + work.complete
        free[format.engine] = begin + work.busy
        if fills(format.engine):
            of_port[format.engine.dma.port] = begin + work.read_beats
        mnemonics.append(format.mnemonic)
    return with_mnemonics(program, mnemonics)


def _without(idle: Collection[str], machine: Machine) -> Mapping[str, Sequence[InstructionFormat]]:
    """For each instruction, those that are alike on engines that are not idle; itself where all of these are."""
    return {
        mnemonic: [of for of in group if of.engine.name not in idle] or [machine.format(mnemonic)]
        for mnemonic, group in machine.alike.items()
    }


def _of_other_lanes(program: TileProgram) -> dict[Engine, Sequence[Work]]:
    """For each engine that shares instructions with one of other lanes: what every operation takes that it can run."""
    alike = program.machine.alike
    found = {}
    for engine in dict.fromkeys(of.engine for group in alike.values() if _differ(group) for of in group):
        on_engine = {mnemonic: of.mnemonic for mnemonic, group in alike.items() for of in group if of.engine is engine}
        there = [on_engine.get(operation.mnemonic, operation.mnemonic) for operation in program.operations]
        found[engine] = with_mnemonics(program, there).of_each(durations)
    return found


def _differ(group: Sequence[InstructionFormat]) -> bool:
    """Whether instructions that are alike take longer on one of their engines."""
    return len({facet_of(format.engine.template).pace(format.engine) for format in group}) > 1


def with_mnemonics(program: TileProgram, mnemonics: Sequence[str]) -> TileProgram:
    """The same operations by other instructions, each alike its own; the program itself if all are its own."""
    if all(operation.mnemonic == own for operation, own in zip(program.operations, mnemonics, strict=True)):
        return program
    operations = [
        operation if operation.mnemonic == own else operation._replace(mnemonic=own)
        for operation, own in zip(program.operations, mnemonics, strict=True)
    ]
    return replace(program, operations=tuple(operations))
