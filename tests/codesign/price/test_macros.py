"""Memories take the macros that cost least, rounded up; what they waste and take per access follows."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.process import Process, load_process
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine


def test_rounds_up_in_both_directions(toy: Process) -> None:
    machine = load_machine("tiny8", ["memories.act.kib=2"])  # 4 banks of 64 words of 8 bytes
    price = memory_price(machine, machine.memories["act"], toy)
    assert (price.storages, price.words, price.bits) == (4, 64, 64)
    assert (price.macro.name, price.across, price.deep) == ("wide", 2, 1)
    assert price.area_um2 == 4 * 2 * 3000
    assert (price.used_bits, price.wasted_bits) == (4 * 64 * 64, 0)
    assert price.read_pj == 2 * 5
    assert price.write_pj == 5 * 3  # not 2 · 7: no less than 40 bits, for which five small ones take the least area


def test_a_memory_with_one_reader_and_one_writer_is_one_storage(toy: Process) -> None:
    machine = load_machine("tiny8", ["memories.wgt.kib=1"])  # 2 banks of 64 words of 8 bytes
    price = memory_price(machine, machine.memories["wgt"], toy)
    assert (price.storages, price.words, price.bits) == (1, 128, 64)
    assert (price.macro.name, price.across, price.deep) == ("wide", 2, 2)


def test_says_what_is_wasted(toy: Process) -> None:
    machine = load_machine("tiny8", ["memories.lut.depth=1000"])  # in each lane 1000 words of a byte
    price = memory_price(machine, machine.memories["lut"], toy)
    assert (price.storages, price.words, price.bits) == (8, 1000, 8)
    assert (price.macro.name, price.across, price.deep) == ("small", 1, 16)
    assert price.wasted_bits == 8 * (16 * 64 - 1000) * 8


def test_an_energy_that_the_library_does_not_measure_is_unknown(toy: Process) -> None:
    machine = load_machine("tiny8", ["memories.act.kib=64"])
    only_large = dataclasses.replace(toy, macros=tuple(macro for macro in toy.macros if macro.name == "large"))
    price = memory_price(machine, machine.memories["act"], only_large)
    assert (price.read_pj, price.write_pj) == (None, None)


def test_a_library_without_two_port_macros_is_refused(toy: Process) -> None:
    machine = load_machine("tiny8")
    one_port = dataclasses.replace(toy, macros=tuple(macro for macro in toy.macros if macro.ports == 1))
    with pytest.raises(PriceError, match="^toy has no macro with 2 ports, which act needs$"):
        memory_price(machine, machine.memories["act"], one_port)


def one_port(text: str) -> Machine:
    return load_machine_text(f"extends: tiny8\nmemories: {{act: {{ports: 1, kib: 64, {text}}}}}\n", "one_port")


def test_a_bank_with_one_port_is_in_macros_with_one_port(toy: Process) -> None:
    """4 banks of 2,048 words of 64 bits, in macros of 64 words of 32 bits: 2 across, 32 deep, 1,500 µm² each."""
    machine = one_port("banks: 4")
    price = memory_price(machine, machine.memories["act"], toy)
    assert (price.macro.name, price.storages, price.across, price.deep) == ("wide_1p", 4, 2, 32)
    assert price.area_um2 == 4 * 2 * 32 * 1500
    assert price.read_pj == 2 * 5  # measured, of two macros


def test_a_library_without_one_port_macros_is_refused(toy: Process) -> None:
    machine = one_port("banks: 4")
    two_ports = dataclasses.replace(toy, macros=tuple(macro for macro in toy.macros if macro.ports == 2))
    with pytest.raises(PriceError, match="^toy has no macro with 1 port, which act needs$"):
        memory_price(machine, machine.memories["act"], two_ports)


def test_grows_with_kib() -> None:
    process = load_process()
    machines = [load_machine("tiny8", [f"memories.act.kib={kib}"]) for kib in (16, 32, 64, 128, 512)]
    areas = [memory_price(machine, machine.memories["act"], process).area_um2 for machine in machines]
    assert areas == sorted(set(areas))
    assert areas[0] > 0
