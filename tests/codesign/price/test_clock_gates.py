"""Clock gates in a price: which flip-flops are behind them, what they take, how often the clock passes."""

import dataclasses
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.clock_gates import ClockGate, gated
from tilewright.codesign.price.energy import logic_pj
from tilewright.codesign.price.netlist import netlist
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.synthesis import Synthesis
from tilewright.codesign.price.unit import SYNTHESISED, PricedUnit
from tilewright.codesign.templates.facet import LogicEnergy
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.timing import mma_write

GATE = ClockGate("gate", 5.0, 0.25, 0.5)


class Held(wiring.Component):
    """Eight bits with an enable, of which a reset clears four; and two that are written in every cycle."""

    input: In(8)
    enable: In(1)
    output: Out(8)
    always: Out(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cleared, kept = Signal(4), Signal(4, reset_less=True)
        with m.If(self.enable):
            m.d.sync += [cleared.eq(self.input[:4]), kept.eq(self.input[4:])]
        m.d.sync += self.always.eq(self.input[:2])
        m.d.comb += [self.output[:4].eq(cleared), self.output[4:].eq(kept)]
        return m


@pytest.mark.slow
def test_registers_with_an_enable_are_behind_gates_and_those_with_a_reset_too() -> None:
    process = load_process()
    [with_gates] = Synthesis(process, gates_clocks=True).costs(netlist(Held()).modules)
    [without] = Synthesis(process).costs(netlist(Held()).modules)
    # What a reset clears is enabled by it as well: a gate of its own.
    assert (with_gates.flip_flops, with_gates.gated, with_gates.clock_gates) == (10, 8, 2)
    assert (without.flip_flops, without.gated, without.clock_gates) == (10, 0, 0)
    assert with_gates.area_um2 < without.area_um2  # two gates take less than eight multiplexers


def test_a_gate_drives_no_more_than_32() -> None:
    def cell(kind: str, **connections: int) -> dict[str, object]:
        return {"type": kind, "connections": {pin: [net] for pin, net in connections.items()}}

    gates = {
        "g0": cell("clock_gate", enable=2, clock=1, gated=10),
        "g1": cell("clock_gate", enable=3, clock=1, gated=11),
    }
    behind = {f"r{n}": cell("dff", CLK=10, D=n, Q=n + 100) for n in range(20, 53)}
    others = {"a": cell("dff", CLK=11, D=90, Q=91), "b": cell("dff", CLK=1, D=92, Q=93), "c": cell("inv", A=91, Y=92)}
    found = gated({"cells": {**gates, **behind, **others}}, frozenset({"dff"}))
    assert (found.flip_flops, found.gates) == (34, 3)
    assert found.cells == {"dff": 35, "inv": 1}


def test_the_clock_of_payload_runs_while_something_is_in_flight(toy: Process) -> None:
    """Nine vectors of one tile, in a layer of 1,000 cycles."""
    machine = load_machine("tiny8", ["clock_gating=unit"])
    process = dataclasses.replace(toy, clock_gate=GATE, logic_energy=LogicEnergy(2.0, 0.0, 0.0))
    units = (
        PricedUnit("array", 0.0, 100, 0, SYNTHESISED, payload=60, gated=40, clocked=40, clock_gates=4),
        PricedUnit("run control", 0.0, 10, 0, SYNTHESISED),
    )
    vectors = make_instruction(machine.format("mma"), {"trip.x": 9})
    energy = logic_pj(Price(machine, process, False, "0", "0", units, (), ()), [vectors], 1000)
    assert energy is not None
    in_flight = 9 + machine.array.rows + mma_write(machine.array)
    reached = 60 * in_flight + 40  # weights: once
    open_gates = 4 * reached / 100
    expected = 2.0 * (10 * 1000 + reached) + 0.5 * open_gates + 0.25 * (4 * 1000 - open_gates)
    assert energy["clock"] == pytest.approx(expected)
    ungated = logic_pj(Price(load_machine("tiny8"), process, False, "0", "0", units, (), ()), [vectors], 1000)
    assert ungated is not None and ungated["clock"] == 2.0 * 110 * 1000


def test_a_process_without_a_gate_says_what_to_add(toy: Process) -> None:
    with pytest.raises(PriceError, match=r"toy has no clock gate, and clock_gating needs one: add clock_gate: \{cell,"):
        Synthesis(toy, gates_clocks=True)


def test_a_gate_is_read_from_the_process(toy_folder: Path) -> None:
    text = (toy_folder / "process.yaml").read_text()
    gate = "clock_gate: {cell: gate, area_um2: 5, closed_pj: 0.25, open_pj: 0.5}\n"
    (toy_folder / "process.yaml").write_text(text + gate)
    assert load_process(toy_folder).clock_gate == GATE
    (toy_folder / "process.yaml").write_text(text + gate.replace("open_pj: 0.5", "open_pj: -1"))
    with pytest.raises(PriceError, match=r"process\.yaml: .*open_pj"):
        load_process(toy_folder)
