"""What has five dimensions is an order of elements: nothing of it runs on the host, and the values are right."""

from __future__ import annotations

import pytest

from tests.compiler.pipelines import compiled_distances
from tests.formats.dimensions import NETWORKS


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_runs_on_the_machine(name: str, machine: str) -> None:
    apart = compiled_distances(NETWORKS[name](), machine)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99
