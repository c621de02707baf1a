"""Prices that were found before, kept for the same machine, hardware, script, tools and library, and for no other."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tilewright import isa, rtl
from tilewright.codesign import price
from tilewright.codesign.price.macros import MemoryPrice, storage_price
from tilewright.codesign.price.operators import Count
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.synthesis import Cost, Synthesis
from tilewright.codesign.price.unit import PricedUnit
from tilewright.isa.file_hash import folder_of, hash_of_code
from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Logic:
    """The units of a machine, and the queues among them whose entries are in macros.

    `costs` and `counts` are of what the units were added up from, by name: what it costs, and a count of its operators.
    """

    units: tuple[PricedUnit, ...]
    queues: tuple[MemoryPrice, ...]
    costs: Mapping[str, Cost]
    counts: Mapping[str, Count]


def known_price(machine: Machine, synthesis: Synthesis, exact: bool, find: Callable[[], Logic]) -> Logic:
    """What `find` gives, which is called only where it is not known yet.

    A netlist follows from the text of its machine, the sources here and Amaranth: in the key they stand for it.
    """
    facts = (machine.text, sources_hash(), version("amaranth"), synthesis.script, synthesis.version, synthesis.library)
    key = hashlib.sha256(repr((*facts, synthesis.process.hash, synthesis.gate, exact)).encode()).hexdigest()

    def make(folder: Path) -> Path:
        (folder / "price").write_text(_text(find()))
        return folder / "price"

    return _read(kept(cache_folder() / "prices" / key[:2] / f"{key}.json", make).read_text(), synthesis.process)


_READ: dict[str, Logic] = {}
"""The price that was read last, by its text: that of a machine to which many are fitted."""


def _read(text: str, process: Process) -> Logic:
    if text not in _READ:
        _READ.clear()
        _READ[text] = _parsed(text, process)
    return _READ[text]


def _parsed(text: str, process: Process) -> Logic:
    found = json.loads(text)
    queues = (storage_price(each["name"], tuple(each["sizes"]), process) for each in found["queues"])
    return Logic(
        tuple(PricedUnit(**each) for each in found["units"]),
        tuple(queue for queue in queues if queue is not None),
        {name: Cost(**each) for name, each in found["costs"].items()},
        {name: Count(**each) for name, each in found["counts"].items()},
    )


@functools.cache
def sources_hash() -> str:
    """Of all that the hardware and its price are made from."""
    return hash_of_code(folder_of(package) for package in (price, isa, rtl))


def _text(logic: Logic) -> str:
    return json.dumps(
        {
            "units": [dataclasses.asdict(unit) for unit in logic.units],
            "queues": [{"name": each.name, "sizes": (each.storages, each.words, each.bits)} for each in logic.queues],
            "costs": {name: dataclasses.asdict(cost) for name, cost in logic.costs.items()},
            "counts": {name: dataclasses.asdict(count) for name, count in logic.counts.items()},
        }
    )
