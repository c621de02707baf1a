"""The loop-nest walker against nested Python loops."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

from tests.rtl.nests import is_access_bad, iterations, random_instruction
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.encoding import Instruction, InstructionFormat, Operand, encode
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory, integer_element
from tilewright.rtl.bounds import is_outside
from tilewright.rtl.nest import FormatWalk, NestWalker, whole_walk

Check = Callable[[Any, Instruction], Iterator[bool]]


def slots_of(of: InstructionFormat) -> dict[str, Operand]:
    return {**{f"source{i}": operand for i, operand in enumerate(of.sources)}, "destination": of.destination}


def run(
    walker: NestWalker,
    instructions: list[Instruction],
    machine: Machine,
    seed: random.Random,
    check: Check,
    collapse: bool = False,
) -> None:
    """Walk instructions with random pauses; `check` yields after each iteration whether it was the last.

    The last iteration's step comes with the start of the next instruction.
    """

    async def bench(ctx: Any) -> None:
        ctx.set(walker.collapse, collapse)
        for instruction in instructions:
            ctx.set(walker.bits, int.from_bytes(encode(instruction), "little"))
            ctx.set(walker.start, 1)
            await ctx.tick()
            ctx.set(walker.start, 0)
            ctx.set(walker.step, 0)
            for is_end in check(ctx, instruction):
                while seed.random() < 0.2:
                    await ctx.tick()
                ctx.set(walker.step, 1)
                if not is_end:
                    await ctx.tick()
                    ctx.set(walker.step, 0)

    simulator = Simulator(walker)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("engine", ["vec", "load", "mma"])
@pytest.mark.parametrize("name", ["tiny8", "rect"])
def test_visits_iterations_in_order(engine: str, name: str) -> None:
    machine, seed = load_machine(name), random.Random(7)
    formats = machine.formats_of(machine.engines[engine])
    walker = NestWalker(machine, [whole_walk(of, slots_of(of)) for of in formats])
    instructions = [random_instruction(machine, seed.choice(formats), seed) for _ in range(40)]

    def check(ctx: Any, instruction: Instruction) -> Iterator[bool]:
        of = instruction.format
        trips, slots = instruction.trips, slots_of(of)
        every = list(iterations(instruction, list(trips), trips))
        for count, (at, address) in enumerate(every):
            bad = [operand.name for operand in of.operands if is_access_bad(machine, operand, address[operand.name])]
            assert {slot: ctx.get(walker.address[slot]) for slot in slots} == {
                slot: address[operand.name] for slot, operand in slots.items()
            }
            if count + 1 < len(every):
                following = every[count + 1][1]
                assert all(ctx.get(walker.following[slot]) == following[o.name] for slot, o in slots.items())
            assert ctx.get(walker.walk) == formats.index(of)
            assert ctx.get(walker.is_first["reduce"]) == all(at[name] == 0 for name in of.reduce_loops)
            assert ctx.get(walker.is_last["reduce"]) == all(at[name] == trips[name] - 1 for name in of.reduce_loops)
            assert ctx.get(walker.last) == (count == len(every) - 1)
            assert ctx.get(walker.fault) == bool(bad)
            if bad:
                assert ctx.get(walker.fault_address) == address[bad[0]]
                return  # the engine stops here
            yield count == len(every) - 1

    run(walker, instructions, machine, seed, check)


@pytest.mark.parametrize("is_collapsed", [False, True])
def test_walks_a_prefix_of_the_loops(is_collapsed: bool) -> None:
    """Outer loops only, and the innermost of them collapsed: what the DMA engines walk on their DRAM side."""
    machine, seed = load_machine("tiny8"), random.Random(8)
    of = machine.format("load_act")
    walked = of.loops[:2]
    walker = NestWalker(machine, [FormatWalk(of, walked, {"d": of.operand("d")})])

    def check(ctx: Any, instruction: Instruction) -> Iterator[bool]:
        trips = {name: instruction.trips[name] for name in ("i", "j")}
        if is_collapsed:
            trips["j"] = 1
        every = list(iterations(instruction, ["i", "j"], trips))
        for count, (_, address) in enumerate(every):
            assert ctx.get(walker.address["d"]) == address["d"]
            assert ctx.get(walker.last) == (count == len(every) - 1)
            yield count == len(every) - 1

    instructions = [random_instruction(machine, of, seed, spread=8000) for _ in range(20)]
    run(walker, instructions, machine, seed, check, is_collapsed)


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize(("depth", "banks"), [(16, 1), (16, 4), (15, 3), (6, 3)])
def test_finds_every_access_that_leaves_its_memory_or_bank(depth: int, banks: int, block: int) -> None:
    memory = Memory("m", integer_element(IntegerType(8, True)), 4, depth, banks)
    m, address, outside = Module(), Signal(signed(memory.address_bits + 2)), Signal()
    m.d.comb += outside.eq(is_outside(address, memory, block))
    found = {}

    async def bench(ctx: Any) -> None:
        for first in range(-depth, 2 * depth):
            ctx.set(address, first)
            found[first] = bool(ctx.get(outside))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    banks_of = {first: {word // (depth // banks) for word in range(first, first + block)} for first in found}
    assert found == {
        first: not (first >= 0 and first + block <= depth and len(crossed) == 1) for first, crossed in banks_of.items()
    }
