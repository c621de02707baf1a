"""The whole machine: `elaborate` reads like the block diagram."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, and_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from tilewright.isa.machine.engine import Direction, Template
from tilewright.isa.machine.machine import FETCH_PORT, Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.program.faults import FaultCode
from tilewright.rtl.bus import READS, ReadChannel, axi_signature, port_name, read_channel_name, read_channels
from tilewright.rtl.counters import Counters, port_counter_names
from tilewright.rtl.delay import delayed
from tilewright.rtl.dispatch import Dispatch
from tilewright.rtl.engines import component_of
from tilewright.rtl.fetch import Fetch
from tilewright.rtl.interfaces import FAULT_LAYOUT, members_of
from tilewright.rtl.memory import BankedMemory
from tilewright.rtl.ports import built_memory, read_ports, write_ports
from tilewright.rtl.registers import Registers, host_signature
from tilewright.rtl.store import StoreEngine
from tilewright.rtl.table_memory import TableMemory
from tilewright.rtl.watchdog import Watchdog


class Npu(wiring.Component):
    """A machine with AXI4 managers to DRAM, one a port, and an AXI4-Lite subordinate for the host.

    `done` is set from the end of a run, with or without a fault, to the next start; `irq` until the host
    acknowledges it, if it is enabled.
    `running` is set in the cycles of a run; `started` and `retired` say, a bit per engine by its number, that
    the engine takes an instruction from its queue, and that it completes one: a trace for whoever watches.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        super().__init__(
            {
                **{port_name(port): Out(axi_signature(machine, port)) for port in range(machine.dram.ports)},
                "s_axi": Out(host_signature(machine)),
                "done": Out(1),
                "irq": Out(1),
                "running": Out(1),
                "started": Out(len(machine.engines)),
                "retired": Out(len(machine.engines)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = Registers(self.machine)
        wiring.connect(m, wiring.flipped(self.s_axi), registers.s_axi)
        # A run begins from the state after reset; memories keep their words.
        restarts = Signal(name="start")  # which is also what codesign/price/operators.py calls it
        m.d.comb += restarts.eq(registers.start | registers.reset)
        restart = ResetInserter(restarts)

        fetch, dispatch = Fetch(self.machine), Dispatch(self.machine)
        engines = [component_of(self.machine, of) for of in self.machine.engines.values()]
        stores = [engines[engine.number] for engine in self.machine.dma(Direction.OUT)]
        reads = {port: ReadChannel(self.machine, port) for port in read_channels(self.machine)}
        counters = Counters(self.machine)
        units = {"fetch": fetch, "dispatch": dispatch} | {read_channel_name(port): reads[port] for port in reads}
        for name, unit in {**units, **dict(zip(self.machine.engines, engines, strict=True))}.items():
            m.submodules[name] = restart(unit)
        m.d.comb += [
            fetch.base.eq(registers.regions["program"].base),
            fetch.limit.eq(registers.regions["program"].limit),
            fetch.halt.eq(self.halt_of(m, registers, "fetch")),
            dispatch.is_fetched.eq(fetch.is_finished),
            dispatch.halt.eq(self.halt_of(m, registers, "dispatch")),
        ]
        m.d.comb += [engines[of.number].regions.eq(registers.regions) for of in self.machine.of(Template.DMA)]
        m.submodules.counters = counters

        wiring.connect(m, fetch.request, reads[FETCH_PORT].fetch_request)
        wiring.connect(m, reads[FETCH_PORT].fetch_beat, fetch.beat)
        wiring.connect(m, fetch.output, dispatch.beats)
        for port, channel in reads.items():
            for of, name in zip(self.machine.on_port(port, Direction.IN), channel.engines, strict=True):
                wiring.connect(m, engines[of.number].request, getattr(channel, f"{name}_request"))
                wiring.connect(m, getattr(channel, f"{name}_beat"), engines[of.number].beat)
        queues = zip(self.machine.engines, engines, dispatch.instructions, dispatch.retires, strict=True)
        for name, engine, instructions, retires in queues:
            wiring.connect(m, instructions, engine.instruction)
            m.d.comb += [retires.eq(engine.retire), engine.halt.eq(self.halt_of(m, registers, name))]
        for memory in self.machine.memories.values():
            self.build_memory(m, memory, engines, registers, restart)
        self.build_ports(m, reads, stores)
        ports = {port: [reads[port]] for port in reads}
        for store in stores:
            ports.setdefault(store.engine.dma.port, []).append(store)
        has_fault = self.build_run(m, registers, ports, dispatch, engines)
        self.build_counters(m, registers, counters, stores, dispatch, engines, has_fault)
        return m

    def halt_of(self, m: Module, registers: Registers, unit: str) -> Value:
        """What holds a unit; with `pipeline.halt` a register of its own, a cycle later but for a start or reset."""
        if not self.machine.pipeline.halt:
            return ~self.running
        halts = Signal(name=f"{unit}_halts", init=1)
        m.d.sync += halts.eq(~registers.start & ~self.running | registers.reset)
        return halts

    def build_memory(
        self, m: Module, memory: Memory, engines: Sequence[Any], registers: Registers, restart: Callable
    ) -> None:
        """A memory with a port for every access that an engine makes to it."""
        reads = [port for port in read_ports(self.machine) if port.memory == memory.name]
        writes = [port for port in write_ports(self.machine) if port.memory == memory.name]
        readers, writers = [port.requester for port in reads], [port.requester for port in writes]
        has_tables = memory.name in self.machine.table_memories
        built = built_memory(self.machine, memory)
        user = self.machine.looking_up(memory.name) if has_tables else None
        unit = (
            TableMemory(memory, writers, user.vector.lanes, self.machine.has_gated_clocks)
            if user
            else BankedMemory(built, readers, writers, self.machine.pipeline)
        )
        m.submodules[memory.name] = restart(unit)
        m.d.comb += unit.halt.eq(self.halt_of(m, registers, memory.name))
        members = [members_of(engine) for engine in engines]
        for port, inside in (*zip(reads, unit.read_ports, strict=True), *zip(writes, unit.write_ports, strict=True)):
            wiring.connect(m, members[port.engine.number][port.member], inside)
        if user:
            wiring.connect(m, engines[user.number].lookups[memory.name], unit.lookup)

    def build_ports(self, m: Module, reads: Mapping[int, ReadChannel], stores: Sequence[StoreEngine]) -> None:
        writes = {store.engine.dma.port: store for store in stores}
        for port in range(self.machine.dram.ports):
            for name, member in axi_signature(self.machine, port).members.items():
                unit = getattr(reads[port] if name.startswith(READS) else writes[port], name)
                outside = getattr(getattr(self, port_name(port)), name)
                m.d.comb += outside.eq(unit) if member.flow is Out else unit.eq(outside)

    def build_run(
        self,
        m: Module,
        registers: Registers,
        ports: Mapping[int, Sequence[ReadChannel | StoreEngine]],
        dispatch: Dispatch,
        engines: Sequence[Any],
    ) -> Signal:
        """A run: from the start until all is done, or to the first fault and the end of what is open on the bus.

        What the watchdog gives up waiting for stays open, and no run starts, until the bus has given it after all.
        Returns whether a fault has ended it.
        """
        stages = self.machine.pipeline.halt
        has_ended, has_fault, fault = Signal(), Signal(), Signal(FAULT_LAYOUT)
        is_idle, is_late, late_port, gives_up = Signal(), Signal(), Signal(range(max(ports) + 1)), Signal()
        on_bus = [unit for units in ports.values() for unit in units]
        self.build_watchdogs(m, registers, ports, is_late, late_port)
        m.d.comb += [
            is_idle.eq(reduce(and_, (unit.is_idle for unit in on_bus))),
            self.done.eq(self.build_end(m, registers, has_ended) & (is_idle | gives_up)),
            self.irq.eq(registers.interrupt),
            registers.is_busy.eq(self.running | (has_ended & ~self.done)),
            registers.is_done.eq(self.done),
            registers.is_open.eq(~is_idle),
            registers.has_fault.eq(has_fault & self.done),
            registers.fault.eq(fault),
            self.started.eq(Cat(e.instruction.valid & e.instruction.ready for e in engines)),
            self.retired.eq(Cat(e.retire for e in engines)),
        ]
        with m.If(has_ended & is_late):
            m.d.sync += gives_up.eq(1)
        with m.If(self.running & dispatch.is_done):
            m.d.sync += [self.running.eq(0), has_ended.eq(1)]
        ends = [self.running.eq(0), has_ended.eq(1), has_fault.eq(1)]
        for holds, code, address in (
            (registers.stop, FaultCode.STOPPED, 0),
            (is_late, FaultCode.TIMEOUT, late_port),
        ):
            happens = self.running & ~dispatch.is_done & holds
            with m.If(self.build_seen(m, registers, happens, has_fault, code.name.lower())):
                reached = dispatch.fault.payload.instruction
                m.d.sync += [*ends, fault.code.eq(code), fault.instruction.eq(reached)]
                m.d.sync += fault.address.eq(delayed(m, Value.cast(address), stages, "late_port"))
        units = [*engines, dispatch]
        for unit in reversed(units):  # of the faults of one cycle, the first unit's counts
            with m.If(unit.fault.valid & ~has_fault if stages else self.running & unit.fault.valid):
                m.d.sync += [*ends, fault.eq(unit.fault.payload)]
        for holds, is_running in ((registers.start, 1), (registers.reset, 0)):
            with m.If(holds):
                m.d.sync += [self.running.eq(is_running), has_ended.eq(0), gives_up.eq(0)]
                m.d.sync += [has_fault.eq(0), fault.eq(0)]
        return has_fault

    def build_seen(self, m: Module, registers: Registers, happens: Value, has_fault: Value, name: str) -> Value:
        """What is of a run, as run control sees it: with `pipeline.halt` a cycle later, unless a fault has ended it."""
        if not self.machine.pipeline.halt:
            return happens
        seen = Signal(name=f"{name}_ends")
        m.d.sync += seen.eq(happens & ~registers.reset)
        return seen & ~has_fault

    def build_end(self, m: Module, registers: Registers, has_ended: Signal) -> Value:
        """Whether a run has ended for all units, of which those that are halted from registers go on for a cycle."""
        return has_ended & self.halt_of(m, registers, "run") if self.machine.pipeline.halt else has_ended

    def build_watchdogs(
        self,
        m: Module,
        registers: Registers,
        ports: Mapping[int, Sequence[ReadChannel | StoreEngine]],
        is_late: Signal,
        late_port: Signal,
    ) -> None:
        """A watchdog for the reads and one for the writes of each port."""
        for port, units in sorted(ports.items(), reverse=True):  # the first port that is late counts
            for number, unit in enumerate(units):
                m.submodules[f"watchdog{port}_{number}"] = watchdog = Watchdog()
                m.d.comb += [watchdog.limit.eq(registers.watchdog), watchdog.is_owed.eq(unit.is_owed)]
                with m.If(watchdog.is_late):
                    m.d.comb += [is_late.eq(1), late_port.eq(port)]

    def build_counters(
        self,
        m: Module,
        registers: Registers,
        counters: Counters,
        stores: Sequence[StoreEngine],
        dispatch: Dispatch,
        engines: Sequence[Any],
        has_fault: Signal,
    ) -> None:
        """What is counted, with `pipeline.halt` a cycle later, and nothing of what comes after the first fault."""
        stages = self.machine.pipeline.halt
        bus_bytes = self.machine.dram.bus_bytes
        buses = [getattr(self, port_name(port)) for port in read_channels(self.machine)]
        counts = self.running & ~dispatch.is_done
        reads = [Mux(bus.rvalid & bus.rready, bus_bytes, 0) for bus in buses]
        bytes_read, bytes_written = reduce(add, reads), reduce(add, (store.bytes_written for store in stores))
        m.d.comb += [
            counters.clear.eq(registers.start | registers.reset),
            counters.is_counting.eq(self.build_seen(m, registers, counts, has_fault, "count")),
            counters.bytes_read.eq(delayed(m, bytes_read, stages, "bytes_read")),
            counters.bytes_written.eq(delayed(m, bytes_written, stages, "bytes_written")),
            registers.counters.eq(counters.values),
        ]
        if port_counter_names(self.machine):
            by_port = sorted(stores, key=lambda store: store.engine.dma.port)
            ways = [*reads, *(store.bytes_written for store in by_port)]
            for name, way, passed in zip(port_counter_names(self.machine), counters.port_bytes, ways, strict=True):
                m.d.comb += way.eq(delayed(m, passed, stages, name.replace(".", "_")))
        for number, engine in enumerate(engines):
            m.d.comb += [
                counters.activities[number].eq(delayed(m, engine.activity, stages, f"activity_{number}")),
                counters.heads[number].eq(delayed(m, dispatch.heads[number], stages, f"head_{number}")),
                counters.starts[number].eq(delayed(m, self.started[number], stages, f"starts_{number}")),
            ]
