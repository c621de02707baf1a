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
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.specialise.choose import why_not
from tilewright.codesign.specialise.objective import Objective
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
