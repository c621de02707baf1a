"""A clock as plain values and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.codesign.price.clock import Clock
from tilewright.codesign.price.macros import MemoryPrice
from tilewright.codesign.price.report import Table
from tilewright.codesign.price.target import Aim

STATE = "mapped for speed, not placed: no wires, no clock tree"


def clock_report(clock: Clock) -> dict[str, Any]:
    """The machine's clock, and the longest path that ends in each unit, longest first."""
    return {
        "state": STATE,
        "script_hash": clock.script_hash,
        "longest_path_ns": round(clock.ns, 3),
        "clock_mhz": round(clock.mhz, 1),
        "units": [
            {
                "name": unit.unit,
                "longest_path_ns": round(unit.ns, 3),
                "from": unit.start,
                "to": unit.end,
                "statement": unit.statement,
            }
            for unit in clock.units
        ],
    }


def clock_table(report: Mapping[str, Any]) -> Table:
    title = f"Clock: {report['clock_mhz']:.0f} MHz ({report['state']})"
    rows = [
        (unit["name"], f"{unit['longest_path_ns']:.2f}", unit["from"], unit["statement"] or unit["to"])
        for unit in report["units"]
    ]
    return title, ("unit", "ns", "from", "to"), rows


def target_report(aim: Aim) -> dict[str, Any]:
    """How near a machine comes to a clock, with what macros and efforts, and what keeps it from there."""
    return {
        "target_mhz": aim.target_mhz,
        "is_reached": aim.is_reached,
        "clock_mhz": {corner: round(mhz, 1) for corner, mhz in aim.corners.items()},
        "logic_um2": round(aim.logic_um2, 1),
        "memories_um2": round(sum(memory.area_um2 for memory in aim.memories), 1),
        "memories": [
            {"name": each.name, "macro": each.macro.name, "macros": each.macros, "area_um2": round(each.area_um2, 1)}
            for each in aim.memories
        ],
        "efforts": dict(aim.efforts),
        "slow_units": [
            {"name": unit.unit, "longest_path_ns": round(unit.ns, 3), "from": unit.start, "remedy": remedy}
            for unit, remedy in aim.remedies
        ],
    }


def target_tables(report: Mapping[str, Any], memories: Sequence[MemoryPrice]) -> list[Table]:
    """The target as tables; `memories` are those that are chosen without one, for comparison."""
    before = {memory.name: memory for memory in memories}
    clocks = [(f"clock, {corner} corner", f"{mhz:.0f} MHz") for corner, mhz in report["clock_mhz"].items()]
    areas = [
        ("logic, mapped for this", f"{report['logic_um2'] / 1e6:.3f} mm²"),
        ("on-chip memories, without queues", f"{report['memories_um2'] / 1e6:.3f} mm²"),
    ]
    reached = "reached" if report["is_reached"] else "not reached"
    first = (
        f"Target of {report['target_mhz']:g} MHz: {reached} ({STATE})",
        ("figure", "value"),
        [*clocks, *areas],
    )
    rows = [
        (
            each["name"],
            f"{each['macros']} × {each['macro']}",
            f"{each['area_um2']:,.0f}",
            f"{each['area_um2'] - before[each['name']].area_um2:+,.0f}",
        )
        for each in report["memories"]
    ]
    tables: list[Table] = [first, ("Memories for this clock", ("memory", "macros", "µm²", "more µm²"), rows)]
    if not report["is_reached"]:
        slow = [
            (each["name"], f"{each['longest_path_ns']:.2f}", each["from"], each["remedy"])
            for each in report["slow_units"]
        ]
        tables.append(("What keeps it from the target", ("unit", "ns", "from", "what would help"), slow))
    return tables
