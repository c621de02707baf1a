"""An instruction costs the logic that its machine would save, and the energy of what an iteration reads and writes."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.codesign.price import instruction_costs as module
from tilewright.codesign.price.instruction_costs import cost_text, instruction_costs
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.unit import ESTIMATED, PricedUnit
from tilewright.codesign.templates.facet import LogicEnergy
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.manual import manual

MACHINE = load_machine("tiny8")


@pytest.fixture
def price(toy: Process, monkeypatch: pytest.MonkeyPatch) -> Price:
    """A machine whose every instruction takes 200 µm², which are 100 gates of the toy process."""

    def price_machine(machine: Machine, process: Process, exact: bool = False, like: Machine | None = None) -> Price:
        memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
        units = (PricedUnit("vec lanes", 200.0 * len(machine.formats), 0, 0, ESTIMATED),)
        return Price(machine, process, exact, "0", "0", units, memories, (), like and like.name)

    monkeypatch.setattr(module, "price_machine", price_machine)
    process = dataclasses.replace(toy, logic_energy=LogicEnergy(0.5, 2.0, 0.25))
    return price_machine(MACHINE, process)


def test_an_instruction_costs_what_is_saved_without_it(price: Price) -> None:
    costs = instruction_costs(price)
    assert {cost.area_um2 for cost in costs.values()} == {200.0}


def test_the_only_instruction_of_an_engine_has_no_area_of_its_own(price: Price) -> None:
    formats = {name: of for name, of in MACHINE.formats.items() if of.engine.name != "store" or name == "store_act"}
    one = dataclasses.replace(price, machine=dataclasses.replace(MACHINE, formats=formats))
    costs = instruction_costs(one)
    assert costs["store_act"].area_um2 is None
    assert cost_text(costs["store_act"], one).startswith("all logic of its engine. ")


def test_an_iteration_takes_its_words_its_products_and_its_bytes(price: Price) -> None:
    costs, memory = instruction_costs(price), {each.name: each for each in price.memories}
    assert costs["mma"].logic_pj == 2.0 * 8 * 8
    assert costs["copy"].logic_pj == pytest.approx(0.25 * price.unit("vec lanes").area_um2)
    assert costs["load_act"].logic_pj is None
    assert costs["load_act"].dram_pj == 8 * price.process.dram_pj_per_byte
    assert costs["copy"].dram_pj == 0
    assert costs["copy"].memories_pj is None  # the toy process does not know the macros of act
    assert costs["load_lut"].memories_pj == memory["lut"].storages * 3.0  # a write in each lane


def test_the_manual_has_the_costs_when_they_are_given() -> None:
    costs = {name: f"{name} costs something." for name in MACHINE.formats}
    text = manual(MACHINE, costs)
    assert all(f"Cost: {line}" in text for line in costs.values())
    assert "Cost:" not in manual(MACHINE)
    assert "`tilewright isa manual tiny8 --price`" in manual(MACHINE)
