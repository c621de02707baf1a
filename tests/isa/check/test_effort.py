"""The checker takes time and memory for what accesses touch, never for how often they touch it."""

import random

import pytest

from tests.fuzz.limits import limits
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.check.checker import check
from tilewright.isa.check.effort import require_checkable
from tilewright.isa.check.footprint import footprint
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.budgets import Budgets, OverBudget

BASE16 = load_machine("base16")

LONG = {
    "the same two words, a thousand million times": "copy loops(i=1024, j=1024, k=1000) a=act[0] y=act[9]\n",
    "a word onto itself": "copy loops(i=1024, j=1024, k=1000) a=act[0] y=act[0]\n",
    "moved by a word": "copy loops(i=1024, j=1024, k=1000) a=act[0; k=1] y=act[1; k=1]\n",
    "moved in three loops": "copy loops(i=1024, j=64, k=4) a=act[0; i=1, j=50, k=3] y=act[1; i=1, j=50, k=3]\n" * 40,
}


@pytest.mark.parametrize("what", LONG)
def test_takes_no_time_for_iterations(what: str) -> None:
    program = assemble(LONG[what], BASE16)
    with limits():
        assert {finding.code.value for finding in check(program)} <= {"unwritten", "feedback", "race"}


@pytest.mark.parametrize("what", ["a word onto itself", "moved by a word"])
def test_still_finds_what_feeds_itself_again_and_again(what: str) -> None:
    assert "feedback" in {finding.code.value for finding in check(assemble(LONG[what], BASE16))}


def test_refuses_what_is_cut_into_too_many_pieces() -> None:
    scattered = "load_act loops(j=1000, k=3000) d=workspace[0; j=60001, k=20] y=act[0]\n"
    text = ".workspace 70000000\n" + scattered * 3
    with limits(), pytest.raises(OverBudget) as refused:
        check(assemble(text, BASE16))
    assert str(refused.value) == (
        "the accesses are cut into up to 9,000,003 pieces of memory, each to be checked; the budget is 8,388,608 "
        "pieces: if you trust the program, raise it with --budget pieces=9000003"
    )


def test_counts_no_fewer_pieces_than_there_are() -> None:
    rng = random.Random(11)
    for _ in range(200):
        strides = [rng.choice((0, 1, 16, 17, 20, 100, 1000)) for _ in range(2)]
        trips = [rng.randint(1, 9) for _ in range(2)]
        text = f".workspace 100000\nload_act loops(j={trips[0]}, k={trips[1]}) "
        program = assemble(text + f"d=workspace[0; j={strides[0]}, k={strides[1]}] y=act[0]", BASE16)
        pieces = sum(len(access.ranges) for access in footprint(program.instructions[0], BASE16))
        with pytest.raises(OverBudget):
            require_checkable(program, Budgets(pieces=pieces - 1))


def test_refuses_accesses_that_cut_each_other() -> None:
    """Each is few pieces; each is cut by all others."""
    whole = "load_act loops(j=1000, k=1000) d=workspace[0; j=16000, k=16] y=act[0]\n"
    scattered = "load_act loops(j=1000, k=1000) d=workspace[0; j=16999, k=17] y=act[0]\n"
    program = assemble(".workspace 17000000\n" + scattered + whole * 200, BASE16)
    with limits(), pytest.raises(OverBudget, match="the accesses cut each other into"):
        check(program)
