"""Why a machine stops before the end of its program; the hardware and every simulator report the same three facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class FaultCode(IntEnum):
    """The fault register's values."""

    NONE = 0
    OPCODE = 1
    WAIT = 2
    REGION = 3
    ADDRESS = 4
    BUS = 5
    STOPPED = 6
    TIMEOUT = 7


FAULT_CAUSES: Mapping[FaultCode, str] = {
    FaultCode.NONE: "none",
    FaultCode.OPCODE: "an opcode that the machine does not have; the opcode",
    FaultCode.WAIT: "a wait for an instruction that is not earlier in the program; the wait count",
    FaultCode.REGION: "a DMA burst outside its region; the first byte outside",
    FaultCode.ADDRESS: "an access outside a memory, or a block across two banks; its first word",
    FaultCode.BUS: "the bus answered with an error; 0",
    FaultCode.STOPPED: "the host stopped the run before this instruction was dispatched; 0",
    FaultCode.TIMEOUT: "the bus gave no answer in the watchdog's time, before this was dispatched; the AXI port",
}
"""What each fault is; after the semicolon, what the address register holds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first fault of a run. `instruction` counts from the program's start."""

    code: FaultCode
    instruction: int
    address: int

    def __str__(self) -> str:
        return (
            f"fault {self.code.name} ({self.code.value}) at instruction {self.instruction}, address {self.address:#x}"
        )


class MachineFault(Exception):
    """Raised by a software executor where the hardware would stop."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault
