"""A bundle as firmware of a RISC-V processor beside the machine, in one simulation: right digits, few cycles, small."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright as package
from tests.digits import MODEL, images, labels
from tests.tilewright.command_line import Command
from tilewright.bundle.bundle import bundle_files
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.system.firmware import compile_firmware, words_of
from tilewright.system.simulated import MEMORY_BYTES, run_system
from tilewright.system.soc import simulated_system

MOST_OVERHEAD, MOST_CODE, MOST_MEMORY = 2000, 4096, 256
"""Cycles of the processor before and after a run together, and bytes of the driver."""


@pytest.mark.slow
def test_one_command_from_a_model_to_the_right_digit_on_a_processor(tilewright: Command, tmp_path: Path) -> None:
    """For an image of each digit that the network knows."""
    for digit in (0, 7):
        first = int(np.flatnonzero(labels() == digit)[0])
        np.savez(tmp_path / "image.npz", image=images()[first : first + 1])
        words = ("--isa", "tiny8", "--data", tmp_path / "image.npz", "-o", tmp_path / "out", "--system")
        ended = tilewright("bundle", MODEL.absolute(), *words)
        assert ended.code == 0, ended.err
        assert f"output logits: the largest of 10 values is number {digit}\n" in ended.out
        assert "digits: 0 of 10 values differ\n" in ended.out
        before, after = map(int, *re.findall(r"(\d+) cycles from the call .* (\d+) from its end", ended.out))
        code, memory = map(int, *re.findall(r"driver: (\d+) bytes of code and constants, (\d+) of memory", ended.out))
        print(ended.out)
        assert 0 < before + after <= MOST_OVERHEAD and 1000 < code <= MOST_CODE and memory <= MOST_MEMORY


@pytest.mark.long
@pytest.mark.parametrize(
    ("isa", "settings"),
    [("tiny8", ["dram.bus_bytes=4"]), ("tiny8", ["dram.bus_bytes=16"]), ("base16-2dma", [])],
)
def test_buses_of_other_widths_and_several_ports(isa: str, settings: list[str]) -> None:
    program = package.compile(MODEL, isa, settings, effort=0)
    assert " 0 of 10 values differ" in run_system(program.machine, bundle_files(program, "net", seed=3)).output


@pytest.mark.slow
def test_a_firmware_that_is_too_large_is_refused_with_both_sizes() -> None:
    files = bundle_files(package.compile(MODEL, "tiny8", effort=0), "net")
    addresses = {"npu": 0x80000000, "memory": 0x40000000, "serial": 0xF0001000, "lights": 0xF0000000}
    image, sizes = compile_firmware(files, addresses, MEMORY_BYTES)
    assert len(image) == sizes.firmware == 4 * len(words_of(image))
    with pytest.raises(InputError, match=r"the firmware (takes|does not compile)"):
        compile_firmware(files, addresses, 1 << 14)


@pytest.mark.slow
def test_the_same_machine_gives_the_same_system() -> None:
    one, other = (simulated_system(load_machine("tiny8"), MEMORY_BYTES) for _ in range(2))
    assert one == other and one.addresses["npu"] == 0x8000_0000
