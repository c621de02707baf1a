"""Sums that their readers requantise: what the nests mean, where it is done, and what is said where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.accumulator_networks import FROM_ACCUMULATORS, from_accumulators, pooled, projection
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import base16, lowered
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.compared import compared_sums
from tilewright.compiler.select.cover import nests_within
from tilewright.compiler.select.read_sums import candidates, read_sums
from tilewright.compiler.select.select import select
from tilewright.compiler.session import Session
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine


def nests_of(model: onnx.ModelProto) -> NestProgram:
    return fuse(lowered(model))


def with_weights_of(kib: int) -> Machine:
    """The machine with less memory for weights."""
    return load_machine_text(FROM_ACCUMULATORS.replace("base16", f"base16\nmemories: {{wgt: {{kib: {kib}}}}}"), "small")


@pytest.mark.parametrize(
    ("network", "names", "sums"),
    [(projection, ["first", "second", "shortcut"], "second"), (pooled, ["conv", "pool"], "conv")],
)
def test_sums_go_to_the_reader_and_values_stay(
    network: Callable[[], onnx.ModelProto], names: list[str], sums: str
) -> None:
    model, machine = network(), from_accumulators()
    nests = nests_of(model)
    left = read_sums(nests, machine)
    assert [nest.name for nest in left.nests] == names
    of_sums = next(nest for nest in left.nests if nest.name == sums)
    assert str(of_sums.expr).startswith("sum(")
    assert left.buffers[of_sums.result.tensor].type.bits == 32
    inputs = random_inputs(model, np.random.default_rng(0))
    assert np.array_equal(run_nests(left, inputs)["result"], run_nests(nests, inputs)["result"])


@pytest.mark.parametrize("network", [projection, pooled])
def test_the_sums_are_computed_within_their_reader(network: Callable[[], onnx.ModelProto]) -> None:
    machine = from_accumulators()
    selection = select(read_sums(nests_of(network()), machine), machine)
    last = len(selection.covers) - 1
    assert nests_within(selection) == {last - 1: last}


def test_sums_that_two_nests_read_are_computed_once_before_both() -> None:
    machine = from_accumulators()
    nests = read_sums(nests_of(pooled()), machine)
    pool = nests.nests[-1]
    again = replace(pool, name="again", result=replace(pool.result, tensor="again"))
    buffers = {**nests.buffers, "again": replace(nests.buffers[pool.result.tensor], name="again")}
    assert nests_within(select(replace(nests, nests=(*nests.nests, again), buffers=buffers), machine)) == {}


@pytest.mark.parametrize("network", [projection, pooled])
def test_nothing_changes_without_an_instruction(network: Callable[[], onnx.ModelProto]) -> None:
    nests = nests_of(network())
    assert read_sums(nests, base16()) is nests
    assert nests_within(select(nests, base16())) == {}


@pytest.mark.parametrize(
    "model",
    [
        pooled(kernel=3, stride=2),  # windows that overlap would want their sums twice
        pooled(9, pads=(0, 0, 1, 1)),  # no accumulator lies outside
        pooled(readers=2),  # both would have to compute the sums
    ],
    ids=["overlapping", "padded", "read twice"],
)
def test_what_a_reader_cannot_take_stays_apart(model: onnx.ModelProto) -> None:
    nests = nests_of(model)
    assert read_sums(nests, from_accumulators()) is nests


def test_what_somebody_else_reads_stays_whole() -> None:
    model = projection()
    model.graph.output.append(onnx.helper.make_tensor_value_info("second.q.dequantize.out", 1, None))
    nests = nests_of(onnx.shape_inference.infer_shapes(model))
    sums = [found.nest.name for found in candidates(nests, from_accumulators(), Session())]
    assert "second" not in sums


def test_where_the_weights_of_a_window_do_not_fit_they_stay_apart_and_it_is_said_why() -> None:
    """A window of 3×3 has 9 tiles of 16 words; a quarter of 8 KiB, that is of 512 words, are 128."""
    nests = nests_of(projection())
    assert read_sums(nests, with_weights_of(8)) is nests
    apart, joined = compared_sums(nests, with_weights_of(8))
    assert (apart.nest, apart.form, apart.is_chosen) == ("second", "before shortcut", True)
    assert (joined.form, joined.is_chosen) == ("in the tiles of shortcut", False)
    assert joined.instructions == ("mma", "mma", "requantize_add_two")
    assert joined.obstacle == "the sums' smallest tile needs 144 words of wgt, more than a quarter of 512"
    assert (apart.words["vec"], joined.words["vec"]) == (96, 32)  # 32 words of results, each three times or once
