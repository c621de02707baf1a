"""What one machine takes: area of logic and memories, flip-flops and clock, in a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilewright.codesign.points.machine import machine_key
from tilewright.codesign.price.clock import Clock
from tilewright.codesign.price.known_clock import known_clock
from tilewright.codesign.price.price import Price, price_machine
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.target import aimed
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """The price of a machine as plain figures: synthesised, not placed."""

    machine: str
    machine_key: str
    process: str
    logic_mm2: float
    memories_mm2: float
    kge: float  # of the logic, in thousands of gates
    flip_flops: int
    basis: str  # of the logic: exact, estimated, or fitted
    fitted_to: str | None  # the machine from whose price the logic is fitted
    clock_ns: float | None  # None where it was not asked for
    clock_limit: str = ""  # the unit with the longest path

    @property
    def area_mm2(self) -> float:
        """Cells of the logic and macros of the memories side by side, without what lies between them."""
        return self.logic_mm2 + self.memories_mm2

    @property
    def clock_mhz(self) -> float | None:
        return None if self.clock_ns is None else 1000 / self.clock_ns

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> MachineFigures:
        return MachineFigures(**value)


@dataclass(frozen=True, slots=True)
class Priced:
    """A machine's price, which energy is computed from, and its figures."""

    price: Price
    figures: MachineFigures


def price_of(
    machine: Machine,
    like: Machine | None = None,
    with_clock: bool = True,
    process: Process | None = None,
    target_mhz: float | None = None,
) -> Priced:
    """The price of a machine, from the cache where it is known.

    The logic is estimated; with `like`, a machine that differs in few facts, it is fitted to that one's price, which
    takes a second where an estimate takes up to a minute. The clock, which takes up to some minutes, is always the
    machine's own. With a clock to aim at, macros and mapping are those that reach it in the least area, or come
    nearest. Raises PriceError.
    """
    process = process or load_process()
    price = price_machine(machine, process, like=like)
    clock = known_clock(machine, process) if with_clock and target_mhz is None else None
    return _priced(price, "fitted" if like is not None else "estimated", clock, target_mhz)


def exact_price_of(machine: Machine, target_mhz: float | None = None) -> Priced:
    """As `price_of`, with all logic synthesised, and no clock but of a machine that aims at one."""
    return _priced(price_machine(machine, exact=True), "exact", None, target_mhz)


def _priced(price: Price, basis: str, clock: Clock | None, target_mhz: float | None) -> Priced:
    logic_um2 = price.logic_um2
    if target_mhz is not None:
        aim = aimed(price, target_mhz)
        price, logic_um2, clock = replace(price, memories=aim.memories), aim.logic_um2, aim.clock
    figures = MachineFigures(
        machine=price.machine.name,
        machine_key=machine_key(price.machine),
        process=price.process.name,
        logic_mm2=logic_um2 / 1e6,
        memories_mm2=price.memories_um2 / 1e6,
        kge=price.gates(logic_um2) / 1000,
        flip_flops=sum(unit.flip_flops for unit in price.units),
        basis=basis,
        fitted_to=price.fitted_to,
        clock_ns=None if clock is None else clock.ns,
        clock_limit="" if clock is None else clock.units[0].unit,
    )
    return Priced(price, figures)
