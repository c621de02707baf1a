"""Why a machine stops before the end of its program; the hardware and every simulator report the same three facts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class FaultCode(IntEnum):
    """The fault register's values."""

    NONE = 0
    OPCODE = 1  # an opcode that the machine does not have; address: the opcode
    WAIT = 2  # a wait for an instruction that is not earlier in the program; address: the wait count
    REGION = 3  # a DMA burst outside its region; address: the first DRAM byte outside
    ADDRESS = 4  # an access outside an on-chip memory, or a block across two banks; address: its first word
    BUS = 5  # the bus answered a burst with an error; address: 0


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
