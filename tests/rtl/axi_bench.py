"""The cocotb side of test_npu_axi.py: the bare machine, its host, and cocotbext-axi's moody memory at every port."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
    AxiWriteBus,
)
from cocotbext.axi.sparse_memory import SparseMemory

DRAM_BYTES = 1 << 20


def pauses(eagerness: float, seed: int) -> Iterator[bool]:
    stalls = random.Random(seed)
    while True:
        yield stalls.random() > eagerness


def channels_of(dut: Any, bus: str, ways: list[str], memory: SparseMemory) -> list[Any]:
    """The channels of an AXI port through which somebody reads, or writes, or both, with the memory behind it."""
    found: list[Any] = []
    if "read" in ways:
        read = AxiRamRead(AxiReadBus.from_prefix(dut, bus), dut.clk, dut.rst, mem=memory)
        found += [read.ar_channel, read.r_channel]
    if "write" in ways:
        write = AxiRamWrite(AxiWriteBus.from_prefix(dut, bus), dut.clk, dut.rst, mem=memory)
        found += [write.aw_channel, write.w_channel, write.b_channel]
    return found


def watch(dut: Any, bus: str, ways: list[str], bus_bytes: int, reads: list[int], writes: list[int]) -> None:
    """AXI4's rules for all that an AXI port's manager sends; notes the addresses."""
    if "read" in ways:
        cocotb.start_soon(check_bursts(dut, f"{bus}_ar", bus_bytes, reads))
        cocotb.start_soon(stays_stable(dut, f"{bus}_ar", ("addr", "len", "id")))
    if "write" in ways:
        cocotb.start_soon(check_bursts(dut, f"{bus}_aw", bus_bytes, writes))
        cocotb.start_soon(stays_stable(dut, f"{bus}_aw", ("addr", "len")))
        cocotb.start_soon(stays_stable(dut, f"{bus}_w", ("data", "strb", "last")))


async def check_bursts(dut: Any, channel: str, bus_bytes: int, addresses: list[int]) -> None:
    """AXI4's rules for each burst: inside one 4 KiB page, of the bus's size, incrementing; notes the addresses."""
    valid, ready, address, length, size, burst = (
        getattr(dut, f"{channel}{name}") for name in ("valid", "ready", "addr", "len", "size", "burst")
    )
    while True:
        await RisingEdge(dut.clk)
        if valid.value and ready.value:
            first = int(address.value)
            end = first // bus_bytes * bus_bytes + bus_bytes * (int(length.value) + 1) - 1
            assert first // 4096 == end // 4096, f"{channel}: a burst from {first:#x} to {end:#x} crosses a page"
            assert (1 << int(size.value), int(burst.value)) == (bus_bytes, 1)
            addresses.append(first)


async def stays_stable(dut: Any, channel: str, names: tuple[str, ...]) -> None:
    """AXI4's rule for a sender: once valid, it stays valid with the same content until it is ready."""
    offered = None
    while True:
        await RisingEdge(dut.clk)
        valid, ready = (getattr(dut, f"{channel}{name}").value for name in ("valid", "ready"))
        content = [str(getattr(dut, f"{channel}{name}").value) for name in names] if valid else None
        if offered is not None:
            assert content == offered, f"{channel} changed before it was accepted"
        offered = content if valid and not ready else None


@cocotb.test()
async def run_jobs(dut: Any) -> None:
    folder = Path(os.environ["TILEWRIGHT_JOBS"])
    description = json.loads((folder / "jobs.json").read_text())
    Clock(dut.clk, 2, unit="ns").start()
    memory, ports = SparseMemory(DRAM_BYTES), description["ports"]
    channels = [channel for bus, ways in ports.items() for channel in channels_of(dut, bus, ways, memory)]
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
    offsets = description["offsets"]
    reads: list[int] = []
    writes: list[int] = []
    for bus, ways in ports.items():
        watch(dut, bus, ways, description["bus_bytes"], reads, writes)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 5)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 5)
    for number, job in enumerate(description["jobs"]):
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(pauses(job["eagerness"], seed))
        image = np.load(folder / f"{number}.npy")
        memory[0 : image.size] = image.tobytes()
        reads.clear()
        writes.clear()
        for name, value in job["registers"].items():
            await host.write(offsets[name], int(value).to_bytes(8, "little"))
        await host.write_dword(offsets["control"], 1)
        assert await host.read_dword(offsets["status"]) == 1
        await with_timeout(RisingEdge(dut.done), 1_000_000, "ns")
        result = {name: int.from_bytes((await host.read(offset, 8)).data, "little") for name, offset in offsets.items()}
        np.save(folder / f"{number}.after.npy", np.frombuffer(memory[0 : image.size], np.uint8))
        (folder / f"{number}.json").write_text(json.dumps({"registers": result, "reads": reads, "writes": writes}))
