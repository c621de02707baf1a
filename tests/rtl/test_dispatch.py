"""Dispatch: instructions reach their engines' queues, start when their waits are over, and bad ones are faults."""

import random
from typing import Any

from tests.engines import ENGINES
from tests.rtl.benches import simulate, stream_get, stream_put
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import OPCODE, Instruction, encode, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.rtl.dispatch import Dispatch

MACHINE = load_machine("tiny8")
LOAD, VEC = (MACHINE.engines[name].number for name in ("load", "vec"))


def an_instruction(engine: str, **waits: int) -> Instruction:
    """The first instruction of an engine, with some wait counts."""
    format = MACHINE.formats_of(MACHINE.engines[engine])[0]
    return make_instruction(format, {f"wait.{other}": count for other, count in waits.items()})


def as_beats(machine: Machine, instructions: list[bytes]) -> list[dict[str, int]]:
    """The beats of a program; of the last one, perhaps, not all units are the program's."""
    size, text = machine.dram.bus_bytes, b"".join(instructions)
    parts = [text[n : n + size] for n in range(0, len(text), size)]
    unit = min(4, size)
    return [{"data": int.from_bytes(part, "little"), "units": len(part) // unit, "error": 0} for part in parts]


def encoded(*instructions: Instruction) -> list[bytes]:
    return [encode(instruction) for instruction in instructions]


def test_every_engine_gets_its_instructions_in_order() -> None:
    seed, dut = random.Random(4), Dispatch(MACHINE)
    program = []
    for _ in range(40):
        of = seed.choice(list(MACHINE.formats.values()))
        program.append(make_instruction(of, {f"trip.{of.loops[-1].name}": seed.randint(1, 2)}))

    async def feed(ctx: Any) -> None:
        await stream_put(ctx, dut.beats, as_beats(MACHINE, encoded(*program)), pause=0.2)
        ctx.set(dut.is_fetched, 1)

    def taker(engine: str) -> Any:
        async def bench(ctx: Any) -> None:
            own = [(n, instruction) for n, instruction in enumerate(program) if instruction.engine.name == engine]
            taken = await stream_get(ctx, dut.instructions[ENGINES.index(engine)], len(own), pause=0.5, seed=len(own))
            assert [payload.index for payload in taken] == [n for n, _ in own]
            for payload, (_, instruction) in zip(taken, own, strict=True):
                fields = payload.bits & (1 << instruction.format.bits) - 1  # what is behind them, nobody reads
                assert fields == int.from_bytes(encode(instruction), "little")
            for _ in own:
                assert ctx.get(dut.is_done) == 0
                ctx.set(dut.retires[ENGINES.index(engine)], 1)
                await ctx.tick()
            ctx.set(dut.retires[ENGINES.index(engine)], 0)

        return bench

    async def ends(ctx: Any) -> None:
        await ctx.tick().until(dut.is_done)

    simulate(dut, feed, *(taker(engine) for engine in ENGINES), ends)


def test_starts_after_the_completions_it_waits_for() -> None:
    dut = Dispatch(MACHINE)
    program = [an_instruction("load"), an_instruction("load"), an_instruction("vec", load=2)]

    async def bench(ctx: Any) -> None:
        ctx.set(dut.instructions[LOAD].ready, 1)
        await stream_put(ctx, dut.beats, as_beats(MACHINE, encoded(*program)))
        await ctx.tick().repeat(5)
        for completed in range(2):
            head = ctx.get(dut.heads[VEC])
            assert (ctx.get(dut.instructions[VEC].valid), head.is_present, head.waits_for) == (0, 1, 1), completed
            ctx.set(dut.retires[LOAD], 1)
            await ctx.tick()
            ctx.set(dut.retires[LOAD], 0)
        assert (ctx.get(dut.instructions[VEC].valid), ctx.get(dut.heads[VEC]).waits_for) == (1, 0)

    simulate(dut, bench)


def test_a_full_queue_holds_back_all_that_follows() -> None:
    dut = Dispatch(MACHINE)
    depth = MACHINE.engines["load"].queue_depth
    program = [an_instruction("load")] * (depth + 1) + [an_instruction("vec")]

    async def feed(ctx: Any) -> None:
        await stream_put(ctx, dut.beats, as_beats(MACHINE, encoded(*program)))

    async def bench(ctx: Any) -> None:
        await ctx.tick().repeat(200)
        assert ctx.get(dut.heads[VEC]).is_present == 0
        await stream_get(ctx, dut.instructions[LOAD], 1)
        await ctx.tick().repeat(20)
        assert ctx.get(dut.heads[VEC]).is_present == 1

    simulate(dut, bench, background=[feed])


def fault_of(words: list[bytes], error_at: int | None = None) -> tuple[FaultCode, int, int]:
    """Code, instruction and address of the fault that a program's bits raise; engines take nothing."""
    dut, found = Dispatch(MACHINE), []
    beats = as_beats(MACHINE, words)
    if error_at is not None:
        beats[error_at]["error"] = 1

    async def feed(ctx: Any) -> None:
        await stream_put(ctx, dut.beats, beats)

    async def bench(ctx: Any) -> None:
        (payload,) = await ctx.tick().sample(dut.fault.payload).until(dut.fault.valid)
        found.append((FaultCode(payload.code), payload.instruction, payload.address))

    simulate(dut, bench, background=[feed])
    return found[0]


def test_refuses_an_unknown_opcode() -> None:
    unknown = max(f.opcode for f in MACHINE.formats.values()) + 1
    bad = unknown.to_bytes(4, "little")
    assert fault_of([*encoded(an_instruction("vec")), bad]) == (FaultCode.OPCODE, 1, unknown)
    assert an_instruction("vec")[OPCODE] != unknown


def test_refuses_a_wait_for_what_is_not_earlier() -> None:
    program = [an_instruction("vec"), an_instruction("load"), an_instruction("vec", vec=1, load=2)]
    assert fault_of(encoded(*program)) == (FaultCode.WAIT, 2, 2)


def test_refuses_a_wait_for_itself() -> None:
    assert fault_of(encoded(an_instruction("store", store=1))) == (FaultCode.WAIT, 0, 1)


def test_names_the_first_engine_of_a_bad_wait() -> None:
    assert fault_of(encoded(an_instruction("mma", store=9, vec=3))) == (FaultCode.WAIT, 0, 3)


def test_refuses_an_instruction_that_the_bus_refused() -> None:
    # The first instruction of vec has 32 bytes, which are beats 0 to 3; the second is in 4 to 7.
    program = encoded(an_instruction("vec"), an_instruction("vec"))
    assert fault_of(program, error_at=4) == (FaultCode.BUS, 1, 0)
    assert fault_of(program, error_at=7) == (FaultCode.BUS, 1, 0)


def test_a_refused_beat_is_a_fault_of_the_first_instruction_in_it() -> None:
    # Of 28 bytes each: the beat 3 has the end of the first instruction and the begin of the second.
    add_bias = make_instruction(MACHINE.format("add_bias"), {})
    assert fault_of(encoded(add_bias, add_bias), error_at=3) == (FaultCode.BUS, 0, 0)
    assert fault_of(encoded(add_bias, add_bias), error_at=4) == (FaultCode.BUS, 1, 0)
