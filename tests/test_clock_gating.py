"""Clock gating: the same bits in the same cycles, while registers keep what they hold where nothing is in flight."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module, Signal

from tests.engines import array_of, store_of
from tests.pipelines import ALL_STAGES, one_port_with_stages
from tests.random_machines import overlay_text, random_overlay
from tests.rtl.benches import simulate
from tests.rtl.faults import failed_goals
from tests.test_simulator_equals_rtl import assert_equal, random_jobs
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import ClockGating
from tilewright.rtl.gating import clocked_in_flight, payload_domain
from tilewright.rtl.proof.mma import mma_engine
from tilewright.rtl.proof.store import store_engine

GATED = load_machine("tiny8", ["clock_gating=unit"])


@pytest.mark.slow
def test_random_programs() -> None:
    assert_equal(GATED, random_jobs(GATED, range(16), 24), range(16))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 4])
def test_random_programs_on_random_machines(seed: int) -> None:
    text = overlay_text({**random_overlay(seed), "pipeline": ALL_STAGES, "clock_gating": "unit"})
    machine, seeds = load_machine_text(text, f"gated{seed}.yaml"), range(100 * seed, 100 * seed + 16)
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
def test_proofs_hold() -> None:
    machine = load_machine_text(f"{one_port_with_stages().text}\nclock_gating: unit\n", "gated.yaml")
    assert machine.has_gated_clocks
    subjects = [mma_engine(machine, array_of(machine)), store_engine(machine, store_of(machine))]
    assert [goal for subject in subjects for goal in failed_goals(subject)] == []


class Line(Elaboratable):
    """Three registers in a row, as an engine has them for its payload."""

    def __init__(self) -> None:
        self.enters, self.value = Signal(), Signal(8)
        self.line = [Signal(8, name=f"line_{stage}") for stage in range(3)]

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        for before, after in zip([self.value, *self.line], self.line, strict=False):
            m.d[payload_domain(GATED)] += after.eq(before)
        return clocked_in_flight(GATED, m, self.enters, len(self.line))


def test_payload_passes_and_is_written_no_more_than_that() -> None:
    line, seen = Line(), []

    async def bench(ctx: Any) -> None:
        for cycle in range(12):
            ctx.set(line.enters, cycle in (2, 3))
            ctx.set(line.value, cycle)
            *_, last, first = await ctx.tick().sample(line.line[-1], line.line[0])
            seen.append((last, first))

    simulate(line, bench)
    # 2 and 3 come out three cycles after they came in. The clock stops three cycles after the last of them.
    assert [last for last, _ in seen[5:7]] == [2, 3]
    assert [first for _, first in seen] == [0, 0, 0, 2, 3, 4, 5, 6, 6, 6, 6, 6]


def test_no_clock_is_gated_where_the_file_says_nothing() -> None:
    assert load_machine("tiny8").clock_gating is ClockGating.NONE
    assert GATED.clock_gating is ClockGating.UNIT


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(IsaError, match=r"clock_gating: expected none, unit, not 'units'$"):
        load_machine("tiny8", ["clock_gating=units"])
