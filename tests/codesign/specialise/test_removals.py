"""What can go, and what was predicted; by made-up trials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.codesign.advise.test_advice import network
from tests.codesign.specialise.test_candidates import depthwise, found
from tests.compiler.pipelines import base16
from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.trials import Bench, LayerCycles, Trial, Trials
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.specialise import choose
from tilewright.codesign.specialise import specialise as module
from tilewright.codesign.specialise.goal import SavedQuantity
from tilewright.codesign.specialise.objective import Objective
from tilewright.codesign.specialise.predict import _in_tiles, predictions
from tilewright.codesign.specialise.removals import ALL, removals
from tilewright.codesign.specialise.specialise import Question, specialise_machine
from tilewright.codesign.specialise.tables import lines

LESS = {"without max_pool": (2.0, 1000), "fetch_beats 64 → 32": (1.0, 1000), "wait_bits 16 → 8": (3.0, 1001)}
"""kGE less and cycles, of a machine of 100 kGE and 1,000 cycles; other changes cost nothing and buy nothing."""


def placed(mnemonics: Iterable[str]) -> dict[str, dict[str, dict[str, int]]]:
    """A network in whose program these instructions are."""
    return {"n": {name: {"layer": 1} for name in sorted(mnemonics)}}


def made_up(bench: Bench, change: Change | None) -> Trial:
    own = "" if change is None else change.name.removeprefix("+chosen, ")
    kge, cycles = LESS.get(own, (0.0, 1000))
    if own == ALL:
        kge, cycles = 3.0, 1010
    figures = MachineFigures("m", "k", "P", (100 - kge) / 100, 0.0, 100 - kge, 1, "fitted", "m", None)
    return Trial(change, figures, (network(cycles),), {}, places=placed(set(base16().formats) - {"max_pool"}))


def test_what_is_as_fast_and_smaller_can_go() -> None:
    bench = Bench(base16(), (Network("n", b""),), 0, True)
    with Trials(bench, 1, lambda finished, asked: None, make=made_up) as trials:
        going = removals(base16(), made_up(bench, None), None, trials)
    assert [(each.name, round(each.kge, 3)) for each in going] == [
        ("without max_pool", 2.0), ("fetch_beats 64 → 32", 1.0), (ALL, 3.0)
    ]  # fmt: skip
    assert going[-1].share_saved < 0  # together they cost cycles, and that is said


def test_loops_are_as_long_as_programs_need() -> None:
    names: list[str] = []

    def noted(bench: Bench, change: Change | None) -> Trial:
        names.extend([] if change is None else [change.name])
        return made_up(bench, change)

    bench = Bench(base16(), (Network("n", b""),), 0, True)
    loops = {loop.name: loop.bits for loop in base16().format("requantize").loops}
    first, *others = loops
    longest = {"requantize": {first: 5, **{name: 1 << loops[name] for name in others}}}
    base = Trial(None, made_up(bench, None).figures, (network(1000),), {}, "", placed(base16().formats), longest)
    with Trials(bench, 1, lambda finished, asked: None, make=noted) as trials:
        removals(base16(), base, None, trials)
    fewer = loops[first] - 3  # 5 iterations are counted with 3 bits
    assert f"{fewer} bits of the loops of requantize" in names


def test_a_layer_is_predicted_to_lose_what_its_longest_resource_loses() -> None:
    """3 · 3 taps of 8 · 8 pixels and 2 blocks of channels: blocks of three words: 3 · 64 · 2 words, and 128 results."""
    candidate = found(depthwise())["channel_products_by_3"]
    (use,) = candidate.uses
    bounds = {"compute": 2000, "vector": 128, "weights": 300, "dram": 700}
    other = {"compute": 1000, "vector": 400, "weights": 0, "dram": 0}
    layers = {use.layer: LayerCycles(2100, "compute", bounds), "other": LayerCycles(1050, "compute", other)}
    base = Trial(None, None, (network(3150),), {"n": layers})
    after = Trial(None, None, (network(1000),), {})

    (predicted,) = predictions([candidate], base, after)

    assert use.words == 3 * 64 * 2 + 128
    assert predicted.apart == 3150 - 2000 + 700  # then DRAM is the longest of that layer
    assert predicted.errors[0] == 1850 / 1000 - 1


def test_tiles_of_layers_on_two_engines_overlap() -> None:
    """A layer of 400 words in the vector engine, then one of 400 products: the array waits for two tiles of 50."""
    words = {"compute": 0, "vector": 400, "weights": 0, "dram": 0}
    products = {"compute": 400, "vector": 0, "weights": 40, "dram": 0}
    assert _in_tiles([products, products]) == 800
    assert _in_tiles([words, products]) == 100 + 400
    assert _in_tiles([{**products, "vector": 100}]) == 400  # the vector engine takes words as they come


def test_what_can_go_needs_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said of area and cycles alone: only candidates and what else the area buys are synthesised for speed."""
    with_clock: dict[str, bool] = {}

    def noted(bench: Bench, change: Change | None) -> Trial:
        name = "" if change is None else change.name
        with_clock[name.removeprefix("+channel_products_by_3, ")] = bench.with_clock
        found = made_up(bench, change)
        assert found.figures is not None
        cycles = 500 if name.startswith("+channel_products_by_3") else 1000
        return replace(
            found, figures=replace(found.figures, clock_ns=5.0), outcomes=(network(cycles),), layers={"n": {}}
        )

    monkeypatch.setattr(module, "trial_maker", lambda keep: noted)
    monkeypatch.setattr(module, "predictions", lambda *_: ())
    monkeypatch.setattr(choose, "added_kge", lambda change, machine, base: 10.0)
    network_of = Network("n", depthwise().SerializeToString())
    asked = Question(
        (network_of,), base16(), 1.0, objective=Objective(SavedQuantity.TIME), with_control=False, with_clock=False
    )
    found = specialise_machine(asked, jobs=1)
    assert found.choice.names == {"channel_products_by_3"}
    assert with_clock["+channel_products_by_3"] and not with_clock["without max_pool"]


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (100, "2 single changes that cost no more than 0.100 mm² is fetch_beats 64 → 128, with 10.0 % less"),
        (0, "2 single changes that cost no more than 0.100 mm² saves 0.2 % of the cycles either."),
    ],
)
def test_where_nothing_pays_the_area_may_be_worth_something_else(
    monkeypatch: pytest.MonkeyPatch, saved: int, words: str
) -> None:
    """Of a machine with 1 mm² of logic the instructions might have added a tenth."""
    tried = ("fetch_beats 64 → 128", "wait_bits 16 → 32")

    def noted(bench: Bench, change: Change | None) -> Trial:
        found = made_up(bench, None)
        is_better = change is not None and change.name == tried[0]
        return replace(found, change=change, outcomes=(network(1000 - saved * is_better),), layers={"n": {}})

    monkeypatch.setattr(module, "trial_maker", lambda keep: noted)
    monkeypatch.setattr(module, "_costs_at_most", lambda change, machine, base, mm2: change.name in tried)
    monkeypatch.setattr(choose, "added_kge", lambda change, machine, base: 1.0)
    network_of = Network("n", depthwise().SerializeToString())
    asked = Question((network_of,), base16(), 0.1, with_removals=False, with_clock=False)

    found = specialise_machine(asked, jobs=1)

    assert not found.choice.chosen
    assert words in list(lines(found))[-1]
