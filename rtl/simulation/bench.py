"""The cocotb test bench: runs programs on the simulated machine, one after the other, waiting only for `done`.

It runs inside the simulator's process, which `rtl.simulation.session` starts with a folder of jobs; it imports nothing
of ours.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, SimTimeoutError, with_timeout
from numpy.typing import NDArray

PERIOD_NS = 2


class Host:
    """The host's side of AXI4-Lite: pipelined writes and reads, one word a cycle."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        dut.host_awvalid.value = dut.host_wvalid.value = dut.host_arvalid.value = 0
        dut.host_wstrb.value = 0b1111
        dut.host_bready.value = dut.host_rready.value = 1

    async def write(self, words: Mapping[int, int]) -> None:
        """Write 32-bit words by offset."""
        dut = self.dut
        dut.host_awvalid.value = dut.host_wvalid.value = 1
        for offset, word in words.items():
            dut.host_awaddr.value, dut.host_wdata.value = offset, word
            await RisingEdge(dut.clock)
            while not (dut.host_awready.value and dut.host_wready.value):
                await RisingEdge(dut.clock)
        dut.host_awvalid.value = dut.host_wvalid.value = 0

    async def read(self, offsets: list[int]) -> list[int]:
        """Read 32-bit words; a word comes the cycle after its address."""
        dut, words = self.dut, []
        dut.host_arvalid.value = 1
        for offset in [*offsets, None]:
            if offset is None:
                dut.host_arvalid.value = 0
            else:
                dut.host_araddr.value = offset
            await RisingEdge(dut.clock)
            if dut.host_rvalid.value:
                words.append(int(dut.host_rdata.value))
        assert len(words) == len(offsets), "the machine did not answer a read in the next cycle"
        return words


@cocotb.test()
async def run_jobs(dut: Any) -> None:
    folder = Path(os.environ["TILEWRIGHT_JOBS"])
    description = json.loads((folder / "jobs.json").read_text())
    clock = Clock(dut.clock, PERIOD_NS, unit="ns")
    clock.start()
    host = Host(dut)
    kept = attach_waves(folder)
    dut.reset.value, dut.clear.value, dut.dump.value = 1, 0, 0
    for number, job in enumerate(description["jobs"]):
        await run_job(dut, host, description, job, folder / f"{number}")
    del kept


def attach_waves(folder: Path) -> list[NDArray[Any]]:
    """Hand over what each engine's instructions are called, if waves are wanted; the arrays must stay as they are."""
    if not (folder / "waves.json").exists():
        return []
    window = json.loads((folder / "waves.json").read_text())
    with np.load(folder / "waves.npz") as stored:
        texts, numbers = stored["texts"], stored["numbers"]
    ctypes.CDLL(None).tilewright_attach_waves(
        _pointer(texts),
        _pointer(numbers),
        ctypes.c_int64(numbers.shape[0]),
        ctypes.c_int64(numbers.shape[1]),
        ctypes.c_int64(window["first"]),
        ctypes.c_int64(window["last"]),
    )
    return [texts, numbers]


async def run_job(dut: Any, host: Host, description: dict[str, Any], job: dict[str, Any], folder: Path) -> None:
    simulation = ctypes.CDLL(None)
    dram = np.load(folder / "dram.npy")
    trace = np.full((2, len(description["engines"]), job["instructions"]), -1, np.int64)
    memories = [np.zeros((depth, word_bytes), np.uint8) for depth, word_bytes in description["memories"]]
    simulation.tilewright_attach_dram(
        _pointer(dram),
        ctypes.c_uint64(dram.size),
        ctypes.c_uint64(description["bus_bytes"]),
        ctypes.c_uint64(description["latency_cycles"]),
    )
    simulation.tilewright_attach_trace(_pointer(trace), ctypes.c_int64(trace.shape[1]), ctypes.c_int64(trace.shape[2]))
    seen = np.zeros(3, np.int64)  # cycles, bytes read, bytes written
    simulation.tilewright_attach_seen(_pointer(seen))
    for number, memory in enumerate(memories):
        simulation.tilewright_attach_memory(number, _pointer(memory), ctypes.c_uint64(memory.shape[1]))

    await reset_and_clear(dut)
    await host.write({int(offset): word for offset, word in job["writes"]})
    has_ended = await run_until_done(dut, simulation, job["max_cycles"], (folder.parent / "waves.json").exists())
    registers = await host.read(description["read_offsets"])
    dut.dump.value = 1
    await RisingEdge(dut.clock)
    dut.dump.value = 0
    await RisingEdge(dut.clock)  # what an edge does can be seen at the next one
    arrays: dict[str, Any] = {f"memory{number}": memory for number, memory in enumerate(memories)}
    np.savez(
        folder / "result.npz",
        dram=dram,
        trace=trace,
        seen=seen,
        registers=np.array(registers, np.uint32),
        has_ended=np.array(has_ended),
        **arrays,
    )


async def run_until_done(dut: Any, simulation: ctypes.CDLL, max_cycles: int, has_waves: bool) -> bool:
    """Let the clock run until the machine is done; false if it is not after so many cycles."""
    if not has_waves:
        simulation.tilewright_run.restype = ctypes.c_bool
        return bool(simulation.tilewright_run(ctypes.c_int64(max_cycles)))
    try:  # waves are drawn over the simulator's time, so the clock is cocotb's
        await with_timeout(RisingEdge(dut.done), max_cycles * PERIOD_NS, "ns")
    except SimTimeoutError:
        await RisingEdge(dut.clock)  # a timeout comes beside the clock, and the host works with it
        return False
    return True


async def reset_and_clear(dut: Any) -> None:
    """Bring the machine to its state after power-up: registers reset, memories zero."""
    dut.reset.value = dut.clear.value = 1
    for _ in range(2):
        await RisingEdge(dut.clock)
    dut.reset.value = dut.clear.value = 0
    await RisingEdge(dut.clock)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
