"""Accesses follow from trip counts, energy from accesses and macros; what is not measured is not stated."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from tilewright.codesign.price.accesses import accesses
from tilewright.codesign.price.energy import LayerEnergy, energy_of_layers
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.report import energy_report, energy_table, power_line, with_power
from tilewright.codesign.price.unit import ESTIMATED, PricedUnit
from tilewright.codesign.templates.facet import LogicEnergy
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.simulator.run_profile import DramBytes, LayerProfile, Resource, RunProfile

MACHINE = load_machine("tiny8", ["array.cols=16", "memories.wgt.kib=4", "memories.acc.kib=16"])
"""A row of sums is two words of accumulators, and so a bank of them has two ways."""


CYCLES = 100

WORK = {"mma": {"y": 2, "x": 3}, "add": {"i": 2, "j": 3, "k": 5}}


def instruction(mnemonic: str, machine: Machine = MACHINE, accumulate: int = 0, **trips: int) -> Instruction:
    values = {f"trip.{name}": trip for name, trip in trips.items()}
    return make_instruction(machine.format(mnemonic), {**values, **({"accumulate": 1} if accumulate else {})})


@pytest.mark.parametrize(
    ("one", "reads", "writes"),
    [
        (instruction("load_wgt", i=2, j=3, k=5), {}, {"wgt": 30}),
        (instruction("store_acc", i=2, j=3, k=5), {"acc": 30}, {}),
        # 2 · 3 tiles of 8 rows; 4 · 5 vectors for each; a row of sums is written as two words, and the first of the
        # three reduced tiles reads no sums.
        (instruction("mma", n=2, k=3, y=4, x=5), {"act": 120, "wgt": 48, "acc": 80}, {"acc": 240}),
        (instruction("mma", accumulate=1, n=2, k=3, y=4, x=5), {"act": 120, "wgt": 48, "acc": 120}, {"acc": 240}),
        (instruction("add", i=2, j=3, k=5), {"act": 60}, {"act": 30}),
        (instruction("requantize", i=2, j=3, k=5), {"acc": 30, "par": 30}, {"act": 30}),
        (instruction("max_pool", c=2, y=3, x=4, r=2, s=2), {"act": 96}, {"act": 24}),
        (instruction("fill", i=2, j=3, k=5), {}, {"act": 30}),
    ],
)
def test_counts_words(one: Instruction, reads: dict[str, int], writes: dict[str, int]) -> None:
    found = accesses(MACHINE, [one])
    assert (found.reads, found.writes, found.lookups) == (Counter(reads), Counter(writes), Counter())


def test_every_lane_looks_up_for_itself() -> None:
    found = accesses(MACHINE, [instruction("lookup", i=2, j=3, k=5)])
    assert found.lookups == Counter({"lut": 30 * 8})
    assert found.reads == Counter({"act": 30})


def test_an_access_takes_what_its_macros_take(toy: Process) -> None:
    # A bank of acc is two ways of wide macros, 8 across: a read opens both, a write of two words each once.
    layer = energy_of(toy, instruction("mma", x=10))
    adding = energy_of(toy, instruction("mma", accumulate=1, x=10))
    acc = next(memory for memory in price(toy).memories if memory.name == "acc")
    assert (acc.storages, acc.bits, acc.macro.name, acc.across) == (4, 256, "wide", 8)
    assert layer.memories_pj["acc"] == 10 * 2 * 8 * 7
    assert adding.memories_pj["acc"] == 10 * 2 * 8 * 7 + 10 * 2 * 8 * 5
    assert layer.memories_pj["par"] == 0


def test_dram_is_what_the_user_assumes(toy: Process) -> None:
    fetched = MACHINE.format("load_wgt").bytes
    assert energy_of(toy, instruction("load_wgt", k=4), dram=2.5).dram_pj == 2.5 * (fetched + 4 * 16)


def test_what_the_library_does_not_measure_is_unknown(toy: Process) -> None:
    silent = dataclasses.replace(toy, macros=tuple(macro for macro in toy.macros if macro.ports == 2))
    layer = energy_of(silent, instruction("load_wgt", k=4))
    assert layer.memories_pj == {"act": 0, "wgt": None, "acc": 0, "par": 0, "lut": 0}
    report = energy_report("net", 100, [layer], 2.5)
    assert report["memories_pj"]["wgt"] is None and report["logic_pj"] is None
    assert report["basis"]["logic"] == "not measured"
    assert energy_table(report)[2][0][2] == "unknown"


def test_logic_takes_its_clock_its_products_and_its_iterations(toy: Process) -> None:
    measured = dataclasses.replace(toy, logic_energy=LogicEnergy(0.5, 2.0, 0.25))
    products, iterations = (energy_of(measured, instruction(name, **trips)) for name, trips in WORK.items())
    assert products.logic_pj == {"clock": 0.5 * 7 * CYCLES, "array": 2.0 * 6 * 8 * 16, "vec lanes": 0.0}
    assert iterations.logic_pj == {"clock": 0.5 * 7 * CYCLES, "array": 0.0, "vec lanes": 0.25 * 30 * 400.0}
    report = energy_report("net", CYCLES, [products, iterations], 2.5)
    assert report["logic_pj"] == {"clock": 7.0 * CYCLES, "array": 1536.0, "vec lanes": 3000.0}
    assert sum(report["logic_pj"].values()) == sum(sum(layer["logic_pj"].values()) for layer in report["layers"])
    assert energy_table(report)[1][-4:] == ("clock", "array", "vec lanes", "sum")


def test_each_layer_and_the_run_have_their_sums() -> None:
    one = LayerEnergy("one", 10, {"act": 100.0, "wgt": 50.0}, 1000.0, {"clock": 2000.0})
    two = LayerEnergy("two", 10, {"act": 300.0, "wgt": 0.0}, 4000.0, {"clock": 1000.0})
    report = energy_report("net", 100, [one, two], 2.5)
    title, columns, rows = energy_table(report)
    assert columns == ("layer", "act", "wgt", "DRAM", "clock", "sum")
    assert [row[-1] for row in rows] == [3.15, 5.3, 8.45]
    narrow, columns, rows = energy_table(report, is_wide=False)
    assert columns == ("layer", "memories", "DRAM", "clock", "sum")
    assert rows == [("one", 0.15, 1.0, 2.0, 3.15), ("two", 0.3, 4.0, 1.0, 5.3), ("total", 0.45, 5.0, 3.0, 8.45)]
    assert narrow == f"{title}; of the memories act 0.4, wgt 0.05"


def test_of_a_batch_each_image_has_its_share() -> None:
    layer = LayerEnergy("one", 10, {"act": 100.0, "wgt": 60.0}, 1000.0, {"clock": 2000.0})
    rows = energy_table(energy_report("net", 100, [layer], 2.5, images=4))[2]
    assert rows[1:] == [("total", 0.1, 0.06, 1.0, 2.0, 3.16), ("each of 4 images", 0.025, 0.015, 0.25, 0.5, 0.79)]
    alone = energy_report("net", 100, [layer], 2.5, images=1)
    assert "images" not in alone and energy_table(alone)[2][-1][0] == "total"


def test_power_is_energy_over_time(toy: Process) -> None:
    measured = dataclasses.replace(toy, logic_energy=LogicEnergy(0.5, 2.0, 0.25))
    report = energy_report("net", CYCLES, [energy_of(measured, instruction("mma", x=10))], 2.5)
    report |= {"memories_pj": {"act": 3e3 * CYCLES}, "logic_pj": {"clock": 2e3 * CYCLES}, "dram_pj": 1e3 * CYCLES}
    at_50 = with_power(report, 50.0)  # 20 ns a cycle: 5,000 pJ and 1,000 pJ
    assert (at_50["on_chip_mw"], at_50["dram_mw"]) == (250.0, 50.0)
    assert power_line(at_50) == f"300 mW at 50 MHz (DRAM 50, assumed), {6e-3 * CYCLES:.3g} µJ a run."
    assert with_power(report)["clock_mhz"] == 100.0
    unknown = with_power({**report, "memories_pj": {"act": None}}, 50.0)
    assert power_line(unknown) == "DRAM takes 50 mW at 50 MHz; what the chip takes is not known in this process."


def test_logic_that_was_not_measured_is_not_stated(toy: Process) -> None:
    layer = energy_of(toy, instruction("fill", i=2))
    assert layer.logic_pj is None
    assert energy_report("net", 100, [layer], 2.5)["logic_pj"] is None


def price(process: Process) -> Price:
    memories = tuple(memory_price(MACHINE, memory, process) for memory in MACHINE.memories.values())
    units = (PricedUnit("vec lanes", 400.0, 5, 0, ESTIMATED), PricedUnit("fetch", 100.0, 2, 0, ESTIMATED))
    return Price(MACHINE, process, False, "0", "0", units, memories, ())


def energy_of(process: Process, one: Instruction, dram: float = 1.0) -> LayerEnergy:
    program = Program(MACHINE, (one,), b"", 0, (), ())
    words = sum(accesses(MACHINE, [one]).writes.values()) * 16 if one.engine.name == "load" else 0
    moved = DramBytes(one.format.bytes + words, 0)
    layer_profile = LayerProfile("", (), CYCLES, 0, 0, 0.0, moved, {}, Resource.NONE, {})
    profile = RunProfile(MACHINE.name, CYCLES, 0, 0, 0.0, {}, moved, (layer_profile,), {})
    [layer] = energy_of_layers(price(process), program, profile, dram)
    return layer
