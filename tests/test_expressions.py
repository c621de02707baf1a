"""Random expressions of the statement language give the same in every consumer.

The interpreter's evaluator, the array code, the vector datapath, and a reading of the text as plain fractions. The
datapath is evaluated as the netlist that its Verilog is printed from, and a part of it in Amaranth's own simulator.

Inputs: each expression gets `GROUPS` groups of `LENGTH` iterations in `LANES` lanes. Two in five of the values are an
end of their type's range, 0, 1 or -1, three in ten lie within 20 of 0, the others anywhere in the range.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from tests.engines import vector_of
from tests.netlist_trace import trace_outputs
from tests.random_expressions import (
    DESTINATION,
    IMMEDIATES,
    SOURCES,
    random_immediates,
    random_sources,
    random_statements,
)
from tests.rings import long_beyond
from tests.rtl.statements import Evaluator
from tests.rtl.test_datapath import pack_immediates
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.numeric import Rounding, parse_integer_type, wrap
from tilewright.isa.language.operations import Op
from tilewright.isa.language.statement import Statement
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import format_stages
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.datapath_widths import source_bits
from tilewright.simulator import interpreter
from tilewright.simulator.interpreter import evaluate
from tilewright.simulator.statement_arrays import ArrayStatement, StatementFacts, leaves

Lane = Mapping[tuple[str, str], int]
"""The sources of one lane in one iteration."""

GROUPS = 2
LENGTH = 3
"""Each statement is evaluated for so many groups of so many iterations over which a reduction goes."""

REDUCE_BITS = 2
REDUCE_TRIPS = 1 << REDUCE_BITS
"""The most iterations that a reduction can go over."""

LANES = 2
BATCH = 120
"""Instructions of a machine whose datapath is simulated."""

Groups = list[list[list[Lane]]]
"""By group, iteration of the group, and lane."""


def groups_of(rng: random.Random) -> Groups:
    return [[[random_sources(rng) for _ in range(LANES)] for _ in range(LENGTH)] for _ in range(GROUPS)]


def interpreted(statement: Statement, group: Sequence[Lane], immediates: Mapping[str, int]) -> int:
    """The statement's value in one lane after a group of iterations, by the interpreter's evaluator."""
    names = {(name, "", 0): value for name, value in immediates.items()}
    reduced = 0
    if statement.reduction is not None:
        inside = [evaluate(statement.reduction.args[0], lane_of(names, lane), 0) for lane in group]
        reduced = {Op.SUM: sum, Op.MAX_OVER: max, Op.MIN_OVER: min}[statement.reduction.op](inside)
    return evaluate(statement.expr, lane_of(names, group[-1]), reduced)


def lane_of(immediates: Mapping[tuple[str, str, int], int], sources: Lane) -> interpreter.Lane:
    """What the interpreter takes of a lane; no source is a block."""
    return interpreter.Lane({**immediates, **{(name, field, 0): v for (name, field), v in sources.items()}})


def as_arrays(statement: Statement, groups: Groups, immediates: Mapping[str, int]) -> list[list[int]]:
    """The statement's values by group and lane, by the array code."""
    code = ArrayStatement(StatementFacts(statement.expr), (GROUPS, LENGTH, LANES), (1,))
    sources = {}
    for name, field, inside, word in leaves(statement.expr):
        values = [[[lane[name, field] for lane in iteration] for iteration in group] for group in groups]
        array = np.array(values, np.int64).astype(code.type)
        sources[name, field, inside, word] = array if inside or statement.reduction is None else array[:, -1:]
    value = np.broadcast_to(
        code.evaluate(sources, immediates), (GROUPS, LENGTH if statement.reduction is None else 1, LANES)
    )
    return [[int(v) for v in lanes] for lanes in value[:, -1]]


def as_fractions(statement: Statement, group: Sequence[Lane], immediates: Mapping[str, int], rounding: Rounding) -> int:
    """The statement's value in one lane, from its text."""
    names = [
        {**immediates, **{f"{name}.{field}" if field else name: v for (name, field), v in lane.items()}}
        for lane in group
    ]
    return Evaluator(names, rounding.value).store(statement.text)


def check_software(seed: int, count: int, read_as_fractions: int) -> None:
    """Interpreter and array code agree; one in so many is read as fractions too."""
    rng = random.Random(f"expressions {seed}")
    groups, immediates = groups_of(rng), random_immediates(rng)
    rounding = list(Rounding)[seed % len(Rounding)]
    for number, statement in enumerate(random_statements(rng, count, rounding, REDUCE_TRIPS)):
        if number % 16 == 0:
            groups, immediates = groups_of(rng), random_immediates(rng)
        expected = all_interpreted(statement, groups, immediates)
        assert as_arrays(statement, groups, immediates) == expected, f"seed {seed}, {rounding}: {statement.text}"
        if number % read_as_fractions == 0:
            plain = all_fractions(statement, groups, immediates, rounding)
            assert plain == expected, f"seed {seed}, {rounding}: {statement.text}"


