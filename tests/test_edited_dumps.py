"""A sample of edited dumps: each is refused by name, or computes what it says."""

from __future__ import annotations

import random

import pytest

from tests.edited_dumps import FAULTS, PASSES, edited, judge
from tests.rings import long_beyond

MACHINE = "tiny8"
TRIES = 12
"""For each pass in the slow ring: they take half a minute."""


@pytest.mark.slow
@pytest.mark.parametrize("after", PASSES)
def test_an_edited_dump_is_refused_or_computes_what_it_says(after: str) -> None:
    faults = []
    for number in range(TRIES):
        edit = edited(random.Random(f"slow {number}"), MACHINE, after)
        verdict, why = judge(edit, MACHINE)
        if verdict in FAULTS:
            faults.append(f"{number}: {edit.network}: {edit.what}: {why}")
    assert not faults


@pytest.mark.parametrize("seed", long_beyond(0, range(20)))
def test_ten_thousand_edited_dumps(seed: int) -> None:
    faults = []
    for number in range(500):
        edit = edited(random.Random(f"{seed} {number}"), MACHINE)
        verdict, why = judge(edit, MACHINE)
        if verdict in FAULTS:
            faults.append(f"{seed} {number}: {edit.network} after {edit.after}: {edit.what}: {why}")
    assert not faults
