"""The machine's counters: cycles, bytes on the bus, and what each engine did in every cycle of the run."""

from __future__ import annotations

from typing import assert_never

from amaranth.hdl import Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.engine import Direction, Engine
from tilewright.isa.machine.machine import Counting, Machine
from tilewright.rtl.bus import read_channels
from tilewright.rtl.dispatch import HeadStatus
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.outline import outlined
from tilewright.rtl.templates.table import facet_of

COUNTER_BITS = 40
"""A run of 2**40 cycles takes half an hour at 500 MHz."""


def engine_counter_names(machine: Machine, engine: Engine) -> tuple[str, ...]:
    """`busy`, `stall.port`, …, `wait.load`, …, `idle`: every cycle of a run counts in exactly one of them."""
    return (
        "busy",
        *(f"stall.{cause}" for cause in facet_of(engine.template).stalls),
        *(f"wait.{other}" for other in machine.engines),
        "idle",
    )


FEW = ("cycles", "dram_bytes_read", "dram_bytes_written")
"""The counters that are of no engine."""


def port_counter_names(machine: Machine) -> tuple[str, ...]:
    """`port0.bytes_read`, …, `port1.bytes_written`: for each of several AXI ports, the ways that somebody uses."""
    if machine.dram.ports == 1:
        return ()
    ways = zip(("bytes_read", "bytes_written"), bus_channels(machine), strict=True)
    return tuple(f"port{port}.{way}" for way, channels in ways for port in channels)


def counter_names(machine: Machine) -> tuple[str, ...]:
    """The counters that a machine has, in the order of their registers."""
    match machine.counting:
        case Counting.NONE:
            return ()
        case Counting.FEW:
            return (*FEW, *port_counter_names(machine))
        case Counting.ALL:
            engines = machine.engines.values()
            own = (f"{engine}.{name}" for engine in engines for name in engine_counter_names(machine, engine))
            return (*FEW, *own, *port_counter_names(machine))
        case _:
            assert_never(machine.counting)


class CounterValues(data.StructLayout):
    """The values of a machine's counters, by name."""

    def __init__(self, machine: Machine) -> None:
        super().__init__({name: unsigned(COUNTER_BITS) for name in counter_names(machine)})


def bus_channels(machine: Machine) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The AXI ports through which bytes are read, and those through which they are written."""
    return read_channels(machine), machine.ports(Direction.OUT)


class Counters(wiring.Component):
    """Counts in every cycle with `is_counting`; `clear` sets all to zero.

    Per engine, by its number: its activity, the head of its queue, and `starts` when it takes an instruction. Per way
    of each of several AXI ports, in the order of `port_counter_names`: the bytes that pass.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        count = len(machine.engines)
        ways = len(port_counter_names(machine))
        read, written = (machine.dram.bus_bytes * len(channels) for channels in bus_channels(machine))
        super().__init__(
            {
                "is_counting": In(1),
                "clear": In(1),
                "bytes_read": In(range(read + 1)),
                "bytes_written": In(range(written + 1)),
                "activities": In(Activity).array(count),
                "heads": In(HeadStatus(machine)).array(count),
                "starts": In(1).array(count),
                "values": Out(CounterValues(machine)),
                **({"port_bytes": In(range(machine.dram.bus_bytes + 1)).array(ways)} if ways else {}),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        if self.machine.counting is Counting.NONE:
            return m
        with m.If(self.is_counting):
            for name, more in zip(FEW, (1, self.bytes_read, self.bytes_written), strict=True):
                m.d.sync += self.values[name].eq(self.values[name] + more)
            for position, name in enumerate(port_counter_names(self.machine)):
                m.d.sync += self.values[name].eq(self.values[name] + self.port_bytes[position])
        for engine in self.machine.engines.values() if self.machine.counting is Counting.ALL else ():
            names = engine_counter_names(self.machine, engine)
            counted = Signal(range(len(names)), name=f"{engine}_counted")
            self.build_choice(m, engine, names, counted)
            with m.If(self.is_counting), m.Switch(counted):
                for position, name in enumerate(names):
                    with m.Case(position):
                        value = self.values[f"{engine}.{name}"]
                        m.d.sync += value.eq(value + 1)
        with m.If(self.clear):
            m.d.sync += self.values.eq(0)
        return m

    def build_choice(self, m: Module, engine: Engine, names: tuple[str, ...], counted: Signal) -> None:
        """Which counter this cycle belongs to: the first line that applies of the table in the docs."""
        head = self.heads[engine.number]
        with m.Switch(self.activities[engine.number]):
            with m.Case(Activity.BUSY):
                m.d.comb += counted.eq(names.index("busy"))
            for cause, activity in facet_of(engine.template).stalls.items():
                with m.Case(activity):
                    m.d.comb += counted.eq(names.index(f"stall.{cause}"))
            with m.Default():
                m.d.comb += counted.eq(names.index("idle"))
                for position, other in reversed(list(enumerate(self.machine.engines))):
                    with m.If(head.waits_for[position]):
                        m.d.comb += counted.eq(names.index(f"wait.{other}"))
                with m.If(self.starts[engine.number]):
                    m.d.comb += counted.eq(names.index("busy"))
