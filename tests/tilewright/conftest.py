"""Fixtures of the public face's tests: the command line, and a small program that copies its input."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.tile_programs import TileBuilder
from tests.tilewright.command_line import Command, make_command
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.waits import waits
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line, in this process."""
    monkeypatch.setenv("COLUMNS", "80")
    return make_command(capsys, monkeypatch)


@pytest.fixture(scope="session")
def copy_program() -> Program:
    """x (int8 [1, 16, 6, 1]) → load → store → out0, on base16."""
    builder = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    builder.store(builder.load_input())
    return emit(waits(allocate(builder.program())))
