"""AXI ports in machine files: who is on which, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.engine import Direction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.diff import difference
from tilewright.isa.pages.manual import manual
from tilewright.isa.pages.show import peak_rates, port_users, tables

LOAD2 = "load2: {template: dma, queue: 1, reads: [dram], writes: [act], port: %s}"
STORE2 = "out: {template: dma, queue: 1, reads: [act], writes: [dram], port: %s}"
OTHERS = "instructions: {load_act: {engine: [load, load2]}, store_act: {engine: [store, out]}}"


def with_ports(dram: str, *engines: str) -> Machine:
    file = f"extends: base16\ndram: {{ports: {dram}}}\nengines: {{{', '.join(engines)}}}\n{OTHERS}"
    return load_machine_text(file, "m.yaml")


def test_a_machine_that_says_nothing_has_one_port() -> None:
    machine = load_machine("base16")

    assert machine.dram.ports == 1
    assert port_users(machine) == [["fetch", "load", "store"]]


def test_each_dma_engine_is_on_the_port_that_it_says() -> None:
    machine = with_ports("3", LOAD2 % 2, STORE2 % 1)

    assert port_users(machine) == [["fetch", "load", "store"], ["out"], ["load2"]]
    assert (machine.ports(Direction.IN), machine.ports(Direction.OUT)) == ((0, 2), (0, 1))


def complaints(text: str) -> list[str]:
    with pytest.raises(IsaError) as error:
        load_machine_text(text, "m.yaml")
    return [line.partition(": ")[2] for line in str(error.value).splitlines()]


def test_every_fault_of_ports_is_told_at_once() -> None:
    engines = f"{LOAD2 % 7}, {STORE2 % 0}"
    found = complaints(f"extends: base16\ndram: {{ports: 3}}\nengines: {{{engines}}}\n{OTHERS}")

    assert found == [
        "dram.ports: nothing is on port 1, 2; give each to a DMA engine (`port: N`), or have fewer ports",
        "engines: expected one dma engine that writes dram on port 0, not 2: store, out; beats of one port cannot be "
        "mixed: give each a `port` of its own, and the machine as many dram.ports",
        "engines.load2.port: there is no port 7; with dram.ports = 3, ports are 0 to 2",
    ]


@pytest.mark.parametrize(
    ("dram", "port", "expected"),
    [
        ("1", "1", ["engines.load2.port: there is no port 1; with dram.ports = 1, ports are 0 alone"]),
        ("17", "1", ["dram.ports: 17 is out of range; expected 1 to 16"]),
        ("two", "1", ["dram.ports: expected an integer; unknown parameter 'two'; there are: rows, cols, lanes"]),
        ("2", "-1", ["engines.load2.port: -1 is out of range; expected 0 to 15"]),
    ],
)
def test_one_fault_is_told_once(dram: str, port: str, expected: list[str]) -> None:
    text = f"extends: base16\ndram: {{ports: {dram}}}\nengines: {{{LOAD2 % port}}}\n"
    text += "instructions: {load_act: {engine: [load, load2]}}"

    assert complaints(text) == expected


def test_pages_tell_who_is_on_which_port(tmp_path: Path) -> None:
    machine = with_ports("2", LOAD2 % 1, STORE2 % 1)
    shown = {row[0]: row[1] for row in tables(machine)[0].rows}
    rates = {(row[0], row[2]): row[1] for row in peak_rates(machine).rows}

    assert (shown["port 0"], shown["port 1"]) == ("fetch, load, store", "load2, out")
    assert (rates["DRAM, reading", "bytes a cycle"], rates["DRAM, writing", "bytes a cycle"]) == (32, 32)
    assert "The bus has 2 ports: 0 for fetch, load, store; 1 for load2, out. Each moves 16 bytes" in manual(machine)
    assert "2 ports of 16 bytes a cycle" in repr(machine)
    assert "dram.ports: 1 → 2" in difference(load_machine("base16"), machine)


def test_a_difference_says_the_port_that_an_engine_had() -> None:
    before, after = with_ports("2", LOAD2 % 1, STORE2 % 1), with_ports("2", LOAD2 % 0, STORE2 % 1)

    assert "engines.load2.port: 1 → 0" in difference(before, after)
