"""Candidates for what no instruction computes: softmax without an instruction that it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codesign.advise.test_advice import network
from tests.codesign.specialise.test_candidates import found, shape
from tests.compiler.lower.test_softmax import softmax_model
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import simulated
from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.specialise.choose import why_not
from tilewright.codesign.specialise.lacking import with_others
from tilewright.codesign.specialise.objective import Objective
from tilewright.codesign.specialise.specialise import propose
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

WHOLE = load_machine("vector16")


@pytest.mark.slow
@pytest.mark.parametrize(("taken_away", "name"), [("max_lanes", "max_lanes"), ("sum_exponentials", "sum_lookup_lanes")])
def test_an_instruction_that_softmax_needs_is_found_again(taken_away: str, name: str) -> None:
    """What vector16 has by hand: then the machine runs all of it, in as many cycles and with the same bits."""
    less, model = load_machine("vector16", [f"instructions.{taken_away}=null"]), softmax_model([1, 40, 3, 3])
    with pytest.raises(CompileError, match="no instruction of"):
        compile_model(model, less)

    candidate = found(model, less)[name]

    machine = candidate.change.apply(less)
    own, by_hand = machine.format(name), WHOLE.format(taken_away)
    assert shape(own) == shape(by_hand)
    inputs = random_inputs(model, np.random.default_rng(0))
    results = [simulated(compile_model(model, each), inputs) for each in (machine, WHOLE)]
    assert [{key: value.tolist() for key, value in of.items()} for of in results][0] == {
        key: value.tolist() for key, value in results[1].items()
    }


@pytest.mark.slow
def test_two_that_a_node_lacks_at_once_are_a_candidate_together() -> None:
    """Without both, the machine lacks the largest value first, and then the sum; with both it runs the whole node."""
    less = load_machine("vector16", ["instructions.max_lanes=null", "instructions.sum_exponentials=null"])
    model = softmax_model([1, 40, 3, 3])
    with pytest.raises(CompileError, match="no instruction of"):
        compile_model(model, less)

    proposal = propose([Network("n", model.SerializeToString())], less)

    alone, pair = proposal.candidates
    assert alone.label == "max_lanes" and pair.label == "sum_lookup_lanes with max_lanes"
    with pytest.raises(CompileError, match="no instruction of"):
        compile_model(model, alone.change.apply(less))
    inputs = random_inputs(model, np.random.default_rng(0))
    own, by_hand = (simulated(compile_model(model, each), inputs) for each in (pair.change.apply(less), WHOLE))
    assert own.keys() == by_hand.keys() and all(own[name].tolist() == by_hand[name].tolist() for name in own)
    assert {"max_lanes", "sum_lookup_lanes"} <= set(pair.over["instructions"])


@pytest.mark.slow
def test_what_a_node_lacks_is_listed_where_no_machine_has_all_of_it() -> None:
    """A statement that no machine has, beside one that it may have: the reason is the loader's."""
    less = load_machine("vector16", ["instructions.max_lanes=null", "instructions.sum_exponentials=null"])
    name = "sum_lookup_lanes"
    first = found(softmax_model([1, 40, 3, 3]), less)["max_lanes"]
    broken = replace(first, entry={**first.entry, "do": "y = nothing(a)"}, name=name)
    lacking = with_others([first, broken], [Network("n", softmax_model([1, 40, 3, 3]).SerializeToString())], less)
    assert lacking.candidates == ()
    assert "no machine has all of max_lanes, sum_lookup_lanes: " in lacking.refused[0].reason


def test_where_the_machine_computes_all_there_is_none() -> None:
    assert not any(use.lacks for each in found(softmax_model([1, 40, 3, 3]), WHOLE).values() for use in each.uses)


def trial(cycles: int, host_nodes: int) -> Trial:
    figures = MachineFigures("m", "k", "P", 1.0, 0.0, 100.0, 1, "fitted", "m", None)
    return Trial(Change("+one", Way.ON, {}), figures, (network(cycles, host_nodes),), {})


def test_a_node_on_the_host_counts_with_its_price() -> None:
    """1,000 cycles and a node there, against 1,200 cycles without: 1,500 become 1,200."""
    before, after = trial(1000, 1), trial(1200, 0)
    assert Objective().saved(before, after) == 0
    assert Objective(host_cycles=500).saved(before, after) == pytest.approx(0.2)
    assert Objective(host_cycles=500).most_saved(before, [after]) == pytest.approx(0.2)
    assert why_not(before, after) == "1 node fewer on the host: say what one there counts as, with --host-cycles"
    assert why_not(before, after, Objective(host_cycles=500)) == ""


def test_a_trial_without_a_network_does_not_compare() -> None:
    after = replace(trial(1200, 0), why_not="no such machine")
    assert Objective(host_cycles=500).saved(trial(1000, 1), after) == 0
