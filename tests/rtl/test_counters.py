"""Counters against a dictionary that counts by the table of docs/microarchitecture.md."""

import random
from collections import Counter
from typing import Any

from tests.engines import ENGINES
from tests.rtl.benches import simulate
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.counters import Counters, counter_names
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.registers import register_map
from tilewright.rtl.templates.table import facet_of

MACHINE = load_machine("tiny8", ["counters=all"])


def test_every_cycle_of_an_engine_counts_once() -> None:
    dut, seed, expected = Counters(MACHINE), random.Random(8), Counter()

    def line(engine: str, activity: Any, waits_for: list[str], starts: bool) -> str:
        if activity == Activity.BUSY:
            return "busy"
        for cause, stalled in facet_of(MACHINE.engines[engine].template).stalls.items():
            if activity == stalled:
                return f"stall.{cause}"
        if waits_for:
            return f"wait.{waits_for[0]}"
        return "busy" if starts else "idle"

    async def bench(ctx: Any) -> None:
        for _ in range(300):
            counts = seed.random() < 0.8
            ctx.set(dut.is_counting, counts)
            read, written = seed.choice([0, MACHINE.dram.bus_bytes]), seed.randint(0, MACHINE.dram.bus_bytes)
            ctx.set(dut.bytes_read, read)
            ctx.set(dut.bytes_written, written)
            expected["cycles"] += counts
            expected["dram_bytes_read"] += counts * read
            expected["dram_bytes_written"] += counts * written
            for engine in ENGINES:
                stalls = facet_of(MACHINE.engines[engine].template).stalls.values()
                activity = seed.choice([Activity.NONE, Activity.NONE, Activity.BUSY, *stalls])
                waits_for = [other for other in ENGINES if seed.random() < 0.3]
                starts = not waits_for and seed.random() < 0.5
                ctx.set(dut.activities[ENGINES.index(engine)], activity)
                bits = sum(1 << ENGINES.index(other) for other in waits_for)
                ctx.set(dut.heads[ENGINES.index(engine)], {"is_present": bool(waits_for) or starts, "waits_for": bits})
                ctx.set(dut.starts[ENGINES.index(engine)], starts)
                expected[f"{engine}.{line(engine, activity, waits_for, starts)}"] += counts
            await ctx.tick()
        values = ctx.get(dut.values)
        names = counter_names(MACHINE)
        assert {name: values[name] for name in names} == {name: expected[name] for name in names}
        ctx.set(dut.clear, 1)
        await ctx.tick()
        assert {ctx.get(dut.values)[name] for name in names} == {0}

    simulate(dut, bench)


def test_bytes_of_each_way_of_a_port_are_counted_alone() -> None:
    dut = Counters(load_machine("base16-2dma", ["counters=few"]))
    passed = {"port0.bytes_read": [16, 0, 16], "port1.bytes_read": [0, 16, 16], "port0.bytes_written": [3, 16, 0]}

    async def bench(ctx: Any) -> None:
        ctx.set(dut.is_counting, 1)
        for cycle in range(3):
            for position, numbers in enumerate(passed.values()):
                ctx.set(dut.port_bytes[position], numbers[cycle])
            await ctx.tick()
        values = ctx.get(dut.values)
        assert {name: values[name] for name in passed} == {
            "port0.bytes_read": 32,
            "port1.bytes_read": 32,
            "port0.bytes_written": 19,
        }

    simulate(dut, bench)


def test_names_every_cause_once() -> None:
    names = counter_names(MACHINE)
    assert len(set(names)) == len(names)


def test_few_are_of_no_engine_and_none_are_no_registers() -> None:
    assert counter_names(load_machine("tiny8", ["counters=few"])) == ("cycles", "dram_bytes_read", "dram_bytes_written")
    assert counter_names(load_machine("tiny8", ["counters=none"])) == ()
    silent = load_machine("tiny8", ["counters=none"])
    assert not any(register.name.startswith("counter.") for register in register_map(silent))
