"""The demonstration: simulator, ONNX Runtime and hardware agree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.demo import main, repeated
from tilewright.isa.check.checker import check
from tilewright.isa.program.program import Program


@pytest.mark.slow
def test_everything_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    printed = capsys.readouterr().out
    assert "top-1 agree on 360 of 360 images" in printed
    assert "every byte of DRAM and of 5 memories equal" in printed


def test_a_repeated_program_is_valid(copy_program: Program) -> None:
    program = repeated(copy_program, 5)
    assert len(program.instructions) == 5 * len(copy_program.instructions)
    assert check(program) == ()


def test_each_turn_waits_for_the_one_before(copy_program: Program) -> None:
    last = repeated(copy_program, 3).instructions[-1]
    assert last.waits == {"load": 3, "mma": 0, "vec": 0, "store": 2}
    without = replace(copy_program, instructions=copy_program.instructions * 3, provenance=())
    assert check(without) != ()
