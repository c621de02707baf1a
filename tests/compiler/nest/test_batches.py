"""Buffers and nests taken apart by batches: the same bits, without the copies of heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.compiler.models import random_inputs
from tests.compiler.pipelines import base16, compiled_distances, lowered
from tests.compiler.simplify.test_computed_products import attention_model, image_attention_model
from tilewright.compiler.nest.batches import batches
from tilewright.compiler.nest.copies import copies
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.isa.language.operations import Op


def count_copies(program: NestProgram) -> int:
    return sum(nest.expr.op is Op.SOURCE for nest in program.nests)


def assert_same(model: onnx.ModelProto, before: NestProgram, after: NestProgram) -> None:
    for seed in range(2):
        inputs = random_inputs(model, np.random.default_rng(seed))
        expected, computed = run_nests(before, inputs), run_nests(after, inputs)
        assert all(np.array_equal(expected[name], computed[name]) for name in expected)


@pytest.mark.parametrize(
    ("model", "heads"),
    [(attention_model(1, 6, 64, 2), 2), (attention_model(2, 5, 64, 2), 4), (image_attention_model(64, 2, 4), 2)],
    ids=["one sequence", "two sequences", "an image"],
)
def test_heads_are_computed_where_they_lie(model: onnx.ModelProto, heads: int) -> None:
    before = lowered(model)
    after = batches(before)
    assert count_copies(before) > 0
    products = [nest.name for nest in after.nests if nest.name.startswith(("scores", "values")) and nest.macs]
    assert len(products) == 2 * heads
    assert sum(nest.macs for nest in after.nests) == sum(nest.macs for nest in before.nests)
    assert_same(model, before, after)
    merged = copies(after, base16())
    assert_same(model, before, merged)
    assert count_copies(merged) == 0
    assert compiled_distances(model, "base16").max() <= 1


def test_heads_that_do_not_fill_words_stay_together() -> None:
    before = lowered(attention_model(1, 6, 40, 2))
    assert any(nest.name == "scores" for nest in batches(before).nests)


def test_what_the_host_has_stays_as_it_is() -> None:
    before = lowered(attention_model(1, 6, 64, 2))
    joined = next(nest for nest in before.nests if nest.name == "scores").reads["x"].tensor
    assert joined not in batches(before).buffers
    hosted = replace(before.outputs[0], name=joined)
    after = batches(replace(before, outputs=(*before.outputs, hosted)))
    assert joined in after.buffers
