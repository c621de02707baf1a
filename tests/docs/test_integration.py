"""docs/integration.md: its commands print what it shows, it tells of all pins and files, and its bring-up works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.document import blocks, promised
from tilewright.bundle.simulated import WARNINGS
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.faults import FaultCode
from tilewright.rtl.integration import PINS
from tilewright.rtl.memory_wrappers import KINDS
from tilewright.rtl.npu import Npu
from tilewright.rtl.registers import ID, bits_of, isa_hash_word, register_map
from tilewright.rtl.simulation.board import run_on_board

PAGE = "docs/integration.md"


@pytest.mark.slow
def test_its_commands_print_what_it_shows(repository: Path, tmp_path: Path) -> None:
    tilewright = f'tilewright() {{ "{sys.executable}" -m tilewright "$@" > /dev/null; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(repository), "LC_ALL": "C"}
    shown = blocks((repository / PAGE).read_text())
    tried = 0
    for block, following in zip(shown, [*shown[1:], None], strict=True):
        if block.language != "sh":
            continue
        script = tilewright + block.text
        done = subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
        expected = promised(block, following)
        assert expected is not None and (done.stdout, done.stderr) == (expected.text, ""), block.text
        tried += 1
    assert tried == 4


def test_it_tells_of_every_pin_and_every_wrapper(repository: Path) -> None:
    page = (repository / PAGE).read_text()
    pins = {"clk", "rst", *Npu(load_machine("tiny8")).signature.members}
    named = set(re.findall(r"`(\w+)", page.partition("## Pins")[2].partition("## Reset")[0]))
    assert {pin.removesuffix("_axi") for pin in pins} <= {pin.removesuffix("_axi_") for pin in named}
    assert {pin.rstrip("*") for pin in PINS} >= pins - {"m_axi", "s_axi"}
    assert all(f"`{kind}/tiny8_memory.sv`" in page for kind in KINDS)


def test_it_is_short(repository: Path) -> None:
    for page in (PAGE, "docs/firmware.md"):
        assert len((repository / page).read_text().splitlines()) <= 200


STEPS = """
#include <stdint.h>
#include <stdio.h>
uint32_t board_read(void *context, uint32_t offset);
void board_write(void *context, uint32_t offset, uint32_t word);
void board_pause(void *context);
uint64_t board_bus_address(void *context, const void *place);
void *board_memory(uint64_t bytes);

static void run(void)
{
    board_write(NULL, CONTROL, START);
    while ((board_read(NULL, STATUS) & DONE) == 0U) {
        board_pause(NULL);
    }
}

int main(void)
{
    uint32_t base = (uint32_t)board_bus_address(NULL, board_memory(4096U));
    printf("%08x %08x\\n", board_read(NULL, ID), board_read(NULL, ISA_HASH));
    board_write(NULL, PROGRAM_BASE, 0x12345678U);
    printf("%08x\\n", board_read(NULL, PROGRAM_BASE));
    run();
    printf("%u\\n", board_read(NULL, STATUS));
    board_write(NULL, PROGRAM_BASE, base);
    board_write(NULL, PROGRAM_LIMIT, 4096U);
    run();
    printf("%u %u %u\\n", board_read(NULL, STATUS), board_read(NULL, FAULT_CODE), board_read(NULL, FAULT_INSTRUCTION));
    return 0;
}
"""


@pytest.mark.slow
def test_its_bring_up_works() -> None:
    machine = load_machine("tiny8")
    offsets = {register.name.replace(".", "_").upper(): register.offset for register in register_map(machine)}
    flags = [f"-D{name}={offset}" for name, offset in offsets.items()]
    flags += [f"-DSTART={1 << bits_of('control')['start']}", f"-DDONE={1 << bits_of('status')['done']}"]
    code, output = run_on_board(machine, {"main.c": STEPS.encode()}, (*WARNINGS, *flags))
    assert code == 0
    stopped = (1 << bits_of("status")["done"]) | (1 << bits_of("status")["fault"])
    assert output.splitlines() == [
        f"{ID:08x} {isa_hash_word(machine):08x}",
        "12345000",
        "2",
        f"{stopped} {FaultCode.OPCODE:d} 0",
    ]
