"""The bundle's driver in Python: its states, and runs of it on the simulated hardware."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright as package
from tests.digits import MODEL, images, labels
from tilewright.bundle.bundle import bundle_files
from tilewright.host import tensors as host
from tilewright.isa.program.program import place_regions
from tilewright.program import Program
from tilewright.rtl.simulation.board import run_on_board

SERVER = rb"""
#include <stdint.h>
#include <stdio.h>
uint32_t board_read(void *context, uint32_t offset);
void board_write(void *context, uint32_t offset, uint32_t word);
void board_pause(void *context);
uint64_t board_bus_address(void *context, const void *place);
void *board_memory(uint64_t bytes);

/* Answers the words of one pipe on another: r OFFSET, w OFFSET WORD, p, a BYTES, i BYTES (then they come), o BYTES. */
int main(int count, char **names)
{
    FILE *asked = fopen(names[1], "rb"), *told = fopen(names[2], "wb");
    unsigned char *memory = NULL;
    char what;
    unsigned long one, two;
    (void)count;
    while (fscanf(asked, " %c %lu %lu", &what, &one, &two) == 3) {
        unsigned long answer = 0;
        (void)fgetc(asked);
        if (what == 'r') answer = board_read(NULL, (uint32_t)one);
        if (what == 'w') board_write(NULL, (uint32_t)one, (uint32_t)two);
        if (what == 'p') board_pause(NULL);
        if (what == 'a') answer = (unsigned long)board_bus_address(NULL, memory = board_memory(one));
        if (what == 'i') answer = fread(memory, 1, one, asked);
        fprintf(told, "%lu\n", answer);
        if (what == 'o') (void)fwrite(memory, 1, one, told);
        fflush(told);
    }
    return 0;
}
"""


class Board:
    """The simulated hardware behind two pipes."""

    def __init__(self, folder: Path, program: Program) -> None:
        paths = [folder / name for name in ("asked", "told")]
        for path in paths:
            os.mkfifo(path)
        arguments = tuple(map(str, paths))
        job = lambda: run_on_board(program.machine, {"server.c": SERVER}, (), arguments)  # noqa: E731
        self.thread = threading.Thread(target=job)
        self.thread.start()
        self.asked, self.told = paths[0].open("wb"), paths[1].open("rb")

    def ask(self, what: str, one: int = 0, two: int = 0, content: bytes = b"") -> int:
        self.asked.write(f"{what} {one} {two}\n".encode() + content)
        self.asked.flush()
        return int(self.told.readline())

    def read(self, offset: int) -> int:
        return self.ask("r", offset)

    def write(self, offset: int, word: int) -> None:
        self.ask("w", offset, word)

    def pause(self, seconds: float) -> None:
        self.ask("p")

    def close(self) -> None:
        self.asked.close()
        self.thread.join()
        self.told.close()


@pytest.fixture(scope="module")
def digits() -> Program:
    return package.compile(MODEL, "tiny8", effort=0)


@pytest.fixture(scope="module")
def modules(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """The bundle's own modules, by name."""
    folder = tmp_path_factory.mktemp("bundle")
    for name, content in bundle_files(digits, "net").items():
        (folder / name).write_bytes(content)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    sys.modules["tilewright_registers"] = load("tilewright_registers")
    yield load
    del sys.modules["tilewright_registers"]


@pytest.mark.slow
def test_a_network_runs_and_each_misuse_is_an_error(
    digits: Program, modules: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    driver, facts, binary = modules("tilewright_driver"), modules("net_program"), digits.binary
    board = Board(tmp_path, digits)
    machine = driver.Machine(board.read, board.write)
    with pytest.raises(driver.DeviceError, match="the machine is closed; expected loaded"):
        machine.start()
    machine.open()

    picture = images()[:1]
    dram, bases = host.dram_image(binary, {"image": picture}), place_regions(binary.limits)
    first = board.ask("a", dram.size)
    assert board.ask("i", dram.size, 0, dram.tobytes()) == dram.size
    regions = {name: (first + bases[name], size) for name, size in facts.REGION_BYTES.items()}
    with pytest.raises(driver.DeviceError, match="the program is for the machine"):
        machine.load(facts.ISA_HASH ^ 1, regions)
    with pytest.raises(driver.DeviceError, match="not at a multiple of 4096"):
        machine.load(facts.ISA_HASH, {**regions, "inputs": (first + 8, 64)})

    machine.load(facts.ISA_HASH, {**regions, "workspace": (first, 0), "outputs": (first, 0)})
    machine.start()
    with pytest.raises(driver.Fault, match="a DMA burst outside its region"):
        machine.wait(60.0, board.pause)

    machine.load(facts.ISA_HASH, regions)
    machine.enable_interrupt(True)
    machine.start()
    with pytest.raises(driver.DeviceError, match="the machine is running; expected loaded"):
        machine.start()
    machine.stop(60.0, board.pause)
    assert machine.acknowledge() and not machine.acknowledge()
    machine.start()
    machine.wait(60.0, board.pause)
    assert machine.read64("counter.cycles") == digits.run({"image": picture}).cycles

    board.ask("o", dram.size)
    result = np.frombuffer(board.told.read(dram.size), np.uint8)
    board.close()
    assert host.read_outputs(binary, result)["logits"].argmax() == labels()[0]
