"""Random expressions of the statement language give the same in every consumer.

The interpreter's evaluator, the array code, the vector datapath, and a reading of the text as plain fractions.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from isa.encoding import InstructionFormat
from isa.loader import load_machine, load_machine_text
from isa.machine import Machine
from isa.numeric import Rounding
from isa.statement import Op, Statement, walk
from isa.timing import statement_stages
from rtl.datapath import VectorDatapath
from simulator.interpreter import evaluate
from simulator.statement_arrays import ArrayStatement, leaves
from tests.random_expressions import (
    DESTINATION,
    IMMEDIATES,
    SOURCES,
    random_immediates,
    random_sources,
    random_statements,
)
from tests.rtl.statements import Evaluator
from tests.rtl.test_datapath import pack_immediates

Lane = Mapping[tuple[str, str], int]
"""The sources of one lane in one iteration."""

GROUPS = 2
LENGTH = 3
"""Each statement is evaluated for so many groups of so many iterations over which a reduction goes."""

LANES = 2
BATCH = 120
"""Instructions of a machine whose datapath is simulated."""


def groups_of(rng: random.Random) -> list[list[list[Lane]]]:
    """By group, iteration of the group, and lane."""
    return [[[random_sources(rng) for _ in range(LANES)] for _ in range(LENGTH)] for _ in range(GROUPS)]


def interpreted(statement: Statement, group: Sequence[Lane], immediates: Mapping[str, int]) -> int:
    """The statement's value in one lane after a group of iterations, by the interpreter's evaluator."""
    names = {(name, ""): value for name, value in immediates.items()}
    reduced = 0
    if statement.reduction is not None:
        inside = [evaluate(statement.reduction.args[0], {**names, **lane}, 0) for lane in group]
        reduced = {Op.SUM: sum, Op.MAX_OVER: max, Op.MIN_OVER: min}[statement.reduction.op](inside)
    return evaluate(statement.expr, {**names, **group[-1]}, reduced)


def as_arrays(statement: Statement, groups: list[list[list[Lane]]], immediates: Mapping[str, int]) -> list[list[int]]:
    """The statement's values by group and lane, by the array code."""
    code = ArrayStatement(statement.expr, (GROUPS, LENGTH, LANES), (1,))
    sources = {}
    for name, field, inside in leaves(statement.expr):
        values = [[[lane[name, field] for lane in iteration] for iteration in group] for group in groups]
        array = np.array(values, np.int64).astype(code.type)
        sources[name, field, inside] = array if inside or statement.reduction is None else array[:, -1:]
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
    for number, statement in enumerate(random_statements(rng, count, rounding, LENGTH)):
        if number % 16 == 0:
            groups, immediates = groups_of(rng), random_immediates(rng)
        lanes = [[[iteration[lane] for iteration in group] for lane in range(LANES)] for group in groups]
        expected = [[interpreted(statement, lane, immediates) for lane in group] for group in lanes]
        assert as_arrays(statement, groups, immediates) == expected, f"seed {seed}, {rounding}: {statement.text}"
        if number % read_as_fractions == 0:
            plain = [[as_fractions(statement, lane, immediates, rounding) for lane in group] for group in lanes]
            assert plain == expected, f"seed {seed}, {rounding}: {statement.text}"


def machine_of(statements: Sequence[Statement], rounding: Rounding) -> Machine:
    """A machine with one vector instruction for each statement."""
    memories = {"p": "par", "a": "narrow", "b": "middle", "c": "acc"}
    structure = ", ".join(f"{field}: {of}" for field, of in SOURCES["p"].items())
    instructions = []
    for number, statement in enumerate(statements):
        used = sorted({name for name, _, _ in leaves(statement.expr)})
        given = sorted({node.name for node in walk(statement.expr) if node.op is Op.IMMEDIATE})
        reduce = "loops: {i: 4, r: 2}\n    reduce: [r]\n    to: {y: 'acc[i]'}"
        instructions.append(
            f"  s{number}:\n    engine: vec\n    from: {{{', '.join(f'{n}: {memories[n]}' for n in used)}}}\n"
            f"    imm: {{{', '.join(f'{n}: {IMMEDIATES[n]}' for n in given)}}}\n"
            f"    {reduce if statement.reduction is not None else 'loops: {i: 4}' + chr(10) + '    to: {y: acc}'}\n"
            f"    do: {statement.text}\n"
        )
    removed = "".join(f"  {of.mnemonic}: null\n" for of in load_machine("tiny8").formats_of("vec"))
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
    machine = machine_of(list(random_statements(rng, count, rounding, LENGTH)), rounding)
    formats = machine.formats_of("vec")
    datapath = VectorDatapath(machine)

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

        for of in sorted(formats, key=lambda of: statement_stages(of.statement.expr)):
            for _ in range(GROUPS):
                immediates = random_immediates(rng)
                group = [random_sources(rng) for _ in range(LENGTH if of.reduce_loops else 1)]
                ctx.set(datapath.format, formats.index(of))
                ctx.set(datapath.immediates, pack_immediates(of, immediates))
                ctx.set(datapath.valid, 1)
                for position, lane in enumerate(group):
                    ctx.set(datapath.is_first, position == 0)
                    for slot, word in enumerate(packed(of, lane)):
                        ctx.set(getattr(datapath, f"source_{slot}"), word)
                    if position == len(group) - 1:
                        value = interpreted(of.statement, group, immediates)
                        expected[cycle + statement_stages(of.statement.expr)] = of.statement.text, value
                    await step()
        ctx.set(datapath.valid, 0)
        for _ in range(max(expected, default=cycle) + 1 - cycle):
            await step()
        assert not expected

    simulator = Simulator(datapath)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_interpreter_and_arrays_agree() -> None:
    for seed in range(3):
        check_software(seed, 400, read_as_fractions=4)


def test_datapath_agrees() -> None:
    check_datapath(0, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_interpreter_and_arrays_agree_on_100000(seed: int) -> None:
    check_software(seed, 5000, read_as_fractions=10)


@pytest.mark.slow
def test_datapath_agrees_on_what_fits_two_minutes() -> None:
    end, count = time.monotonic() + 110, 0
    while time.monotonic() < end:
        check_datapath(1000 + count)
        count += 1
    print(f"{count * BATCH} expressions in the datapath")
    assert count * BATCH >= 1000
