"""The places of a program's regions in DRAM, and the check that every burst must pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import Fault, FaultCode, MachineFault
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES, Program
from tilewright.isa.templates.dma import Burst, first_burst
from tilewright.simulator.errors import SimulatorError


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes [base, base + limit) of DRAM."""

    base: int
    limit: int


def regions_of(program: Program, bases: Mapping[str, int]) -> tuple[Region, ...]:
    """The program's regions in the order of their numbers. Raises SimulatorError for a base that is not aligned."""
    limits = program.limits
    for name in REGIONS:
        if bases[name] % REGION_ALIGNMENT_BYTES:
            raise SimulatorError(
                f"region {name} has base {bases[name]:#x}; expected a multiple of {REGION_ALIGNMENT_BYTES}: "
                "bursts are cut at its multiples"
            )
    return tuple(Region(bases[name], limits[name]) for name in REGIONS)


def region(regions: tuple[Region, ...], number: int) -> Region:
    """The region of a number; one that does not exist is empty and lies at 0."""
    return regions[number] if number < len(regions) else Region(0, 0)


def required_bytes(regions: tuple[Region, ...]) -> int:
    """Bytes of DRAM that hold every region."""
    return max(r.base + r.limit for r in regions)


def check_dram_size(size_bytes: int, regions: tuple[Region, ...]) -> None:
    """Raises SimulatorError when a region reaches beyond the DRAM."""
    if size_bytes < required_bytes(regions):
        raise SimulatorError(
            f"the DRAM image has {size_bytes} bytes; the program's regions reach to byte {required_bytes(regions)}: "
            f"give at least that many"
        )


def bursts_of(address: int, size_bytes: int, bus_bytes: int) -> Iterator[tuple[int, Burst]]:
    """The bursts that move a contiguous run, each with its distance in bytes from the run's start."""
    done = 0
    while done < size_bytes:
        burst = first_burst(address + done, size_bytes - done, bus_bytes)
        yield done, burst
        done += burst.bytes


def check_burst(burst: Burst, within: Region, instruction: int) -> None:
    """Raises REGION with the first byte outside when a burst is not inside its region."""
    first = burst.address - within.base
    if not 0 <= first < within.limit:
        raise MachineFault(Fault(FaultCode.REGION, instruction, burst.address))
    if first + burst.bytes > within.limit:
        raise MachineFault(Fault(FaultCode.REGION, instruction, within.base + within.limit))
