"""The operators of hardware are counted by hand-made rules; equal hardware counts alike, other hardware does not."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module, Mux, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tilewright.codesign.price.netlist import netlist
from tilewright.codesign.price.operators import ENTRY, FLIP_FLOP, MUX, Count, sketch
from tilewright.codesign.price.units import REPEATED
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.npu import Npu


class Example(wiring.Component):
    """A sum, which two registers read: one of them as a choice, and where it is enabled."""

    def __init__(self, bits: int, added: int = 1) -> None:
        self.added = added
        super().__init__({"a": In(bits), "chosen": In(1), "b": Out(bits), "c": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = self.a + self.added
        m.d.sync += self.b.eq(total)
        with m.If(self.chosen):
            m.d.sync += self.c.eq(Mux(self.chosen, total, self.a))
        return m


def count(part: wiring.Component) -> Count:
    (module,) = sketch(part).modules
    return module.count


def test_each_operator_counts_once_and_by_its_bits() -> None:
    found = count(Example(8))
    assert found.flip_flops == 16
    a_sum, a_choice, an_enable = 6.0 * 8, MUX * 9, MUX * 8  # the sum has a ninth bit
    assert found.gates == pytest.approx(16 * FLIP_FLOP + a_sum + a_choice + an_enable)


def test_a_storage_counts_its_entries_and_the_choice_among_them() -> None:
    class Storage(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"word": Out(8)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.submodules.memory = memory = Memory(shape=unsigned(8), depth=4, init=[])
            memory.write_port()
            m.d.comb += self.word.eq(memory.read_port(domain="comb").data)
            return m

    found = count(Storage())
    assert found.flip_flops == 32
    assert found.gates == pytest.approx(32 * ENTRY + 3 * 8 * MUX)


def test_equal_logic_has_the_same_digest_and_a_constant_makes_it_another() -> None:
    assert count(Example(8)) == count(Example(8))
    assert count(Example(8)).digest != count(Example(8, added=2)).digest
    assert count(Example(8)).gates == count(Example(8, added=2)).gates


@pytest.mark.parametrize("isa", ["tiny8", pytest.param("rect", marks=pytest.mark.slow)])
def test_finds_the_modules_and_places_of_the_netlist(isa: str) -> None:
    machine = load_machine(isa)
    counted, converted = (read(Npu(machine), *REPEATED) for read in (sketch, netlist))
    paths = {module.path.partition("$")[0] for module in converted.modules}  # a name that a signal has is numbered
    assert {module.path for module in counted.modules} == paths
    assert {path: type(place.part) for path, place in counted.places.items()} == {
        path: type(place.part) for path, place in converted.places.items()
    }


@pytest.mark.parametrize(("fewer", "more"), [((8, 3), (8, 4)), ((8, 3), (9, 3))])
def test_grows_with_bits_and_depth(fewer: tuple[int, int], more: tuple[int, int]) -> None:
    few, many = (sum(each.count.gates for each in sketch(Fifo(*sizes)).modules) for sizes in (fewer, more))
    assert few < many
