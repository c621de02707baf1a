"""Instructions by what they are to a network, and the cost of their work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tilewright.compiler.templates.dma import burst_cycles, ports_of
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.systolic import weight_tiles
from tilewright.compiler.templates.table import facet_of, formats_with
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.machine.memory import DRAM


@pytest.mark.parametrize("name", shipped_machines())
def test_roles_are_what_operands_and_statements_say(name: str) -> None:
    machine = load_machine(name)
    distinct = machine.distinct_formats
    moving = [format for format in distinct if DRAM in {operand.memory for operand in format.operands}]
    multiplying = [format for format in distinct if format.statement.dot is not None]

    assert list(formats_with(machine, Role.MOVES)) == moving
    assert list(formats_with(machine, Role.MULTIPLIES)) == multiplying
    assert len(list(formats_with(machine, Role.COMPUTES))) == len(distinct) - len(moving) - len(multiplying)


@pytest.mark.parametrize(("results", "summed", "tiles"), [(1, 1, 1), (8, 16, 1), (9, 16, 2), (17, 33, 9)])
def test_weight_tiles_are_whole_or_at_an_edge(results: int, summed: int, tiles: int) -> None:
    assert weight_tiles(load_machine("base16", ["array.rows=16", "array.cols=8", "lanes=8"]), results, summed) == tiles


def test_many_short_runs_take_their_bursts_and_long_ones_their_beats() -> None:
    machine = load_machine("base16")
    load = machine.format("load_act")
    assert (machine.dram.latency_cycles, load.engine.dma.bursts) == (64, 16)

    assert burst_cycles(machine, load, np.array([30, 3000]), np.array([10, 10])).tolist() == [43.75, 3000]


def test_loads_through_two_ports_take_half_as_long() -> None:
    load2 = "load2: {template: dma, queue: 4, port: 1, reads: [dram], writes: [act, wgt]}"
    text = f"extends: base16\ndram: {{ports: 2}}\nengines: {{{load2}}}\n"
    machine = load_machine_text(text + "instructions: {load_act: {engine: [load, load2]}}", "m.yaml")
    beats, runs, load = np.array([30, 3000]), np.array([10, 10]), machine.format("load_act")

    assert burst_cycles(machine, load, beats, runs).tolist() == [43.75 / 2, 1500]
    assert ports_of(machine, machine.format("load_wgt")) == 1, "the other engine has no such instruction"


def test_only_transfers_have_a_limit_of_their_own() -> None:
    machine = load_machine("base16")
    limits = {name: facet_of(engine.template).most_under_way(engine) for name, engine in machine.engines.items()}
    assert limits == {"load": 4, "mma": 0, "vec": 0, "store": 2}


def test_only_the_table_names_templates(repository: Path) -> None:
    """What else the compiler asks of an engine, it asks a facet or the instruction's statement."""
    sources = [path for path in (repository / "compiler").rglob("*.py") if re.search(r"\bTemplate\b", path.read_text())]
    assert sources == [repository / "compiler/templates/table.py"]
