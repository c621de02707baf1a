"""What every test may ask pytest for: the repository's root, and whether to rewrite the golden files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.isa.rare_collection import collect_rarely
from tilewright.simulator.one_thread import one_thread


def pytest_configure() -> None:
    """Look for cyclic garbage rarely, as the command line does: that saves a fifth of the time."""
    collect_rarely()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`, which makes golden tests rewrite their expected files instead of comparing."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is computed now")


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_matrix_products() -> Iterator[None]:
    """Each worker has one core: more threads would wait for each other."""
    with one_thread():
        yield


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True when this run shall rewrite the golden files."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parent.parent
