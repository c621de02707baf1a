"""Parts that repeat are priced like what they are made of, and more of them costs more."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest

from tests.engines import vector_of
from tests.random_machines import random_machine
from tilewright.codesign.price.netlist import Bill, Module, netlist
from tilewright.codesign.price.parts import (
    ProcessingElement,
    RegisterRow,
    array,
    bits_around,
    lanes,
)
from tilewright.codesign.price.storage import whole
from tilewright.codesign.price.synthesis import Synthesis
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.systolic import SystolicArray

# A part that only says what shall be priced is never built itself.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

INT2, INT4 = IntegerType(2, True), IntegerType(4, True)


def lanes_of(count: int, *mnemonics: str) -> Machine:
    """A machine whose vector engine has a few cheap instructions."""
    machine = load_machine("vector16")
    formats = {name: of for name, of in machine.formats.items() if of.engine.name != "vec" or name in mnemonics}
    return dataclasses.replace(machine.with_lanes(count), formats=formats)


def bills(machine: Machine) -> Iterator[Bill[Module]]:
    """The datapath of its vector engine: estimated, and as it is."""
    engine = vector_of(machine)
    yield lanes(netlist, machine, engine)
    yield whole(netlist, VectorDatapath(machine, engine))


def test_a_register_costs_its_cell(synthesis: Synthesis) -> None:
    cost = synthesis.cost(whole(netlist, RegisterRow(8)))
    assert (cost.area_um2, cost.flip_flops) == (80, 8)


@pytest.mark.parametrize(("rows", "cols", "can_transpose"), [(3, 5, False), (4, 4, True), (1, 2, False), (5, 1, False)])
def test_counts_every_register_of_the_array_once(rows: int, cols: int, can_transpose: bool) -> None:
    like = SystolicArray(rows, cols, INT4, INT2, can_transpose)
    elements = sum(
        register_bits(ProcessingElement(like, row, can_transpose and row != col))
        for row in range(rows)
        for col in range(cols)
    )
    assert elements + bits_around(like) == register_bits(like)


def test_an_array_is_its_elements_and_what_is_around_them(synthesis: Synthesis) -> None:
    like = SystolicArray(6, 6, INT2, INT2, True)  # its last rows have sums of one width
    estimate, exact = synthesis.cost(array(netlist, like)), synthesis.cost(whole(netlist, like))
    assert estimate.flip_flops == exact.flip_flops + 1  # nobody reads the last tag of those that transpose
    assert estimate.area_um2 == pytest.approx(exact.area_um2, rel=0.03)


def test_an_array_grows_with_its_sides_and_its_types(synthesis: Synthesis) -> None:
    sizes = [(1, 1), (1, 2), (2, 2), (3, 2)]
    areas = [synthesis.cost(array(netlist, SystolicArray(*size, INT2, INT2))).area_um2 for size in sizes]
    areas.append(synthesis.cost(array(netlist, SystolicArray(3, 2, INT4, INT2))).area_um2)
    assert areas == sorted(set(areas))


def test_lanes_cost_what_the_second_one_does(synthesis: Synthesis) -> None:
    machine = lanes_of(4, "maximum", "max_lanes")
    estimate, exact = (synthesis.cost(bill) for bill in bills(machine))
    assert estimate.flip_flops == pytest.approx(exact.flip_flops, rel=0.01)
    assert estimate.area_um2 == pytest.approx(exact.area_um2, rel=0.03)


def test_lanes_grow_with_their_number(synthesis: Synthesis) -> None:
    machines = [lanes_of(count, "maximum") for count in (1, 2, 3, 32)]
    areas = [synthesis.cost(lanes(netlist, machine, vector_of(machine))).area_um2 for machine in machines]
    assert areas == sorted(set(areas))


def test_one_lane_of_narrow_words_is_itself(synthesis: Synthesis) -> None:
    machine = random_machine(0)
    assert machine.lanes == 1
    formats = {name: of for name, of in machine.formats.items() if of.engine.name != "vec" or name == "max_pool"}
    machine = dataclasses.replace(machine, formats=formats)
    estimate, exact = (synthesis.cost(bill) for bill in bills(machine))
    assert estimate == exact


def register_bits(part: SystolicArray | ProcessingElement) -> int:
    """Bits of all registers in a netlist, before any synthesis."""
    cells = [
        cell for module in netlist(part).modules for cell in re.split(r"^  cell ", module.text, flags=re.MULTILINE)
    ]
    widths = [re.search(r"\\WIDTH (\d+)", cell) for cell in cells if re.match(r"\$s?dff", cell)]
    return sum(int(width[1]) for width in widths if width is not None)
