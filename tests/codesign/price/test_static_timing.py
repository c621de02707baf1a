"""A path takes the sum of its cells' delays, each at its own slew and load, and the setup time at its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import Arc, Pin, Timing, between, load_timing
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.static_timing import CLOCK_SLEW_NS, Path, StaticTiming

AXIS = (0.0, 1.0)


def arc(cell: str, source: str, target: str, kind: str, sense: str, edge: str, ns: float, per_pf: float) -> Arc:
    """A delay that does not depend on the slew: so many ns, and so many for each pF; edges are 0.1 ns steep."""
    row = (ns, ns + per_pf)
    return Arc(cell, source, target, kind, sense, edge, AXIS, AXIS, (row, row), ((0.1, 0.1), (0.1, 0.1)))


@pytest.fixture
def static(toy: Process) -> StaticTiming:
    """The toy's NAND takes 1 ns to rise, 2 to fall, and 10 for each pF; its register 0.5 ns, with 0.25 of setup."""
    arcs = []
    for edge, ns in (("rise", 1.0), ("fall", 2.0)):
        arcs += [arc("nand", pin, "Y", "combinational", "negative_unate", edge, ns, 10.0) for pin in ("A", "B")]
        arcs.append(arc("register", "C", "Q", "clock", "non_unate", edge, 0.5, 0.0))
        arcs.append(arc("register", "C", "D", "setup", "", edge, 0.25, 0.0))
    pins = {(cell.name, pin): Pin(0.02, 0.0, 0.0) for cell in toy.cells for pin in (*cell.inputs, *cell.outputs)}
    return StaticTiming(toy, Timing(tuple(arcs), pins))


def gate(a: int, b: int, y: int) -> dict[str, Any]:
    return cell("nand", {"A": a, "B": b}, {"Y": y})


def cell(kind: str, inputs: dict[str, int], outputs: dict[str, int]) -> dict[str, Any]:
    directions = {**dict.fromkeys(inputs, "input"), **dict.fromkeys(outputs, "output")}
    return {
        "type": kind,
        "port_directions": directions,
        "connections": {pin: [net] for pin, net in {**inputs, **outputs}.items()},
    }


def module(**cells: dict[str, Any]) -> dict[str, Any]:
    names = {"start": [10], "end": [11], "unit.$1": [10]}
    return {
        "ports": {"clk": {"direction": "input", "bits": [2]}, "a": {"direction": "input", "bits": [3]}},
        "cells": cells,
        "netnames": {name: {"hide_name": 0, "bits": bits} for name, bits in names.items()},
    }


def longest(paths: Iterable[Path]) -> Path:
    return max(paths, key=lambda path: path.ns)


def test_follows_the_slowest_edges_to_the_setup(static: StaticTiming) -> None:
    found = static.mapped(
        module(
            first=cell("register", {"C": 2, "D": 3}, {"Q": 10}),
            one=gate(10, 3, 20),
            two=gate(20, 3, 21),
            last=cell("register", {"C": 2, "D": 21}, {"Q": 11}),
        )
    )
    path = longest(static.ends(found, static.arrivals(found, {})))
    # Each gate drives one pin of 0.02 pF: 0.2 ns. One gate rises and the other falls: 1 + 2 ns, in either order.
    assert path.ns == pytest.approx(0.5 + 1.2 + 2.2 + 0.25)
    assert (path.start, path.end, path.cells) == ("start", "end", 2)


def test_what_settles_late_outside_is_late_inside(static: StaticTiming) -> None:
    found = static.mapped(module(one=gate(3, 3, 21), last=cell("register", {"C": 2, "D": 21}, {"Q": 11})))
    path = longest(static.ends(found, static.arrivals(found, {3: (4.0, "macro")})))
    assert path.ns == pytest.approx(4.0 + 2.2 + 0.25)
    assert path.start == "macro"
    assert list(static.ends(found, static.arrivals(found, {}))) == []  # nothing comes in


def test_a_loop_of_gates_is_refused(static: StaticTiming) -> None:
    found = static.mapped(module(one=gate(20, 3, 21), two=gate(21, 3, 20)))
    with pytest.raises(PriceError, match="loop without a flip-flop"):
        static.arrivals(found, {})


def test_reads_between_the_entries_of_a_table_and_beyond() -> None:
    table = ((0.0, 1.0), (10.0, 11.0))
    assert between(AXIS, AXIS, table, 0.5, 0.5) == pytest.approx(5.5)
    assert between(AXIS, AXIS, table, 2.0, 3.0) == pytest.approx(23.0)


def test_the_shipped_library_is_slower_with_more_load() -> None:
    timing = load_timing(load_process())
    for each in timing.arcs:
        if each.kind != "setup":
            delays = [each.delay(CLOCK_SLEW_NS, load) for load in (0.001, 0.01, 0.1, 0.3)]
            assert delays == sorted(delays) and delays[0] > 0, each.cell
            assert each.transition(CLOCK_SLEW_NS, 0.1) > 0


def test_a_process_without_delays_is_refused(toy: Process) -> None:
    with pytest.raises(PriceError) as error:
        load_timing(toy)
    assert str(error.value) == (
        f"{toy.folder / 'arcs.csv'}: not there; a clock and the energy of logic need it: "
        "python -m tilewright.codesign.price.liberty_import makes it from a Liberty file"
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("arcs.csv", "sg13g2_inv_1,A,Y", "sg13g2_inv_1,A,Z", "no delay to pin Y of sg13g2_inv_1, which cells.csv has"),
        ("pins.csv", "sg13g2_inv_1,A,", "sg13g2_inv_1,B,", "no row for pin A of sg13g2_inv_1, which cells.csv has"),
        ("pins.csv", "0.00276976", "much", "capacitance_pf is 'much'; expected a number"),
    ],
)
def test_a_table_with_a_hole_is_refused(file: str, old: str, new: str, message: str, tmp_path: FilePath) -> None:
    shipped = load_process().folder
    shutil.copytree(shipped, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).write_text((tmp_path / file).read_text().replace(old, new))
    with pytest.raises(PriceError, match=message):
        load_timing(load_process(tmp_path))
