"""Which engine runs each operation, where a machine has several that can: work is divided among engines of a kind.

First it is spread over arrays that are twins, with memories of their own. Buffers in such memories belong together if
one operation names both, as those of a tile's sums do. All operations of such a group go to the array on which its
first product is estimated to start first. What is loaded and several groups read, such as the weights of several tiles
of pixels, is loaded once for each array that reads it.

Then the operations start one after the other, each on the engine that completes it first; of two that complete it at
once, on that of what it comes after, which then need not wait for another. How long each takes is estimated
(durations): longer on an engine of fewer lanes than on another. Of loads through one AXI port, the beats come one
after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from tilewright.compiler.emission.dependences import dependences, durations, fills
from tilewright.compiler.emission.stagger import staggered
from tilewright.compiler.templates.table import arrays_of, facet_of
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation, TileProgram, engines
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.twins import Twin
from tilewright.isa.templates.work import Work

FIRST = 0
"""The array that tiles are made for."""


def can_spread(program: TileProgram, arrays: int | None = None) -> bool:
    """Whether others of so many arrays can run some of the operations, in memories of their own."""
    twins = program.machine.first_twins(arrays)
    return any(operation.mnemonic in twin.mnemonics for twin in twins for operation in program.operations)


def spread(program: TileProgram, arrays: int | None = None) -> TileProgram:
    """The same work, each group of operations on one of the arrays, in an order for it; deterministic.

    `arrays`: so many at the most, the first of those that can; None: all.
    """
    found = program.of_order(_ArraySpread(arrays))
    if found is None:
        return program
    return found if found.remarks == program.remarks else found.with_remarks(program.remarks)


@dataclass(frozen=True, slots=True)
class _ArraySpread:
    """Spreads a program over so many arrays at the most; gives None if there is nothing to spread."""

    most: int | None

    def __call__(self, program: TileProgram) -> TileProgram | None:
        if not can_spread(program, self.most):
            return None
        twins = program.machine.first_twins(self.most)
        groups = _BufferGroups.of(program, twins)
        arrays = _arrays(program, groups, twins)
        return _staggered(_moved(program, groups, arrays, twins), twins) if any(arrays.values()) else None


@dataclass(frozen=True, slots=True)
class _BufferGroups:
    """What goes together; buffers that are loaded belong to no group, and nor do their loads (None in `of_operation`).

    `read`: the buffers of each group that are loaded. `pinned`: the groups with an operation that some array does not
    have.
    """

    of_buffer: Mapping[str, int]
    of_operation: Sequence[int | None]
    read: Mapping[int, frozenset[str]]
    pinned: frozenset[int]

    @staticmethod
    def of(program: TileProgram, twins: Sequence[Twin]) -> _BufferGroups:
        loaded, named = _loaded(program, twins), _named(program, twins)
        varying = [[name for name in names if name not in loaded] for names in named]
        of_buffer = _joined(varying)
        of_operation = [of_buffer[names[0]] if names else None for names in varying]
        read: dict[int, set[str]] = defaultdict(set)
        pinned = set()
        for operation, group, names in zip(program.operations, of_operation, named, strict=True):
            if group is not None:
                read[group] |= loaded.intersection(names)
                if not _is_everywhere(twins, operation.mnemonic):
                    pinned.add(group)
        of_group = {group: frozenset(names) for group, names in read.items()}
        return _BufferGroups(of_buffer, of_operation, of_group, frozenset(pinned))


def _named(program: TileProgram, twins: Sequence[Twin]) -> list[list[str]]:
    """Of each operation, the buffers in memories of which arrays have their own."""
    own = {name for twin in twins for name in twin.memories}
    placed = {name for name, buffer in program.buffers.items() if buffer.place in own}
    return [
        [base.buffer for base in operation.bases.values() if base.buffer in placed] for operation in program.operations
    ]


def _is_everywhere(twins: Sequence[Twin], mnemonic: str) -> bool:
    """Whether each array has an instruction, or the one in its place."""
    return all(mnemonic in twin.mnemonics for twin in twins)


def _loaded(program: TileProgram, twins: Sequence[Twin]) -> frozenset[str]:
    """The buffers to which nothing is written but what any array can load: a load may be repeated beside itself."""
    formats, written = program.machine.formats, (set[str](), set[str]())
    for operation in program.operations:
        format = formats[operation.mnemonic]
        is_load = fills(format.engine) and _is_everywhere(twins, operation.mnemonic)
        written[is_load].add(operation.bases[format.destination.name].buffer)
    computed, loaded = written
    return frozenset(loaded - computed)


def _joined(named: Sequence[Sequence[str]]) -> dict[str, int]:
    """The group of each name, as a number: one list is of one group, and lists that share a name are, too."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    for names in named:
        for name in names:
            above[root(name)] = root(names[0])
    numbers: dict[str, int] = {}
    return {name: numbers.setdefault(root(name), len(numbers)) for name in above}


