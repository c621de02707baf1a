"""The README's table of networks: our cycles are those that are committed and tested, others' those that are noted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.schedules.cycles import PEERS, read_table

ROW = re.compile(r"^\| ([\w-]+) \| `(\w+)`, \d+×\d+ \| ([\d,]+) \| ([\d.]+) % \| (?:([\d,]+): .*)?\|$", re.MULTILINE)
"""A network, a machine, our cycles, the share of them that its array takes at the least, and another's cycles."""


def file_name(network: str) -> str:
    """`resnet18` of ResNet-18, as programs/networks calls it; `ds-cnn` is its own."""
    return network.lower() if network == "DS-CNN" else network.lower().replace("-", "")


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.fixture
def rows(repository: Path) -> list[tuple[str, ...]]:
    return ROW.findall((repository / "README.md").read_text())


def test_each_row_of_the_table_is_read(rows: list[tuple[str, ...]], repository: Path) -> None:
    table = (repository / "README.md").read_text().partition("| network |")[2].partition("\n\n")[0]
    assert len(rows) == len(table.splitlines()) - 2  # its head is two lines


def test_our_cycles_are_those_that_are_measured(rows: list[tuple[str, ...]]) -> None:
    entries = read_table()
    for network, isa, cycles, bound, _ in rows:
        entry = entries[file_name(network), isa]
        assert (number(cycles), bound) == (entry.cycles, f"{100 * entry.array / entry.cycles:.1f}")


def test_the_figures_of_others_are_those_that_are_noted(rows: list[tuple[str, ...]]) -> None:
    for network, isa, _, _, others in rows:
        name = file_name(network)
        noted = {peer.cycles for (of, machine), peer in PEERS.items() if of == name and machine in (isa, "base16")}
        assert not others or number(others) in noted
    assert sum(bool(row[-1]) for row in rows) >= 8
