"""A system on a chip around a machine, in LiteX: a RISC-V processor, a memory that both reach, a serial line, lights.

The processor is VexRiscv in its variant `lite`: RV32IM, without a cache of data, so that the machine reads what it has
written. It starts at the first word of the memory, which holds the firmware from the beginning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.isa.machine.machine import Machine

MEMORY_START = 0x4000_0000
NPU_START = 0x8000_0000

SCRATCH_BYTES = 1024
"""LiteX wants a memory `sram` for its own start-up code, which nobody uses here."""

LIGHTS = ("called", "running", "done")
"""What the lowest lights say: the firmware is in the call that runs the network; the machine's two pins."""

TOP = "system"


@dataclass(frozen=True, slots=True)
class System:
    """A system's Verilog without the machine's, files beside it, and where firmware finds things.

    `contents` are files of what memories hold at first, by name; that of the memory is `memory_file`.
    """

    verilog: str
    sources: tuple[Path, ...]
    contents: Mapping[str, str]
    memory_file: str
    memory_bytes: int
    addresses: dict[str, int]


def simulated_system(machine: Machine, memory_bytes: int, clock_hz: int = 100_000_000) -> System:
    """The system with its clock, its reset, its lights and the bytes of its serial line as pins."""
    from litex.build.generic_platform import Pins, Subsignal
    from litex.build.sim import SimPlatform

    stream = (("valid", 1), ("ready", 1), ("data", 8))
    line = [(f"{way}_{name}", bits) for way in ("source", "sink") for name, bits in stream]
    pins = [
        ("sys_clk", 0, Pins(1)),
        ("sys_rst", 0, Pins(1)),
        ("lights", 0, Pins(len(LIGHTS))),
        ("serial", 0, *(Subsignal(name, Pins(bits)) for name, bits in line)),
    ]
    with quiet():
        platform = SimPlatform("SIM", pins)
        clocks = plain_clocks(platform.request("sys_clk"), platform.request("sys_rst"))
        return system_of(platform, clocks, machine, memory_bytes, clock_hz, "sim")


def plain_clocks(clock: Any, reset: Any) -> Any:
    """The clock domain `sys` straight from pins."""
    from litex.gen import LiteXModule
    from migen import ClockDomain

    clocks = LiteXModule()
    clocks.cd_sys = ClockDomain()
    clocks.comb += [clocks.cd_sys.clk.eq(clock), clocks.cd_sys.rst.eq(reset)]
    return clocks


def system_of(
    platform: Any,
    clocks: Any,
    machine: Machine,
    memory_bytes: int,
    clock_hz: int,
    serial: str,
    image: Sequence[int] = (),
) -> System:
    """The system on a platform of LiteX whose pins `lights` and `serial` it takes; `image` are the first words."""
    from litex.soc.integration.soc import SoCRegion
    from litex.soc.integration.soc_core import SoCCore

    from tilewright.system.core import NpuCore

    soc = SoCCore(
        platform,
        clock_hz,
        cpu_type="vexriscv",
        cpu_variant="lite",
        cpu_reset_address=MEMORY_START,
        integrated_rom_size=0,
        integrated_sram_size=SCRATCH_BYTES,
        integrated_main_ram_size=memory_bytes,
        integrated_main_ram_init=list(image) or [0],
        uart_name=serial,
        with_timer=False,
        ident="",
    )
    soc.crg = clocks
    soc.npu = core = NpuCore(machine)
    soc.bus.add_slave("npu", core.registers, SoCRegion(origin=NPU_START, size=core.register_bytes, cached=False))
    for number, manager in enumerate(core.managers):
        soc.bus.add_master(f"npu{number}", manager)
    soc.irq.add("npu", use_loc_if_exists=True)
    soc.lights = _lights(platform.request("lights"), core)
    soc.finalize()
    made = platform.get_verilog(soc, name=TOP)
    regions = {name: region.origin for name, region in soc.csr.regions.items()}
    return System(
        _plain(made.main_source),
        tuple(Path(path) for path, *_ in platform.sources),
        {name: text or "0\n" for name, text in made.data_files.items()},
        f"{TOP}_main_ram.init",
        memory_bytes,
        {"npu": NPU_START, "memory": MEMORY_START, "serial": regions["uart"], "lights": regions["lights"]},
    )


def _lights(pins: Any, core: Any) -> Any:
    """A register whose lowest bit is the first light; the others are pins of the machine."""
    from litex.gen import LiteXModule
    from litex.soc.interconnect.csr import CSRStorage
    from migen import Cat

    lights = LiteXModule()
    lights.called = CSRStorage(1, description="Whether the firmware is in the call that runs the network.")
    lights.comb += pins.eq(Cat(lights.called.storage, core.running, core.done))
    return lights


def _plain(verilog: str) -> str:
    """LiteX's text without the dates and the commit that it writes: the same system gives the same text."""
    return re.sub(r"^// +(Date|LiteX sha1|Auto-Generated by LiteX on) .*\n", "", verilog, flags=re.MULTILINE)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what LiteX logs of each step; its errors stay."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
