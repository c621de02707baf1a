"""What a queue keeps of an instruction: all fields that are read behind it, and few other bits."""

import random
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from tests.engines import ENGINES
from tests.rtl.nests import random_instruction
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import encode
from tilewright.rtl.dispatch import queue_bits

MACHINE = load_machine("tiny8")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_instruction_leaves_a_queue_as_it_came(engine: str) -> None:
    kept, seed = queue_bits(MACHINE, MACHINE.engines[engine]), random.Random(engine)
    m, bits = Module(), Signal(kept.instruction_bits)
    entry, restored = Signal(len(kept.places)), Signal(kept.instruction_bits)
    m.d.comb += [entry.eq(kept.pack(bits)), restored.eq(kept.unpack(entry))]

    async def bench(ctx: Any) -> None:
        for of in MACHINE.formats_of(MACHINE.engines[engine]) * 5:
            word = encode(random_instruction(MACHINE, of, seed))
            ctx.set(bits, int.from_bytes(word, "little"))
            await ctx.delay(1e-9)
            assert ctx.get(restored) == int.from_bytes(word, "little")

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_keeps_of_the_opcode_what_tells_the_formats_apart() -> None:
    kept = queue_bits(MACHINE, MACHINE.engines["store"])  # opcodes 5 and 6: 101 and 110
    assert [place for place in kept.places if place < 8] == [0, 1]
    assert kept.ones == (2,)


def test_keeps_no_bit_beyond_the_longest_format() -> None:
    for engine in ENGINES:
        longest = max(of.bits for of in MACHINE.formats_of(MACHINE.engines[engine]))
        assert len(queue_bits(MACHINE, MACHINE.engines[engine]).places) <= longest