def by_lane(groups: Groups) -> list[list[list[Lane]]]:
    """By group, lane, and iteration of the group."""
    return [[[iteration[lane] for iteration in group] for lane in range(LANES)] for group in groups]


def all_interpreted(statement: Statement, groups: Groups, immediates: Mapping[str, int]) -> list[list[int]]:
    return [[interpreted(statement, lane, immediates) for lane in group] for group in by_lane(groups)]


def all_fractions(
    statement: Statement, groups: Groups, immediates: Mapping[str, int], rounding: Rounding
) -> list[list[int]]:
    return [[as_fractions(statement, lane, immediates, rounding) for lane in group] for group in by_lane(groups)]


def machine_of(statements: Sequence[Statement], rounding: Rounding) -> Machine:
    """A machine with one vector instruction for each statement."""
    memories = {"p": "par", "a": "narrow", "b": "middle", "c": "acc"}
    structure = ", ".join(f"{field}: {of}" for field, of in SOURCES["p"].items())
    instructions = []
    for number, statement in enumerate(statements):
        used = sorted({name for name, *_ in leaves(statement.expr)})
        given = sorted({node.name for node in walk(statement.expr) if node.op is Op.IMMEDIATE})
        reduce = f"loops: {{i: 4, r: {REDUCE_BITS}}}\n    reduce: [r]\n    to: {{y: 'acc[i]'}}"
        instructions.append(
            f"  s{number}:\n    engine: vec\n    from: {{{', '.join(f'{n}: {memories[n]}' for n in used)}}}\n"
            f"    imm: {{{', '.join(f'{n}: {IMMEDIATES[n]}' for n in given)}}}\n"
            f"    {reduce if statement.reduction is not None else 'loops: {i: 4}' + chr(10) + '    to: {y: acc}'}\n"
            f"    do: {statement.text}\n"
        )
    removed = "".join(f"  {of.mnemonic}: null\n" for of in load_machine("tiny8").formats_of(Template.VECTOR))
    return load_machine_text(
        f"extends: tiny8\nrounding: {rounding.value}\nlanes: 1\narray: {{rows: 2, cols: 2}}\nmemories:\n"
        f"  acc: {{element: {DESTINATION}}}\n  par: {{element: {{{structure}}}}}\n"
        "  narrow: {element: int8, width: lanes, kib: 1, banks: 1}\n"
        "  middle: {element: int16, width: lanes, kib: 1, banks: 1}\n"
        "engines: {vec: {reads: [act, acc, par, narrow, middle], writes: [act, acc]}}\n"
        f"instructions:\n{removed}{''.join(instructions)}",
        "expressions",
    )


def packed(of: InstructionFormat, lane: Lane) -> list[int]:
    """The words of the format's sources, of one lane."""
    words = []
    for source in of.sources:
        element = source.element
        if element.type is not None:
            words.append(lane[source.name, ""] % (1 << element.bits))
        else:
            fields = ((lane[source.name, f.name] % (1 << f.type.bits)) << f.low_bit for f in element.fields)
            words.append(sum(fields))
    return words


def check_datapath(seed: int, count: int = BATCH) -> None:
    """One datapath for `count` statements, each for a few groups, gives what the interpreter's evaluator gives.

    Iterations enter one a cycle; statements come in the order of their stages, so that no result overtakes another.
    """
    rng = random.Random(f"datapath {seed}")
    rounding = list(Rounding)[seed % len(Rounding)]
    machine = machine_of(list(random_statements(rng, count, rounding, REDUCE_TRIPS)), rounding)
    formats = machine.formats_of(Template.VECTOR)
    datapath = VectorDatapath(machine, vector_of(machine))

    async def bench(ctx: Any) -> None:
        expected: dict[int, tuple[str, int]] = {}
        cycle = 0

        async def step() -> None:
            nonlocal cycle
            if cycle in expected:
                text, value = expected.pop(cycle)
                assert ctx.get(datapath.result) == value % (1 << 32), f"seed {seed}, {rounding}: {text}"
            await ctx.tick()
            cycle += 1

        for of in sorted(formats, key=lambda of: format_stages(of)):
            for _ in range(GROUPS):
                immediates = random_immediates(rng)
                group = [random_sources(rng) for _ in range(LENGTH if of.reduce_loops else 1)]
                ctx.set(datapath.format, formats.index(of))
                ctx.set(datapath.immediates, pack_immediates(of, immediates, formats))
                ctx.set(datapath.valid, 1)
                for position, lane in enumerate(group):
                    ctx.set(datapath.is_first, position == 0)
                    for slot, word in enumerate(packed(of, lane)):
                        ctx.set(getattr(datapath, f"source_{slot}"), word)
                    if position == len(group) - 1:
                        value = interpreted(of.statement, group, immediates)
                        expected[cycle + format_stages(of)] = of.statement.text, value
                    await step()
        ctx.set(datapath.valid, 0)
        for _ in range(max(expected, default=cycle) + 1 - cycle):
            await step()
        assert not expected

    simulator = Simulator(datapath)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@dataclass(frozen=True)
