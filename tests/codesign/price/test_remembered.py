"""Counts that are found again are those of all the hardware counted anew, whichever machines came before."""

from __future__ import annotations

import dataclasses
import gc
import random
from collections.abc import Iterable, Iterator

import pytest
from amaranth.hdl import Module

from tests.random_machines import random_machine
from tests.rings import slow_beyond
from tests.test_dram_ports import two_ports
from tilewright.codesign.advise.changes import steps
from tilewright.codesign.price.fit import counted
from tilewright.codesign.price.netlist import NetlistReader
from tilewright.codesign.price.operators import Count, Sketch, sketch
from tilewright.codesign.price.price import Price, price_machine
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.remembered import remembered_sketch
from tilewright.codesign.price.unit import FITTED, SYNTHESISED
from tilewright.codesign.price.units import unit_parts
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.machine import Machine

SIZES = {
    "array.rows": (16, 24, 40),
    "array.cols": (16, 24, 40),
    "memories.act.kib": (28, 30, 32),
    "memories.wgt.kib": (28, 30, 32),
    "engines.mma.queue": (2, 3, 8),
    "engines.load.bursts": (2, 3, 9),
    "engines.store.beats": (2, 3, 9),
    "dram.outstanding_beats": (16, 64),
    "fetch_beats": (16, 128),
}
"""Values that tiny8 may have instead of its own."""


def counts(read: NetlistReader[Sketch], machine: Machine) -> list[tuple[str, Count]]:
    """Of each unit and each of its storages, in order."""
    bills = {}
    for name, unit in unit_parts(read, machine, load_process(), exact=False).items():
        bills[name] = unit.bill
        for path, storage in unit.storages.items():
            bills |= {f"{path} in flip-flops": storage.flip_flops, f"{path} beside": storage.beside}
    return list(counted(bills).items())


def changed(machine: Machine, rng: random.Random, most: int) -> Iterator[tuple[str, Machine]]:
    """The machine, then with one key changed, each in its turn, as far as there is such a machine."""
    changes = steps(machine)
    yield "as it is", machine
    for change in rng.sample(changes, min(most, len(changes))):
        try:
            yield change.name, change.apply(machine)
        except IsaError:
            continue


def hold_equal(machines: Iterable[tuple[str, Machine]]) -> None:
    for name, machine in machines:
        assert counts(remembered_sketch, machine) == counts(sketch, machine), (machine.name, name)


@pytest.mark.parametrize("seed", slow_beyond(1, range(4)))
def test_a_changed_machine_counts_as_counted_anew(seed: int) -> None:
    hold_equal(changed(load_machine("tiny8"), random.Random(seed), 2 + 2 * seed))


@pytest.mark.parametrize("seed", slow_beyond(1, range(5)))
def test_a_random_machine_counts_as_counted_anew(seed: int) -> None:
    seeds = range(3 * seed + 1, 3 * seed + 4) if seed else [0]
    hold_equal((f"seed {each}", random_machine(each)) for each in seeds)


def test_a_machine_with_ports_counts_as_counted_anew() -> None:
    """A load on a port of its own, or on the first; its port has a read channel, which the price names."""
    machines = [("alone", two_ports()), ("with others", two_ports(port_of_load2=0))]

    hold_equal(machines)
    names = [{name for name, _ in counts(remembered_sketch, machine)} for _, machine in machines]
    assert [found & {"read channel", "read channel 1"} for found in names] == [
        {"read channel", "read channel 1"},
        {"read channel"},
    ]


@pytest.mark.long
@pytest.mark.parametrize("isa", shipped_machines())
def test_every_key_of_a_shipped_machine(isa: str) -> None:
    hold_equal(changed(load_machine(isa), random.Random(0), 10_000))


def test_what_is_the_same_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another depth of one queue: the queue, and in two widths its entries and what stands beside macros.

    And what it stands in, and the registers that show the machine's hash.
    """
    known: dict[tuple[type, ...], object] = {}
    monkeypatch.setattr("tilewright.codesign.price.remembered._KNOWN", known)
    counts(remembered_sketch, load_machine("tiny8"))
    before = set(known)
    counts(remembered_sketch, load_machine("tiny8", ("engines.load.queue=8",)))
    found = sorted(key[0].__name__ for key in known.keys() - before)
    assert found == ["Bypass", "Bypass", "Dispatch", "Entries", "Entries", "Fifo", "Registers"]


@pytest.mark.parametrize("seed", slow_beyond(1, range(8)))
def test_a_fitted_price_is_that_of_hardware_counted_anew(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, after other machines with which it shares parts."""
    rng, like = random.Random(seed), load_machine("tiny8")
    keys = rng.sample(sorted(SIZES), 3)
    machines = [load_machine("tiny8", tuple(f"{key}={rng.choice(SIZES[key])}" for key in keys)) for _ in range(2)]
    reused = [figures(price_machine(machine, like=like)) for machine in machines]
    monkeypatch.setattr("tilewright.codesign.price.price.remembered_sketch", sketch)
    assert reused == [figures(price_machine(machine, like=like)) for machine in machines]


def figures(price: Price) -> tuple[object, ...]:
    return price.units, price.queues, price.memories


def test_registers_that_show_another_hash_are_other_hardware() -> None:
    like = load_machine("tiny8")
    other = dataclasses.replace(like, text=f"{like.text}about: another\n")
    bases = [price_machine(machine, like=like).unit("host registers").basis for machine in (like, other)]
    assert bases == [SYNTHESISED, FITTED]


def test_what_was_counted_waits_for_no_search_for_garbage() -> None:
    """Modules of Amaranth point at themselves."""
    counts(sketch, load_machine("tiny8"))
    gc.collect()
    before = {id(each) for each in gc.get_objects() if type(each) is Module}  # what other tests keep
    counts(sketch, load_machine("tiny8"))
    left = [each for each in gc.get_objects() if type(each) is Module and id(each) not in before]
    assert not left
