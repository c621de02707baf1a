"""The page of what runs where has a row for each network, and the rows that the compiler gives."""

from __future__ import annotations

import pytest

from programs.networks.coverage import FAMILIES, PAGE, row
from programs.networks.registry import NETWORKS


def test_every_network_is_in_one_family() -> None:
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(NETWORKS)


@pytest.mark.parametrize("name", ["autoencoder", "ds-cnn"])
def test_the_page_has_the_row_of_a_network(name: str) -> None:
    assert row(name) in PAGE.read_text().splitlines()