def _arrays(program: TileProgram, groups: _BufferGroups, twins: Sequence[Twin]) -> dict[int, int]:
    """The array of each group: that on which its first product can start first; of several, one with what it reads."""
    on_arrays = _engines_of(program.machine, twins)
    before, taken = program.of_order(dependences), program.of_each(durations)
    free = dict.fromkeys(program.machine.engines.values(), 0)
    ends = [0] * len(program.operations)
    found: dict[int, int] = {}
    held: set[tuple[str, int]] = set()
    for index, (operation, engine) in enumerate(zip(program.operations, program.of_each(engines), strict=True)):
        comes_after, group = (*before.completed[index], *before.started[index]), groups.of_operation[index]
        ready = max((ends[earlier] for earlier in comes_after), default=0)
        choices = on_arrays.get(operation.mnemonic, ())
        if group is not None and choices:
            read = groups.read[group]
            if group not in found:
                turns = [
                    (max(free[choice], ready), sum((name, at) not in held for name in read), at)
                    for at, choice in enumerate(choices)
                ]
                found[group] = FIRST if group in groups.pinned else min(turns)[-1]
                held.update((name, found[group]) for name in read)
            engine = choices[found[group]]
        start = ready if fills(engine) else max(free[engine], ready)  # loads run ahead
        ends[index], free[engine] = start + taken[index].complete, start + taken[index].busy
    return found


def _engines_of(machine: Machine, twins: Sequence[Twin]) -> Mapping[str, Sequence[Engine]]:
    """The engine of each array, for the instructions that run on another one there."""
    found = {}
    for mnemonic, format in machine.formats.items():
        others = [machine.format(twin.mnemonics[mnemonic]).engine for twin in twins if mnemonic in twin.mnemonics]
        if len(others) == len(twins) and any(other is not format.engine for other in others):
            found[mnemonic] = (format.engine, *others)
    return found


def _moved(
    program: TileProgram, groups: _BufferGroups, arrays: Mapping[int, int], twins: Sequence[Twin]
) -> TileProgram:
    """The program with each group on its array, and what is loaded wherever that is read."""
    names = dict[tuple[str, int], str]()
    readers: dict[str, set[int]] = defaultdict(set)
    for group, read in groups.read.items():
        for name in read:
            readers[name].add(arrays.get(group, FIRST))
    buffers: dict[str, TileBuffer] = {}
    for name, buffer in program.buffers.items():
        own = groups.of_buffer.get(name)
        on_arrays = sorted(readers.get(name, {FIRST})) if own is None else [arrays.get(own, FIRST)]
        for at in on_arrays:
            place = buffer.place if at == FIRST else twins[at - 1].memories.get(buffer.place, buffer.place)
            names[name, at] = name if at == on_arrays[0] else _fresh(f"{name}.{place}", program.buffers)
            buffers[names[name, at]] = replace(buffer, name=names[name, at], place=place)

    def on(operation: TileOperation, at: int) -> TileOperation:
        bases = {
            operand: BufferAddress(names.get((base.buffer, at), base.buffer), base.offset)
            for operand, base in operation.bases.items()
        }
        mnemonic = operation.mnemonic if at == FIRST else twins[at - 1].mnemonics[operation.mnemonic]
        return operation._replace(mnemonic=mnemonic, bases=bases)

    operations: list[TileOperation] = []
    for operation, own in zip(program.operations, groups.of_operation, strict=True):
        target = operation.bases[program.machine.format(operation.mnemonic).destination.name].buffer
        on_arrays = sorted(readers.get(target, {FIRST})) if own is None else [arrays.get(own, FIRST)]
        operations += [on(operation, at) for at in on_arrays]
    return replace(program, buffers=buffers, operations=tuple(operations))


def _fresh(name: str, taken: Mapping[str, TileBuffer]) -> str:
    while name in taken:
        name += "_"
    return name


def _staggered(program: TileProgram, twins: Sequence[Twin]) -> TileProgram:
    """The program with products that follow each other on an array in the order of that array."""
    machine = program.machine
    idle = {twin.engine for twin in machine.twins} - {twin.engine for twin in twins}
    arrays = [array for array in arrays_of(machine) if array not in idle]
    runs = groupby(program.operations, lambda operation: (machine.format(operation.mnemonic).engine, operation.layer))
    operations = chain.from_iterable(
        staggered(machine, list(run), arrays.index(engine), len(arrays)) if engine in arrays else run
        for (engine, _), run in runs
    )
    return replace(program, operations=tuple(operations))


# -- engines that share memories ---------------------------------------------------------------------------------------


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
