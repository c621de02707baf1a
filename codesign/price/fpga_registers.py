"""The registers inside an ECP5's multipliers and block RAMs, which Yosys leaves unused: taken for those beside them.

Lattice's own tools do this, too. The Verilog stays as it is for every target: a register behind a product or a word
(`pipeline.memory_output`), or before a product, is a flip-flop in Yosys's netlist. Where all of a cell's bits go to
flip-flops with one clock and one enable, and nowhere else, the cell's own register takes their place. Before a product
it is those from which all bits come; they stay where others read them, too. None of them has a reset, and all begin
with 0, as the cells' do.

MULT18X18D and DP16KD: Lattice FPGA-TN-02205 and FPGA-TN-02204.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FLIP_FLOP, MULTIPLIER, BLOCK_RAM = "TRELLIS_FF", "MULT18X18D", "DP16KD"

PRODUCT_BITS, FACTOR_BITS, WORD_BITS = 36, 18, 18

Bit = int | str
"""A net by its number, or a constant: "0", "1" or "x"."""


@dataclass(frozen=True, slots=True)
class _Clocking:
    """When a register takes a value."""

    clock: Bit
    enable: Bit


def with_cell_registers(netlist: str, top: str) -> str:
    """A netlist in Yosys's JSON whose multipliers and block RAMs have the registers around them inside."""
    design = json.loads(netlist)
    _Packing(design["modules"][top]).pack()
    return json.dumps(design)


