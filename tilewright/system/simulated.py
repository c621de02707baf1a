"""The system in Verilator: its firmware runs from reset on, and what it writes to the serial line comes back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tilewright.errors import InputError
from tilewright.isa.folders.cache import cache_folder, digest, kept
from tilewright.isa.folders.scratch import scratch
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.simulation import verilator
from tilewright.rtl.simulation.build import NETLIST, cached_netlist, texts_of
from tilewright.rtl.simulation.rules import RULES, rules_verilog
from tilewright.rtl.simulation.runtime import WITHOUT_RUNTIME, runtime_objects
from tilewright.rtl.simulation.tools import RtlError, require_tools
from tilewright.system.firmware import FirmwareSizes, compile_firmware, words_of
from tilewright.system.soc import TOP, System, simulated_system

MEMORY_BYTES = 1 << 22

MOST_CYCLES = 200_000_000

HARNESS = Path(verilator.__file__).with_name("system.cpp")

CYCLES = re.compile(
    r"^cycles: \d+ until the call, (\d+) to the start, (\d+) of the machine, (\d+) between its runs, "
    r"(\d+) to the return",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class SystemRun:
    """What the firmware printed, the cycles of the processor around those of the machine, and sizes.

    `before` are cycles from the call that runs the network to the machine's first start, `between` those between its
    runs of a network in parts, `after` those from its end to the call's return.
    """

    output: str
    before: int
    machine: int
    between: int
    after: int
    sizes: FirmwareSizes

    def text(self) -> str:
        """For people: what the firmware printed, then what it took."""
        between = f"{self.between} between its runs, " if self.between else ""
        return (
            f"{self.output}"
            f"processor: {self.before} cycles from the call to the machine's start, {self.machine} of the machine, "
            f"{between}{self.after} from its end to the call's return\n"
            f"driver: {self.sizes.driver_code} bytes of code and constants, {self.sizes.driver_memory} of memory; "
            f"firmware: {self.sizes.firmware} bytes with program and weights\n"
        )


def run_system(machine: Machine, files: Mapping[str, bytes], memory_bytes: int = MEMORY_BYTES) -> SystemRun:
    """Compile a bundle for the system's processor and run it there.

    Raises InputError when it does not compile, does not fit or ends with an error, and RtlError when a tool is missing
    or it does not end.
    """
    require_tools()
    system = simulated_system(machine, memory_bytes)
    image, sizes = compile_firmware(files, system.addresses, system.memory_bytes)
    program = built(machine, system)
    with scratch() as folder:
        contents = {**system.contents, system.memory_file: "".join(f"{word:08x}\n" for word in words_of(image))}
        for name, text in contents.items():
            (folder / name).write_text(text)
        command = [str(program), str(MOST_CYCLES)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    found = CYCLES.search(done.stdout)
    if found is None:
        raise RtlError(f"the system's firmware did not come to its end: {done.stdout}{done.stderr}")
    if done.returncode:
        raise InputError(f"on the simulated system the bundle ended with {done.returncode}: {done.stdout.strip()}")
    before, cycles, between, after = (int(found[at]) for at in range(1, 5))
    return SystemRun(done.stdout[: found.start()], before, cycles, between, after, sizes)


def built(machine: Machine, system: System) -> Path:
    """The simulation program of a system, from the cache if it has it."""
    sources = {path.name: path.read_text() for path in (*system.sources, HARNESS)}
    machine_texts = {NETLIST: cached_netlist(machine), RULES: rules_verilog(machine)}
    texts = texts_of(TOP, (), {f"{TOP}.v": system.verilog, **machine_texts, **sources})
    place = cache_folder() / "systems" / digest(*texts, *texts.values(), *verilator.tool_facts()) / TOP
    return kept(place, partial(_build, texts))


def _build(texts: Mapping[str, str], folder: Path) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text)
    verilator.verilate(folder, TOP, list(texts), False, "-Wno-WIDTHTRUNC", "-Wno-LATCH", "-CFLAGS", "-I..")
    objects = runtime_objects(has_waves=False)
    for compiled in objects:  # beside the others: make knows no paths with spaces
        (folder / verilator.OBJECTS / compiled.name).symlink_to(compiled)
    verilator.make(folder, *WITHOUT_RUNTIME, f"LOADLIBES={' '.join(compiled.name for compiled in objects)}")
    return folder / verilator.OBJECTS / TOP
