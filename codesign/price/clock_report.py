"""A clock as plain values and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codesign.price.clock import Clock
from tilewright.codesign.price.report import Table

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
