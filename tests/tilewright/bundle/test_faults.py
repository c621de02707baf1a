"""Runs that break on an unruly bus: each break is reported in time, nothing is written, the next run is right."""

from __future__ import annotations

import pytest

import tilewright as package
from programs.networks.registry import int8_network
from tests.tilewright.bundle.faults import DIGITS, SMALL, break_runs, table
from tilewright.bundle.bundle import bundle_files
from tilewright.bundle.simulated import BOARD, WARNINGS
from tilewright.program import Program
from tilewright.rtl.simulation.board import UNRULY, run_on_board

KINDS = 17

MOOD = """
#include <stdint.h>
void board_mood(uint64_t seed, uint32_t of_256);
__attribute__((constructor)) static void set_mood(void) { board_mood(SEED, OF_256); }
"""


def breaks(isa: str, settings: tuple[str, ...], seed: int, count: int) -> None:
    """So many, of each kind as many as of any other."""
    host, rows = break_runs(package.compile(DIGITS, isa, settings, effort=0), seed, count)
    print(f"seed {seed} on {isa}", host, table(rows), sep="\n")
    assert [row.made for row in rows] == [count // KINDS] * KINDS
    assert [row.reported for row in rows] == [row.made for row in rows]


@pytest.mark.slow
def test_each_kind_of_break_is_reported_and_the_next_run_is_right() -> None:
    breaks("tiny8", SMALL, seed=1, count=3 * KINDS)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_two_thousand_breaks(seed: int) -> None:
    breaks("tiny8", SMALL, seed, 60 * KINDS)


@pytest.mark.long
def test_breaks_of_a_larger_machine() -> None:
    breaks("base16", (), seed=4, count=3 * KINDS)


def different_under_pressure(program: Program, seed: int, of_256: int) -> str:
    """What a bundle prints on a bus of which each channel moves in so many of 256 cycles."""
    files = {**bundle_files(program, "net", data_apart=True), "platform.c": BOARD.read_bytes(), "mood.c": MOOD.encode()}
    flags = (*WARNINGS, f"-DSEED={seed}U", f"-DOF_256={of_256}U")
    code, output = run_on_board(program.machine, files, flags, board=UNRULY)
    assert code == 0, f"seed {seed}: {output}"
    return output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "isa"),
    [
        (DIGITS, "tiny8"),
        (int8_network("resnet8"), "base16"),
        (int8_network("ds-cnn"), "sequence16"),
        ("programs/decoder/step_int8.onnx", "sequence16"),
    ],
    ids=["digits", "resnet8", "keyword spotting", "a step of a decoder"],
)
def test_networks_give_the_same_bytes_under_back_pressure(model: object, isa: str) -> None:
    output = different_under_pressure(package.compile(model, isa, effort=0), seed=5, of_256=128)
    assert " 0 of " in output and "differ" in output
