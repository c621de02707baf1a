"""Which set is chosen, by made-up trials whose best set is plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.codesign.advise.test_advice import network
from tests.compiler.pipelines import base16
from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.trials import Bench, Trial, Trials
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.specialise import choose as module
from tilewright.codesign.specialise.candidates import Candidate, together
from tilewright.codesign.specialise.choose import Choice, Tried, choose, try_alone, why_not
from tilewright.codesign.specialise.specialise import _joined
from tilewright.isa.files.laid_over import INSTRUCTIONS

SAVED: Mapping[str, int] = {"fused": 300, "fused_wide": 400, "other": 200, "little": 1}
COSTS: Mapping[str, float] = {"fused": 10, "fused_wide": 35, "other": 20, "little": 1}
OVERLAP = 50
"""Cycles that `other` saves no more beside one of the family `fused`."""


def names(change: Change | None) -> list[str]:
    return [] if change is None else list(change.over[INSTRUCTIONS])


def made_up(bench: Bench, change: Change | None) -> Trial:
    of = names(change)
    saved = sum(SAVED[name] for name in of) - (OVERLAP if "other" in of and len(of) > 1 else 0)
    figures = MachineFigures("m", "k", "P", 1.0, 0.0, 100.0, 1, "fitted", "m", None)
    return Trial(change, figures, (network(1000 - saved),), {})


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Choice:
    """Within the budget that the test names."""
    budget: float = request.param
    monkeypatch.setattr(module, "added_kge", lambda change, machine, base: sum(COSTS[name] for name in names(change)))
    (engine, *_) = base16().engines.values()
    families = {"fused": "fused", "fused_wide": "fused"}
    candidates = [
        Candidate(name, "", families.get(name, name), {"engine": "vec"}, engine, frozenset(), ()) for name in SAVED
    ]
    bench = Bench(base16(), (Network("n", b""),), 0, True)
    base = made_up(bench, None)
    with Trials(bench, 1, lambda finished, asked: None, make=made_up) as trials:
        tried = try_alone(candidates, base16(), base, trials, budget)
        return choose(tried, base16(), base, trials, budget)


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [(60, {"fused_wide", "other"}), (40, {"fused", "other"}), (34, {"fused", "other"}), (25, {"fused"}), (5, set())],
    indirect=["choice"],
)
def test_the_best_set_within_the_budget(choice: Choice, chosen: set[str]) -> None:
    assert choice.names == chosen
    assert sum(COSTS[name] for name in choice.names) <= 60


@pytest.mark.parametrize("choice", [60], indirect=True)
def test_sets_whose_bound_is_no_better_are_not_compiled_for(choice: Choice) -> None:
    """fused_wide and other save 550 of 1,000; of one family's alone none can."""
    assert choice.sets_tried < choice.sets_tried + choice.sets_left
    assert choice.sets_left > 0


def test_the_control_joins_what_gains_as_long_as_the_area_lasts() -> None:
    changes = [Change(name, Way.UP, {name: 1}) for name in "abc"]

    joined = _joined(changes, lambda change: len(change.over) <= 2 and "b" not in change.over)

    assert [change.over for change in joined] == [{"a": 1, "c": 1}]


def test_sets_say_why_they_were_not_compiled_for() -> None:
    """Names and bounds of those of several candidates that were looked at."""
    bench = Bench(base16(), (Network("n", b""),), 0, True)
    base = made_up(bench, None)
    (engine, *_) = base16().engines.values()
    pair = [Candidate(name, "", name, {"engine": "vec"}, engine, frozenset(), ()) for name in ("fused", "other")]
    tried = [Tried(each, made_up(bench, each.change), 1.0) for each in pair]
    with Trials(bench, 1, lambda finished, asked: None, make=made_up) as trials, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "added_kge", lambda change, machine, base: 70.0)
        (of,) = choose(tried, base16(), base, trials, 60.0).sets
    assert of.names == ("fused", "other") and of.saved is None
    assert of.bound == pytest.approx(0.3 + 0.2)
    assert of.why_not == "70.0 kGE together, beyond the budget of 60.0 kGE"


@pytest.mark.parametrize(
    ("host_nodes", "words"),
    [(3, "1 node more on the host"), (1, "1 node fewer on the host"), (2, "saves less than 0.2 %")],
)
def test_why_a_candidate_is_worth_nothing_is_always_said(host_nodes: int, words: str) -> None:
    def trial(nodes: int, change: Change | None) -> Trial:
        figures = MachineFigures("m", "k", "P", 1.0, 0.0, 100.0, 1, "fitted", "m", None)
        return Trial(change, figures, (network(1000, nodes),), {})

    assert words in why_not(trial(2, None), trial(host_nodes, Change("+one", Way.ON, {})))


def test_two_that_save_apart_beat_one_that_saves_less_than_their_sum() -> None:
    """300 and 200 of 1,000 cycles, which add up, against 460 that no budget has beside them."""
    saved, costs = {"one": 300, "two": 200, "alone": 460}, {"one": 10.0, "two": 10.0, "alone": 20.0}

    def trial(bench: Bench, change: Change | None) -> Trial:
        figures = MachineFigures("m", "k", "P", 1.0, 0.0, 100.0, 1, "fitted", "m", None)
        return Trial(change, figures, (network(1000 - sum(saved[name] for name in names(change))),), {})

    bench = Bench(base16(), (Network("n", b""),), 0, True)
    (engine, *_) = base16().engines.values()
    every = [Candidate(name, "", name, {"engine": "vec"}, engine, frozenset(), ()) for name in saved]
    tried = [Tried(each, trial(bench, each.change), costs[each.name]) for each in every]
    with Trials(bench, 1, lambda finished, asked: None, make=trial) as trials, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "added_kge", lambda change, machine, base: sum(costs[name] for name in names(change)))
        patch.setattr(module, "AT_ONCE", 1)
        found = choose(tried, base16(), trial(bench, None), trials, 20.0)
    assert found.names == {"one", "two"}


def test_candidates_that_are_in_no_set_are_told() -> None:
    """Of three kinds two may be joined: the third, which saves least, is worth something, and is said to be left."""
    saved = {"one": 300, "two": 200, "three": 100}

    def trial(bench: Bench, change: Change | None) -> Trial:
        figures = MachineFigures("m", "k", "P", 1.0, 0.0, 100.0, 1, "fitted", "m", None)
        return Trial(change, figures, (network(1000 - sum(saved[name] for name in names(change))),), {})

    bench = Bench(base16(), (Network("n", b""),), 0, True)
    (engine, *_) = base16().engines.values()
    every = [Candidate(name, "", name, {"engine": "vec"}, engine, frozenset(), ()) for name in saved]
    tried = [Tried(each, trial(bench, each.change), 1.0) for each in every]
    with Trials(bench, 1, lambda finished, asked: None, make=trial) as trials, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "added_kge", lambda change, machine, base: 1.0)
        patch.setattr(module, "MOST_FAMILIES", 2)
        found = choose(tried, base16(), trial(bench, None), trials, 20.0)
    assert found.names == {"one", "two"}
    assert [each.candidate.name for each in found.passed_over] == ["three"]


def test_what_a_candidate_needs_comes_with_it() -> None:
    (engine, *_) = base16().engines.values()
    first, last = (Candidate(name, "", name, {"engine": "vec"}, engine, frozenset(), ()) for name in ("first", "last"))
    pair = replace(last, needs=(first,))
    assert names(together([first, pair])) == names(pair.change) == ["first", "last"]
    assert pair.label == "last with first"
