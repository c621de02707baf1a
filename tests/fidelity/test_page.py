"""docs/fidelity.md says what is measured, and nothing on it differs."""

from __future__ import annotations

import re

import pytest

from tests.fidelity.__main__ import NETWORKS
from tests.fidelity.measure import LATENCIES, measure
from tests.fidelity.page import PAGE, facts, pressure, section, summary


def test_nothing_on_the_page_differs() -> None:
    text = PAGE.read_text()
    rows = re.findall(r"^\| ([\w. -]+) \| `\w+` \| (\d+) \|(.*)\|$", text, re.MULTILINE)
    assert [(name, int(latency)) for name, latency, _ in rows] == [
        (name, latency) for name, _ in NETWORKS for latency in LATENCIES
    ]
    for name, _, cells in rows:
        simulator, hardware, *differences = [int(cell.replace(",", "")) for cell in cells.split("|")]
        assert simulator == hardware and [differences[n] for n in (0, 2, 4, 6, 7)] == [0] * 5, name


@pytest.mark.slow
def test_the_page_is_what_is_measured() -> None:
    """The smallest of its networks; `make fidelity` measures all."""
    network, text = measure(*NETWORKS[0]), PAGE.read_text()
    for part in (*list(summary([network]))[3:-1], *list(pressure([network]))[3:-1], section(network)):
        assert part in text
    assert all(facts(run)[n] == 0 for run in network.runs for n in (1, 3, 5, 6))
