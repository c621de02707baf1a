"""A price is found once, and again for every change of what it depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.codesign.price import known as known_module
from tilewright.codesign.price.known import Logic, known_price, sources_hash
from tilewright.codesign.price.macros import storage_price
from tilewright.codesign.price.operators import Count
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.synthesis import Cost, Synthesis
from tilewright.codesign.price.unit import ESTIMATED, PricedUnit
from tilewright.isa.files.loader import load_machine


@pytest.fixture
def logic(toy: Process) -> Logic:
    queue = storage_price("queue q", (1, 100, 20), toy)
    assert queue is not None
    units = (PricedUnit("array", 1.5, 2, 3, ESTIMATED),)
    return Logic(units, (queue,), {"array": Cost(1.5, 2)}, {"array": Count(3.0, 2, 1)})


def found(synthesis: Synthesis, logic: Logic, setting: str = "lanes=8", exact: bool = False) -> tuple[Logic, bool]:
    """The price of tiny8, and whether it was looked for."""
    calls = []

    def find() -> Logic:
        calls.append(1)
        return logic

    return known_price(load_machine("tiny8", [setting]), synthesis, exact, find), bool(calls)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "cache_folder", lambda: tmp_path)


def test_comes_back_as_it_was_found(synthesis: Synthesis, logic: Logic) -> None:
    assert found(synthesis, logic) == (logic, True)
    assert found(synthesis, logic) == (logic, False)


@pytest.mark.parametrize("changed", ["machine", "sources", "amaranth", "script", "tool", "library", "exact"])
def test_is_found_anew_when_something_changes(
    changed: str, toy: Process, synthesis: Synthesis, logic: Logic, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(synthesis, logic)
    other = Synthesis(toy)
    match changed:
        case "sources":
            monkeypatch.setattr(known_module, "sources_hash", lambda: "others")
        case "amaranth":
            monkeypatch.setattr(known_module, "version", lambda package: f"another {package}")
        case "script":
            other.script = "another"
        case "tool":
            other.version = "another"
        case "library":
            other.library += "\n"
    setting = "lanes=4" if changed == "machine" else "lanes=8"
    assert found(other, logic, setting, exact=changed == "exact") == (logic, True)


def test_all_sources_of_the_hardware_count(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sources_hash()
    read = Path.read_bytes
    for name in ("datapath.py", "timing.py", "parts.py"):
        monkeypatch.setattr(Path, "read_bytes", lambda path, name=name: read(path) + b"\nA = 1" * (path.name == name))
        assert sources_hash.__wrapped__() != whole
