# SPDX-License-Identifier: Apache-2.0
"""The driver of a Tilewright machine for Python on the processor beside it; it takes Python 3.9 and nothing else.

    machine = Machine(*mapped("/dev/mem", 0x40000000))      # or two functions that read and write a word
    machine.open()
    machine.load(ISA_HASH, {name: (address, REGION_BYTES[name]) for name, address in places.items()})
    machine.start()
    machine.wait(5.0)

ISA_HASH and REGION_BYTES are in NAME_program.py, beside it. What lies in DRAM the caller writes and reads: the program
and the weights (`tilewright bundle --bin`), and inputs and outputs as they are stored. States and errors are those of
the driver in C, tilewright.h.
"""

import contextlib
import mmap
import os
import time
from collections.abc import Callable, Mapping

import tilewright_registers as table

Read = Callable[[int], int]
Write = Callable[[int, int], None]

CLOSED, OPEN, LOADED, RUNNING = "closed", "open", "loaded", "running"


class DeviceError(Exception):
    """The machine is not there, or is another one; or a call does not fit its state."""


class Fault(Exception):
    """A run stopped before its end: `code`, `instruction` and `address` as the machine's registers have them."""

    def __init__(self, code: int, instruction: int, address: int) -> None:
        self.code, self.instruction, self.address = code, instruction, address
        super().__init__(f"{table.FAULTS.get(code, 'unknown')}; instruction {instruction}, address {address:#x}")


def mapped(path: str, address: int, size: int = 4096) -> tuple[Read, Write]:
    """Two functions, which read and write a word of the registers at an address of /dev/mem or of a UIO device."""
    file = os.open(path, os.O_RDWR | os.O_SYNC)
    words = memoryview(mmap.mmap(file, size, offset=address)).cast("I")
    os.close(file)

    def read(offset: int) -> int:
        return words[offset // 4]

    def write(offset: int, word: int) -> None:
        words[offset // 4] = word

    return read, write


class Machine:
    """One machine, in one of the states closed, open, loaded and running."""

    def __init__(self, read: Read, write: Write) -> None:
        """`read(offset)` gives a register's word of 32 bits, `write(offset, word)` sets it."""
        self.read, self.write, self.state = read, write, CLOSED

    def open(self) -> None:
        """Look for the machine."""
        self._require(CLOSED, OPEN, LOADED)
        found = self.read(table.REGISTERS["id"])
        if found != table.ID:
            raise DeviceError(f"no machine answers: the first register holds {found:#010x}, not {table.ID:#010x}")
        self.state = OPEN

    def load(self, isa_hash: int, regions: Mapping[str, tuple[int, int]]) -> None:
        """Place a program; `regions` gives each region's address on the bus and its bytes. Nothing is written before
        all of it is found right."""
        self._require(OPEN, LOADED)
        found = self.read(table.REGISTERS["isa_hash"])
        if found != isa_hash:
            raise DeviceError(f"the program is for the machine {isa_hash:#010x}, and this is {found:#010x}")
        if set(regions) != set(table.REGIONS):
            raise DeviceError(f"expected the regions {', '.join(table.REGIONS)}, got {', '.join(regions) or 'none'}")
        for name, (address, _) in regions.items():
            if address % table.REGION_ALIGNMENT:
                raise DeviceError(f"{name} begins at {address:#x}, not at a multiple of {table.REGION_ALIGNMENT}")
        for name, (address, size) in regions.items():
            self._write64(f"{name}.base", address)
            self._write64(f"{name}.limit", size)
        self.state = LOADED

    def start(self) -> None:
        """Start a run on the inputs that are in DRAM."""
        self._require(LOADED)
        if self._has("status", "open"):
            raise DeviceError("the bus still owes an answer to an earlier run: nothing was started")
        self._set("control", "start")
        self.state = RUNNING

    def poll(self) -> bool:
        """Whether the run has ended. Raises Fault if it stopped early."""
        self._require(RUNNING)
        if not self._has("status", "done"):
            return False
        self.state = LOADED
        if self._has("status", "fault"):
            raise self.fault()
        return True

    def wait(self, seconds: float, pause: Callable[[float], None] = time.sleep, interval: float = 0.001) -> None:
        """Poll until the run has ended. Raises TimeoutError after so long; the machine is still running then."""
        end = time.monotonic() + seconds
        while not self.poll():
            if time.monotonic() > end:
                raise TimeoutError(f"the machine is still running after {seconds} s: wait again, or stop it")
            pause(interval)

    def stop(self, seconds: float = 1.0, pause: Callable[[float], None] = time.sleep) -> None:
        """End a run in the middle, and wait until what it has on the bus has ended, too."""
        self._require(RUNNING)
        self._set("control", "stop")
        with contextlib.suppress(Fault):  # that it was stopped
            self.wait(seconds, pause)

    def reset(self) -> None:
        """Bring the hardware to its state after power-up. It forgets what is open on the bus: stop first."""
        self._require(OPEN, LOADED, RUNNING)
        self._set("control", "reset")
        self.state = OPEN

    def fault(self) -> Fault:
        """Why the last run stopped."""
        address = self.read64("fault_address")
        signed = address - (1 << 64) if address >> 63 else address
        return Fault(self.read(table.REGISTERS["fault_code"]), self.read(table.REGISTERS["fault_instruction"]), signed)

    def set_watchdog(self, cycles: int) -> None:
        """For how many cycles the bus may owe an answer before a run ends with a fault; 0: for ever."""
        self._require(OPEN, LOADED)
        self.write(table.REGISTERS["watchdog"], cycles)

    def enable_interrupt(self, is_enabled: bool) -> None:
        self._require(OPEN, LOADED, RUNNING)
        self.write(table.REGISTERS["interrupt_enable"], table.BITS["interrupt_enable"]["done"] if is_enabled else 0)

    def acknowledge(self) -> bool:
        """For who handles interrupts: takes it back; whether it was this machine's."""
        pending = self.read(table.REGISTERS["interrupt_pending"])
        self.write(table.REGISTERS["interrupt_pending"], pending)
        return pending != 0

    def read64(self, name: str) -> int:
        """A register of 64 bits by its name, such as `counter.cycles`; of a counter, also during a run."""
        low = self.read(table.REGISTERS[name])
        return low | self.read(table.REGISTERS[name] + 4) << 32

    def _write64(self, name: str, value: int) -> None:
        self.write(table.REGISTERS[name], value & 0xFFFFFFFF)
        self.write(table.REGISTERS[name] + 4, value >> 32)

    def _has(self, register: str, bit: str) -> bool:
        return self.read(table.REGISTERS[register]) & table.BITS[register][bit] != 0

    def _set(self, register: str, bit: str) -> None:
        self.write(table.REGISTERS[register], table.BITS[register][bit])

    def _require(self, *states: str) -> None:
        if self.state not in states:
            raise DeviceError(f"the machine is {self.state}; expected {' or '.join(states)}")
