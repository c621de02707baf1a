"""No accepted program reads a word in the cycle that writes it, so synthesis may take memories that forget it then.

The hardware is built with such memories: a word that is written while it is read reads inverted. Programs still give
the simulator's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module, Signal

from tests.compiler.models import residual_model
from tests.rtl.benches import simulate
from tests.test_simulator_equals_rtl import assert_equal, assert_same_bytes, job, random_jobs
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.memory import MOST_MEMORY_PORTS
from tilewright.rtl import block, memory, table_memory
from tilewright.rtl.run import run_rtl_many
from tilewright.rtl.simulation import bench_verilog
from tilewright.simulator.values import simulate_values

SMALL = ("lanes=2", "array.rows=2", "array.cols=2")
"""Sums come back to the accumulators after a few cycles: nowhere are reads and writes of a word closer."""


class ForgetfulBlock(Elaboratable):
    """A word block that gives a word inverted if it is written in the cycle that reads it."""

    def __init__(self, width: int, depth: int, ports_of_macro: int = MOST_MEMORY_PORTS) -> None:
        self.words = block.WordBlock(width, depth, ports_of_macro)
        self.read, self.write = self.words.read_port(), self.words.write_port()
        self.data = Signal(width)

    def read_port(self) -> Any:
        return SimpleNamespace(addr=self.read.addr, en=self.read.en, data=self.data)

    def write_port(self) -> Any:
        return self.write

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = self.words
        is_forgotten = Signal()
        with m.If(self.read.en):
            m.d.sync += is_forgotten.eq(self.write.en & (self.write.addr == self.read.addr))
        m.d.comb += self.data.eq(self.read.data ^ is_forgotten.replicate(len(self.data)))
        return m


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hardware with forgetful memories, in a cache of its own."""

    def lanes(machine: Any, of: Any) -> list[str]:
        return [f"{place}.words" for place in known_lanes(machine, of)]

    def storages(machine: Any, of: Any) -> Iterator[tuple[str, int, int, int]]:
        return ((f"{place}.words", bank, way, rows) for place, bank, way, rows in known_storages(machine, of))

    known_lanes, known_storages = bench_verilog._lanes, bench_verilog._storages
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bench_verilog, "_lanes", lanes)
    monkeypatch.setattr(bench_verilog, "_storages", storages)
    monkeypatch.setattr(memory, "WordBlock", ForgetfulBlock)
    monkeypatch.setattr(table_memory, "WordBlock", ForgetfulBlock)


def test_a_forgetful_block_forgets() -> None:
    dut = ForgetfulBlock(8, 4)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.write.en, 1)
        for data in (3, 5):
            ctx.set(dut.write.data, data)
            ctx.set(dut.read.en, 1)
            await ctx.tick()
        assert ctx.get(dut.data) == 3 ^ 0xFF  # the old word, inverted
        ctx.set(dut.write.en, 0)
        await ctx.tick()
        assert ctx.get(dut.data) == 5

    simulate(dut, bench)


@pytest.mark.slow
def test_programs_need_no_word_in_the_cycle_that_writes_it(forgetful: None) -> None:
    machine = load_machine("tiny8", SMALL)
    seeds = range(40)
    assert_equal(machine, random_jobs(machine, seeds, 12), seeds)
    rng = np.random.default_rng(0)
    program, dram, bases = job(compile_model(residual_model(rng, 6, 4), machine), rng)
    ((state, counters),) = run_rtl_many(machine, [(program, dram, bases)])
    assert counters.fault is None
    assert_same_bytes(simulate_values(program, dram, bases), state, "residual")
