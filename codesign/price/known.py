"""Prices that were found before, kept for the same machine, hardware, script, tools and library, and for no other."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tilewright import codesign, isa, rtl
from tilewright.codesign.price.macros import MemoryPrice, storage_price
from tilewright.codesign.price.synthesis import SCRIPT, Synthesis
from tilewright.codesign.price.unit import Unit
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.cache import cache_folder, kept

Logic = tuple[tuple[Unit, ...], tuple[MemoryPrice, ...]]
"""The units of a machine, and the queues among them whose entries are in macros."""


def known_price(machine: Machine, synthesis: Synthesis, exact: bool, find: Callable[[], Logic]) -> Logic:
    """What `find` gives, which is called only where it is not known yet.

    A netlist follows from the text of its machine, the sources here and Amaranth: in the key they stand for it.
    """
    facts = (machine.text, sources_hash(), version("amaranth"), SCRIPT, synthesis.version, synthesis.library)
    key = hashlib.sha256(repr((*facts, synthesis.process.hash, exact)).encode()).hexdigest()

    def make(folder: Path) -> Path:
        (folder / "price").write_text(_text(find()))
        return folder / "price"

    text = kept(cache_folder() / "prices" / key[:2] / f"{key}.json", make).read_text()
    found = json.loads(text)
    queues = (storage_price(each["name"], tuple(each["sizes"]), synthesis.process) for each in found["queues"])
    return tuple(Unit(**each) for each in found["units"]), tuple(queue for queue in queues if queue is not None)


@functools.cache
def sources_hash() -> str:
    """Of all that the hardware and its price are made from."""
    total = hashlib.sha256()
    for package in (codesign, isa, rtl):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            total.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return total.hexdigest()


def _text(logic: Logic) -> str:
    units, queues = logic
    return json.dumps(
        {
            "units": [dataclasses.asdict(unit) for unit in units],
            "queues": [{"name": each.name, "sizes": (each.storages, each.words, each.bits)} for each in queues],
        }
    )
