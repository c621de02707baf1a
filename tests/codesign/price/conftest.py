"""The toy process: two gates and a register, whose areas are round numbers, and macros likewise."""

from pathlib import Path

import pytest

from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.synthesis import Synthesis

TOY = Path(__file__).parent / "toy"


@pytest.fixture(scope="session")
def toy() -> Process:
    return load_process(TOY)


@pytest.fixture(scope="session")
def synthesis(toy: Process) -> Synthesis:
    return Synthesis(toy)


@pytest.fixture
def toy_folder(tmp_path: Path) -> Path:
    """A copy of the toy process to break."""
    for file in TOY.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path
