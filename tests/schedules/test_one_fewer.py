"""An engine more makes no network slower, by more than half a percent: shipped machines beside themselves."""

from __future__ import annotations

import pytest

from tests.rings import long_beyond
from tests.schedules.engines import cycles
from tests.schedules.never_slower import ALLOWED, SMALL
from tests.schedules.one_fewer import MACHINES


@pytest.mark.slow
@pytest.mark.parametrize("network", long_beyond(1, SMALL))
@pytest.mark.parametrize("name", MACHINES)
def test_an_engine_more_is_never_slower(name: str, network: str) -> None:
    without, whole = cycles(network, name, MACHINES[name]), cycles(network, name)
    assert whole <= ALLOWED * without
