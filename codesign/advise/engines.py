"""Engines more and fewer, as changes of a machine: each is there or not, which is a key like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import yaml

from tilewright.codesign.advise.changes import Change, Way
from tilewright.isa.files.laid_over import ENGINE, ENGINES, INSTRUCTIONS
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import Machine


def engines_more(machine: Machine) -> Iterator[Change]:
    """For each engine that can share its memories with another: a second one like it, for all that needs no table.

    An array needs weights and sums of its own, and an engine that writes to DRAM a port: neither is tried.
    """
    facts = yaml.safe_load(machine.text)
    for engine in machine.engines.values():
        own = (format for format in machine.formats_of(engine) if not format.tables)
        shared = [format for format in own if format.mnemonic in facts[INSTRUCTIONS]]
        if not _may_share(engine) or not shared:
            continue
        name = next(name for number in count(2) if (name := f"{engine}{number}") not in machine.engines)
        over = {
            ENGINES: {name: _entry(engine, facts[ENGINES][engine.name], shared)},
            INSTRUCTIONS: {
                format.mnemonic: {ENGINE: [*_listed(facts[INSTRUCTIONS][format.mnemonic][ENGINE]), name]}
                for format in shared
            },
        }
        yield Change(f"+{name}, like {engine}", Way.ON, over, f"{ENGINES}.{name}")


def engines_fewer(machine: Machine) -> Iterator[Change]:
    """The machine without each engine of which other engines can do all the work."""
    for engine in machine.engines.values():
        if all(len(machine.alike[format.mnemonic]) > 1 for format in machine.formats_of(engine)):
            yield Change(f"without {engine}", Way.WITHOUT, {ENGINES: {engine.name: None}}, f"{ENGINES}.{engine}")


def _may_share(engine: Engine) -> bool:
    if engine.template is Template.DMA:
        return engine.dma.direction is Direction.IN
    return engine.template is Template.VECTOR


def _entry(engine: Engine, facts: Mapping[str, Any], shared: list[InstructionFormat]) -> dict[str, Any]:
    """The engine's own entry, with the memories that the shared instructions use, and with its template."""
    used = {operand.memory for format in shared for operand in format.operands}
    memories = {key: [name for name in facts[key] if name in used] for key in ("reads", "writes")}
    return {"template": str(engine.template), **facts, **memories}


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names
