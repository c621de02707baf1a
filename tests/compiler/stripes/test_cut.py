"""Chains in stripes: the same numbers, whatever the stripes, windows and groups of channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.models import random_inputs
from tests.compiler.stripes.networks import before_stripes, block_model, skipping_model
from tilewright.compiler.graph.graph import ROW
from tilewright.compiler.levels import NESTS
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.stripes.chain import Chain, chains
from tilewright.compiler.stripes.cut import Stripes, cut_evenly, in_stripes, interleaved, rows_of_stripes
from tilewright.isa.files.loader import load_machine

DW16 = load_machine("dw16")

CASES = {
    "3x3": {},
    "3x3, stride 2": {"stride": 2},
    "3x3, gaps": {"dilation": 2},
    "5x5": {"kernel": 5},
    "5x5, stride 3": {"kernel": 5, "stride": 3, "height": 17},
    "7x7, windows longer than the image": {"kernel": 7, "dilation": 2, "height": 5},
    "residual": {"is_residual": True},
    "40 channels, the last word not full": {"channels": 40},
}
STRIPES = (
    Stripes(1),
    Stripes(3),
    Stripes(4, 16),
    Stripes(100, 16),
    Stripes(2, 32),
    Stripes(4, 16, True),
    Stripes(5, None, True),
    Stripes(1, copies_edges=True),
    Stripes(3, 16, copies_edges=True),
    Stripes(2, 32, True, True),
)


def blocks(program: NestProgram) -> list[Chain]:
    return list(chains(program, DW16.lanes))


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same_numbers(name: str) -> None:
    model = block_model(**CASES[name])
    program = before_stripes(model, DW16)
    (chain,) = blocks(program)
    inputs = random_inputs(model, np.random.default_rng(1))
    expected = run_nests(program, inputs)
    for stripes in STRIPES:
        cut = in_stripes(chain, stripes)
        NESTS.require(cut)
        found = run_nests(cut, inputs)
        assert all(np.array_equal(found[output], values) for output, values in expected.items()), stripes
        assert sum(nest.macs for nest in cut.nests) == sum(nest.macs for nest in program.nests)
        assert not chain.inner & cut.buffers.keys()


def test_a_chain_begins_and_ends_where_little_is_alive() -> None:
    (chain,) = blocks(before_stripes(block_model(), DW16))
    assert [[nest.name for nest in run] for run in chain.runs] == [["first"], ["expand", "depthwise"], ["project"]]


def test_nothing_that_others_read_or_the_host_takes_lies_inside_a_chain() -> None:
    program = before_stripes(block_model(is_residual=True), DW16)
    (chain,) = blocks(program)
    assert {nest.result.tensor for nest in chain.nests[:-1]} == set(chain.inner)
    outside = [nest for nest in program.nests if nest not in chain.nests]
    read = {access.tensor for nest in outside for access in nest.reads.values()}
    assert not chain.inner & (read | {tensor.name for tensor in program.outputs})


@pytest.mark.parametrize("layer", ["first", "expand", "depthwise"])
def test_a_tensor_that_the_host_takes_is_the_last_of_its_chain(layer: str) -> None:
    program = before_stripes(block_model(), DW16)
    (chain,) = blocks(program)
    inner = next(nest.result.tensor for nest in chain.nests if nest.name == layer)
    shape = program.buffers[inner].shape
    output = replace(program.outputs[0], name=inner, shape=shape, stored=shape)
    taken = replace(program, outputs=(*program.outputs, output))
    NESTS.require(taken)
    assert not blocks(taken)


def test_a_tensor_that_is_read_behind_a_narrow_place_does_not_lie_inside_a_chain() -> None:
    """The first expansion skips the narrow place behind `project`: the layers up to there are no chain."""
    found = blocks(before_stripes(skipping_model(), DW16))
    assert [[nest.name for nest in chain.nests] for chain in found] == [["expand2", "depthwise2", "project2"]]


def test_rows_at_the_edge_of_a_stripe_are_computed_for_both() -> None:
    (chain,) = blocks(before_stripes(block_model(height=12), DW16))
    rows = [rows["expand"].all for rows in rows_of_stripes(chain, Stripes(4))]
    assert rows == [range(0, 5), range(3, 9), range(7, 12)]


def test_rows_at_the_edge_of_a_stripe_are_computed_once_and_copied() -> None:
    (chain,) = blocks(before_stripes(block_model(height=12), DW16))
    found = list(rows_of_stripes(chain, Stripes(4, copies_edges=True)))
    assert [rows["expand"].own for rows in found] == [range(0, 5), range(5, 9), range(9, 12)]
    assert [rows["expand"].edge for rows in found] == [range(0, 0), range(3, 5), range(7, 9)]
    assert not any(rows[name].edge for rows in found for name in ("first", "depthwise", "project"))

    cut = in_stripes(chain, Stripes(4, 16, copies_edges=True))
    (copy,) = [nest for nest in cut.nests if nest.name == "expand.rows1.channels2.edge"]
    trips = {loop.name: loop.trip for loop in copy.loops}
    rows = [access.index[ROW].constant for access in (copy.reads["x"], copy.result)]
    assert (trips, rows) == ({"n": 1, "c": 16, "y": 2, "x": 6}, [3, 0])
    assert (copy.reads["x"].tensor, copy.result.tensor) == tuple(
        [f"{chain.nests[1].result.tensor}.rows{stripe}.channels2" for stripe in (0, 1)]
    )
    assert copy.layer == "expand"


def test_pieces_are_about_alike() -> None:
    assert cut_evenly(13, 4) == [range(0, 3), range(3, 6), range(6, 9), range(9, 13)]
    assert cut_evenly(3, 100) == [range(0, 3)]


def test_the_last_nests_of_a_stripe_stand_between_the_first_of_the_next() -> None:
    (chain,) = blocks(before_stripes(block_model(height=8), DW16))
    names = [nest.name for nest in in_stripes(chain, Stripes(4, 16, is_interleaved=True)).nests]
    groups = [[f"expand.rows{row}.channels{group}" for group in range(3)] for row in range(2)]
    deep = [[f"depthwise.rows{row}.channels{group}" for group in range(3)] for row in range(2)]
    before, behind = (
        [f"first.rows{row}", *(name for pair in zip(groups[row], deep[row], strict=True) for name in pair)]
        for row in range(2)
    )
    assert names == [*before, *behind[:3], "project.rows0", *behind[3:], "project.rows1"]


def test_several_are_interleaved_at_even_distances() -> None:
    many, few = list("abcdef"), list("XY")
    assert "".join(interleaved(many, few)) == "abXcdYef"
    assert interleaved(many, []) == many


def test_pieces_say_which_layer_they_are_of() -> None:
    (chain,) = blocks(before_stripes(block_model(), DW16))
    cut = in_stripes(chain, Stripes(5, 16))
    pieces = [nest for nest in cut.nests if nest.layer]
    assert {nest.layer for nest in pieces} == {"first", "expand", "depthwise", "project"}
    assert [nest.name for nest in pieces[:2]] == ["first.rows0", "expand.rows0.channels0"]
    assert parse_nests(print_nests(cut)).nests == cut.nests