class Case:
    """What a statement is evaluated for."""

    groups: Groups
    immediates: Mapping[str, int]


def in_hardware(machine: Machine, cases: Sequence[Case]) -> list[list[list[int]]]:
    """The values of the machine's vector statements, by statement, group and lane, by the datapath's netlist.

    Lanes come one after the other through a datapath of one lane, an iteration a cycle; statements in the order of
    their stages, so that no result overtakes another.
    """
    formats = machine.formats_of(Template.VECTOR)
    slots = [f"source_{slot}" for slot in range(len(source_bits(machine, vector_of(machine))))]
    cycles: list[dict[str, int]] = []
    leaves_at: dict[tuple[int, int, int], int] = {}
    stages = [format_stages(of) for of in formats]
    for position in sorted(range(len(formats)), key=stages.__getitem__):
        of, case = formats[position], cases[position]
        held = {"format": position, "immediates": pack_immediates(of, case.immediates, formats), "valid": 1}
        for group, lanes in enumerate(by_lane(case.groups)):
            for lane, iterations in enumerate(lanes):
                for number, values in enumerate(iterations if of.reduce_loops else iterations[-1:]):
                    words = dict(zip(slots, packed(of, values), strict=False))
                    cycles.append({**held, "is_first": number == 0, **dict.fromkeys(slots, 0), **words})
                leaves_at[position, group, lane] = len(cycles) - 1 + stages[position]
    idle = dict.fromkeys(cycles[0], 0)  # not valid: its result would meet one of a longer statement
    cycles += [idle] * (1 + max(leaves_at.values()) - len(cycles))
    inputs = {name: [int(cycle[name]) for cycle in cycles] for name in cycles[0]}
    result = trace_outputs(VectorDatapath(machine, vector_of(machine)), inputs)["result"]
    of_result = parse_integer_type(DESTINATION)
    return [
        [
            [int(wrap(result[leaves_at[position, group, lane]], of_result)) for lane in range(LANES)]
            for group in range(GROUPS)
        ]
        for position in range(len(formats))
    ]


def check_consumers(seed: int, count: int, read_as_fractions: int) -> int:
    """Interpreter, array code and datapath agree on one machine's expressions, for the same inputs; how many those are.

    One in so many is read as fractions too.
    """
    rng = random.Random(f"consumers {seed}")
    rounding = list(Rounding)[seed % len(Rounding)]
    statements = list(random_statements(rng, count, rounding, REDUCE_TRIPS))
    cases = [Case(groups_of(rng), random_immediates(rng)) for _ in statements]
    hardware = in_hardware(machine_of(statements, rounding), cases)
    for number, (statement, case, circuit) in enumerate(zip(statements, cases, hardware, strict=True)):
        which = f"seed {seed}, {rounding}: {statement.text}"
        expected = all_interpreted(statement, case.groups, case.immediates)
        assert as_arrays(statement, case.groups, case.immediates) == expected, f"{which}, array code"
        assert circuit == expected, f"{which}, datapath"
        if number % read_as_fractions == 0:
            assert all_fractions(statement, case.groups, case.immediates, rounding) == expected, f"{which}, fractions"
    return len(statements)


@pytest.fixture
def without_collection() -> Iterator[None]:
    """Netlists are hundreds of thousands of small objects: searching them for garbage takes a quarter of the time."""
    gc.disable()
    yield
    gc.enable()


def test_interpreter_and_arrays_agree() -> None:
    for seed in range(3):
        check_software(seed, 400, read_as_fractions=4)


def test_datapath_agrees() -> None:
    check_datapath(0, 40)


def test_three_consumers_agree() -> None:
    for seed in range(3):
        check_consumers(seed, 80, read_as_fractions=10)


@pytest.mark.slow
@pytest.mark.parametrize("first", long_beyond(2, range(1000, 1250, 10)))
def test_three_consumers_agree_on_1000(first: int, without_collection: None) -> None:
    """A thousand expressions in ten datapaths: twice in the slow ring, and 23 times in the long one."""
    assert sum(check_consumers(seed, 100, read_as_fractions=10) for seed in range(first, first + 10)) == 1000
