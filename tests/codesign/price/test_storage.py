"""A small memory is the smaller of flip-flops and macros, and each bit and each entry of it costs something."""

from __future__ import annotations

import dataclasses

import pytest
from amaranth.hdl import unsigned
from amaranth.lib.memory import Memory

from tilewright.codesign.price.netlist import netlist
from tilewright.codesign.price.price import chosen
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.storage import Entries, StorageKind, in_flip_flops, kind_of, options, whole
from tilewright.codesign.price.synthesis import Cost, Synthesis
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.results import ResultQueue

# A part that only says what shall be priced is never built itself.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

QUEUE = StorageKind(depth=3, reads=("sync",), transparent=((0,),), writes=1)
WAITING = StorageKind(depth=4, reads=("comb",), transparent=((),), writes=1)


def memory_of(kind: StorageKind, bits: int) -> Memory:
    entries = Entries(kind, bits)
    whole(netlist, entries)  # Amaranth warns of what is never built
    return entries.memory


def chosen_for(kind: StorageKind, bits: int, process: Process, synthesis: Synthesis) -> tuple[Cost, bool]:
    found = options(netlist, "queue q", memory_of(kind, bits), process, exact=False)
    costs = synthesis.costs_of({"flip-flops": found.flip_flops, "beside": found.beside})
    cost, macros = chosen(found, costs["flip-flops"], costs["beside"])
    return cost, macros is not None


@pytest.mark.parametrize("kind", [QUEUE, WAITING])
def test_a_wide_one_is_on_the_line_through_two_narrow_ones(kind: StorageKind, synthesis: Synthesis) -> None:
    estimate, exact = (synthesis.cost(in_flip_flops(netlist, kind, 80, exact)) for exact in (False, True))
    assert estimate.flip_flops == exact.flip_flops
    assert estimate.area_um2 == pytest.approx(exact.area_um2, rel=0.02)


@pytest.mark.parametrize("kind", [QUEUE, WAITING])
def test_grows_with_width_and_depth(kind: StorageKind, synthesis: Synthesis) -> None:
    by_width = [synthesis.cost(in_flip_flops(netlist, kind, bits, False)).area_um2 for bits in (1, 8, 48, 49, 200)]
    deeper = [dataclasses.replace(kind, depth=depth) for depth in (2, 3, 4, 6)]
    by_depth = [synthesis.cost(in_flip_flops(netlist, each, 8, False)).area_um2 for each in deeper]
    assert by_width == sorted(set(by_width)) and by_depth == sorted(set(by_depth))
    assert min(*by_width, *by_depth) > 0


@pytest.mark.parametrize("queue", [Fifo(unsigned(20), 8), ResultQueue(unsigned(20), 8)])
def test_a_queue_is_its_entries_and_what_points_at_them(queue: Fifo | ResultQueue, synthesis: Synthesis) -> None:
    found = netlist(queue, Memory)
    [entries] = [place.part for place in found.places.values()]
    assert isinstance(entries, Memory)
    kind, bits = kind_of(entries)
    around, inside = [(1, module) for module in found.modules], in_flip_flops(netlist, kind, bits, True)
    pieces = synthesis.cost(around) + synthesis.cost(inside)
    exact = synthesis.cost(whole(netlist, queue))
    assert pieces.flip_flops == pytest.approx(exact.flip_flops, abs=4)  # where the oldest entry is, kept in both
    assert pieces.area_um2 == pytest.approx(exact.area_um2, rel=0.04)


def test_few_bits_are_in_flip_flops_and_many_in_macros(toy: Process, synthesis: Synthesis) -> None:
    cost, has_macros = chosen_for(QUEUE, 8, toy, synthesis)
    assert not has_macros and cost.flip_flops >= 3 * 8
    cost, has_macros = chosen_for(dataclasses.replace(QUEUE, depth=64), 64, toy, synthesis)
    assert has_macros and cost.flip_flops < 2 * 64  # the word that is kept beside the macro, and no entry


def test_what_is_read_without_a_clock_is_in_no_macro(toy: Process, synthesis: Synthesis) -> None:
    _, has_macros = chosen_for(dataclasses.replace(WAITING, depth=64), 64, toy, synthesis)
    assert not has_macros


def test_a_kind_is_what_its_memory_has() -> None:
    assert kind_of(memory_of(QUEUE, 7)) == (QUEUE, 7)
    assert kind_of(memory_of(WAITING, 9)) == (WAITING, 9)
