"""Waits: enough, by comparing every pair of instructions word for word, and none too many, by the checker."""

from __future__ import annotations

import itertools

import pytest

from tests.compiler.tile_programs import random_tiles
from tests.engines import ENGINES
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.waits import waits
from tilewright.isa.check.checker import check
from tilewright.isa.check.finding import FindingCode
from tilewright.isa.check.footprint import footprint
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program

MACHINES = ("base16", "tiny8", "rect")


def compiled(machine: str, seed: int, steps: int = 30) -> Program:
    # Small memories, so that words are used again and again.
    overrides = ["memories.act.kib=4", "memories.wgt.kib=4", "memories.acc.kib=4", "memories.par.kib=2"]
    tiles = random_tiles(load_machine(machine, overrides), seed, steps)
    return emit(waits(allocate(tiles)))


def completed_before(program: Program) -> list[set[int]]:
    """Per instruction, every instruction that has certainly completed when it starts, from the meaning of waits."""
    by_engine: dict[str, list[int]] = {engine: [] for engine in ENGINES}
    known: list[set[int]] = []
    for index, instruction in enumerate(program.instructions):
        mine = by_engine[instruction.engine.name]
        certain = set(known[mine[-1]]) if mine else set()
        for engine, count in instruction.waits.items():
            for earlier in by_engine[engine][:count]:
                certain |= {earlier} | known[earlier]
        known.append(certain)
        mine.append(index)
    return known


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_orders_every_conflicting_pair(machine: str, seed: int) -> None:
    program = compiled(machine, seed)
    known = completed_before(program)
    words = [
        [(a.place, a.is_write, a.operand, set(a.words.tolist())) for a in footprint(instruction, program.machine)]
        for instruction in program.instructions
    ]
    for j, i in itertools.combinations(range(len(words)), 2):
        later, earlier = program.instructions[i], program.instructions[j]
        for place, writes, operand, touched in words[i]:
            for old_place, old_writes, _, old_touched in words[j]:
                if place != old_place or not (writes or old_writes) or not touched & old_touched:
                    continue
                adds_sums = later.engine.name == earlier.engine.name == "mma" and operand == "c"
                in_order = later.engine == earlier.engine and (writes or adds_sums)
                assert in_order or j in known[i], f"{later.mnemonic} {i} may overtake {earlier.mnemonic} {j}"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_passes_the_checker(machine: str, seed: int) -> None:
    assert check(compiled(machine, seed)) == ()


@pytest.mark.parametrize("machine", MACHINES)
def test_lowering_any_wait_is_a_race(machine: str) -> None:
    program = compiled(machine, 7)
    tried = 0
    for index, instruction in enumerate(program.instructions):
        for engine, count in instruction.waits.items():
            if count == 0:
                continue
            tried += 1
            changed = list(program.instructions)
            changed[index] = instruction.replace({f"wait.{engine}": count - 1})
            findings = check(Program(**{**vars(program), "instructions": tuple(changed)}))
            assert FindingCode.RACE in {finding.code for finding in findings}, f"instruction {index}, {engine}"
    assert tried > 20
