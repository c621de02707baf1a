"""Instructions that a person wrote, as candidates and beside others; by made-up trials whose worth is plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codesign.advise.test_advice import network
from tests.codesign.specialise.test_choose import names
from tests.compiler.pipelines import base16
from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.trials import Bench, LayerCycles, NoAdvice, Trial, Trials
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.specialise.candidates import Candidate
from tilewright.codesign.specialise.choose import Tried
from tilewright.codesign.specialise.given import InstructionVerdict, given_candidates, not_given, verdicts
from tilewright.codesign.specialise.objective import Objective
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import SPECS

KGE = {"mine": 10.0, "same": 10.0, "other": 5.0, "found": 4.0}
LAYERS: Mapping[str, frozenset[str]] = {
    "mine": frozenset("a"), "same": frozenset("a"), "other": frozenset("b"), "found": frozenset("a")
}  # fmt: skip
"""Each saves half of a layer of 400 cycles, whoever else saves it."""


def made_up(bench: Bench, change: Change | None) -> Trial:
    saved = frozenset().union(*(LAYERS[name] for name in names(change)))
    layers = {name: LayerCycles(200 if name in saved else 400, "vector") for name in "ab"}
    figures = MachineFigures("m", "k", "P", 1.0, 0.0, 100.0, 1, "fitted", "m", None)
    total = sum(layer.cycles for layer in layers.values())
    return Trial(change, figures, (network(total),), {"n": layers})


def candidate(name: str) -> Candidate:
    return Candidate(name, "", name, {"engine": "vec"}, base16().engines["vec"], frozenset(), ())


def judged(given: list[str], found: list[str]) -> dict[str, InstructionVerdict]:
    bench = Bench(base16(), (Network("n", b""),), 0, True)
    candidates = [candidate(name) for name in (*given, *found)]
    tried = [Tried(each, made_up(bench, each.change), KGE[each.name]) for each in candidates]
    with Trials(bench, 1, lambda finished, asked: None, make=made_up) as trials:
        own = [each.candidate for each in tried if each.candidate.name in given]
        return {each.name: each for each in verdicts(own, tried, made_up(bench, None), trials, Objective())}


def test_what_the_others_do_as_well_is_subsumed() -> None:
    of = judged(["mine", "same", "other"], [])
    assert {name: each.is_subsumed for name, each in of.items()} == {"mine": True, "same": True, "other": False}
    assert of["mine"].saved == pytest.approx(0.25) and of["mine"].saved_beside == pytest.approx(0.0)
    assert of["other"].saved_beside == pytest.approx(0.25)  # of 800 cycles, 400 and not 600


def test_a_variant_that_is_as_good_for_less_is_named() -> None:
    of = judged(["mine", "other"], ["found"])
    assert of["mine"].variant == "found"
    assert of["other"].variant == ""  # `found` saves nothing where `other` does


def test_an_overlay_becomes_candidates() -> None:
    (depthwise,) = [each for each in given_candidates(SPECS / "dw16.yaml", base16()) if each.name == "depthwise"]
    machine = depthwise.change.apply(base16())
    assert "depthwise" in machine.formats and "wgt" in machine.engines["vec"].reads


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("about: none\n", "has no instructions: expected a machine's file with new ones"),
        ("instructions: {add: {do: y = a}}\n", "base16 has an instruction add already; give the new one another name"),
        ("lanes: 8\ninstructions: {mine: {}}\n", "`lanes` is no instruction; put it into the machine's own file"),
        (
            "engines: {vec: {queue: 8}}\ninstructions: {mine: {}}\n",
            "`engines.vec.queue` is no instruction; here an engine may only read more memories",
        ),
        ("engines: null\ninstructions: {mine: {}}\n", "mine.yaml:2:1: engines: expected a mapping, not nothing"),
        ("engines: 5\ninstructions: {mine: {}}\n", "mine.yaml:2:10: engines: expected a mapping, not 5"),
        (
            "engines: {vec: null}\ninstructions: {mine: {}}\n",
            "mine.yaml:2:11: engines.vec: expected a mapping, not nothing",
        ),
        ("engines: {vec: 3}\ninstructions: {mine: {}}\n", "mine.yaml:2:16: engines.vec: expected a mapping, not 3"),
        ("parameters: null\ninstructions: {mine: {}}\n", "mine.yaml:2:1: parameters: expected a mapping, not nothing"),
        ("instructions: {mine: null}\n", "mine.yaml:2:16: instructions.mine: expected a mapping, not nothing"),
        ("instructions: {mine: [1]}\n", "mine.yaml:2:22: instructions.mine: expected a mapping, not a list"),
    ],
)
def test_what_is_no_overlay_of_instructions_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text("extends: base16\n" + text)
    with pytest.raises((NoAdvice, IsaError), match=message):
        given_candidates(tmp_path / "mine.yaml", base16())


def test_a_candidate_is_given_already_if_all_that_it_says_is_alike() -> None:
    """The statement alone is not: other loops, operands or memories are another instruction."""
    entry = {"engine": "vec", "loops": {"n": 4}, "from": {"a": "act"}, "to": {"y": "act"}, "do": "y = a"}
    found = [
        replace(candidate(name), entry={**entry, **change})
        for name, change in {
            "same": {"about": "Another sentence."}, "longer": {"loops": {"n": 8}}, "other": {"from": {"a": "acc"}}
        }.items()
    ]  # fmt: skip
    mine = replace(candidate("mine"), entry=entry)
    assert [each.name for each in not_given(found, [mine])] == ["longer", "other"]


def test_a_candidate_of_a_name_that_is_given_gets_another() -> None:
    entry = {"engine": "vec", "loops": {"n": 8}, "from": {"a": "act"}, "to": {"y": "act"}, "do": "y = a"}
    mine = replace(candidate("mine"), entry={**entry, "do": "y = -a"})
    assert [each.name for each in not_given([replace(mine, entry=entry)], [mine])] == ["mine2"]