class _Packing:
    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: dict[str, Any] = module["cells"]
        self.readers: dict[Bit, set[str]] = defaultdict(set)  # the cells that read a net; "" is outside of the module
        self.registers: dict[Bit, str] = {}  # a net → the flip-flop that drives it
        for port in module["ports"].values():
            for bit in port["bits"]:
                self.readers[bit].add("")
        for name, cell in self.cells.items():
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "input":
                    for bit in bits:
                        self.readers[bit].add(name)
            if cell["type"] == FLIP_FLOP:
                self.registers[cell["connections"]["Q"][0]] = name

    def pack(self) -> None:
        for name in [name for name, cell in self.cells.items() if cell["type"] == BLOCK_RAM]:
            for port in "AB":
                self.pack_word(name, port)
        for name in [name for name, cell in self.cells.items() if cell["type"] == MULTIPLIER]:
            self.pack_product(name)
            self.pack_factors(name)

    # -- behind a cell -----------------------------------------------------------------------------------------------

    def pack_word(self, name: str, port: str) -> None:
        """A block RAM's output register, of one of its ports."""
        clock = self.cells[name]["connections"][f"CLK{port}"][0]
        found = self.registers_behind(name, [f"DO{port}{bit}" for bit in range(WORD_BITS)], clock)
        if found is not None:
            self.cells[name]["parameters"][f"REGMODE_{port}"] = "OUTREG"
            self.connect(name, f"OCE{port}", found.enable)

    def pack_product(self, name: str) -> None:
        """A multiplier's output register."""
        found = self.registers_behind(name, [f"P{bit}" for bit in range(PRODUCT_BITS)])
        if found is not None:
            self.clock(name, "OUTPUT", 0, found)

    def registers_behind(self, name: str, pins: Sequence[str], clock: Bit | None = None) -> _Clocking | None:
        """Take the place of the flip-flops that all used pins go to, if that is so and they are clocked alike.

        `clock`: the only one that the cell's register can have; any if it is not said.
        """
        connections = self.cells[name]["connections"]
        taken: dict[str, str] = {}  # a pin → its flip-flop
        for pin in pins:
            bit = connections.get(pin, ["x"])[0]
            readers = self.readers.get(bit, set()) if isinstance(bit, int) else set()
            if not readers:
                continue
            reader = next(iter(readers))
            if len(readers) > 1 or not reader or not self.takes(reader, bit):
                return None
            taken[pin] = reader
        clocking = self.common(taken.values())
        if clocking is None or clock not in (None, clocking.clock):
            return None
        for pin, register in taken.items():
            connections[pin] = self.cells[register]["connections"]["Q"]
            self.remove(register)
        return clocking

    def takes(self, reader: str, bit: Bit) -> bool:
        """Whether a cell is a flip-flop that a net is the value for, and nothing else."""
        cell = self.cells[reader]
        if cell["type"] != FLIP_FLOP:
            return False
        return [pin for pin, bits in cell["connections"].items() if bit in bits] == ["DI"]

    # -- before a multiplier -----------------------------------------------------------------------------------------

    def pack_factors(self, name: str) -> None:
        """A multiplier's registers of both factors: nextpnr knows its delays with both or with none."""
        factors = {factor: self.registers_before(name, factor) for factor in "AB"}
        clockings = {factor: self.common(set(found.values())) for factor, found in factors.items()}
        if None in clockings.values():
            return
        connections = self.cells[name]["connections"]
        for number, (factor, found) in enumerate(factors.items(), start=1):
            for pin, register in found.items():
                connections[pin] = self.cells[register]["connections"]["DI"]
            for register in set(found.values()):
                self.move_reader(name, register)
            clocking = clockings[factor]
            assert clocking is not None
            self.clock(name, f"INPUT{factor}", number, clocking)

    def registers_before(self, name: str, factor: str) -> dict[str, str]:
        """By pin, the flip-flop that a factor's bit comes from; none at all unless each bit is of one, or is 0."""
        found: dict[str, str] = {}
        for pin in (f"{factor}{bit}" for bit in range(FACTOR_BITS)):
            bit = self.cells[name]["connections"][pin][0]
            if bit in ("0", "x"):
                continue
            if bit not in self.registers:
                return {}
            found[pin] = self.registers[bit]
        return found

    def move_reader(self, name: str, register: str) -> None:
        """A multiplier reads what a flip-flop did; that goes where nobody else reads it."""
        value, output = (self.cells[register]["connections"][pin][0] for pin in ("DI", "Q"))
        self.readers[output].discard(name)
        self.readers[value].add(name)
        if not self.readers[output]:
            self.remove(register)

    # -- flip-flops --------------------------------------------------------------------------------------------------

    def common(self, registers: Iterable[str]) -> _Clocking | None:
        """How flip-flops are clocked, if all are alike, and there is one."""
        found = {self.clocking(register) for register in registers}
        return found.pop() if len(found) == 1 else None

    def clocking(self, register: str) -> _Clocking | None:
        """When a flip-flop takes its value; None of one that a cell's register cannot stand for."""
        connections, settings = self.cells[register]["connections"], self.cells[register]["parameters"]
        is_plain = settings.get("CLKMUX", "CLK") == "CLK" and settings.get("REGSET", "RESET") == "RESET"
        if not is_plain or connections.get("LSR", ["0"])[0] != "0":
            return None
        match settings.get("CEMUX", "1").strip():  # Yosys writes "1 ", so that nobody takes it for a number
            case "1":
                return _Clocking(connections["CLK"][0], "1")
            case "CE":
                return _Clocking(connections["CLK"][0], connections["CE"][0])
            case _:
                return None

    def remove(self, register: str) -> None:
        cell = self.cells.pop(register)
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input":
                self.readers[bits[0]].discard(register)
        self.registers.pop(cell["connections"]["Q"][0])

    # -- pins --------------------------------------------------------------------------------------------------------

    def clock(self, name: str, register: str, number: int, clocking: _Clocking) -> None:
        """A register of a multiplier gets the first clock, and an enable of its own."""
        settings = self.cells[name]["parameters"]
        settings |= {f"REG_{register}_{kind}": f"{kind}{place}" for kind, place in (("CLK", 0), ("CE", number))}
        settings[f"REG_{register}_RST"] = "RST0"
        self.connect(name, "CLK0", clocking.clock)
        self.connect(name, f"CE{number}", clocking.enable)
        self.connect(name, "RST0", "0")

    def connect(self, name: str, pin: str, bit: Bit) -> None:
        self.cells[name]["connections"][pin] = [bit]
        self.cells[name]["port_directions"][pin] = "input"
        self.readers[bit].add(name)
