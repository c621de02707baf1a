"""Factors around a product of two computed operands, and masks that are added to it, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from tests.compiler.pipelines import simplified
from tests.compiler.simplify.graphs import kinds, only
from tests.compiler.simplify.test_computed_products import assert_computes, attention_model, product_model


def test_a_factor_after_it_is_part_of_it() -> None:
    model = product_model((2, 3, 5, 6), (2, 3, 6, 7), factor=0.125)
    assert_computes(model)
    assert only(simplified(model), "product").attributes["factor"] == 0.125


def test_a_factor_before_it_is_part_of_it() -> None:
    model = attention_model(1, 5, 32, 2, scale="queries")
    assert_computes(model)
    factors = [o.attributes["factor"] for o in simplified(model).operators if o.kind == "product"]
    assert factors == [0.25, 1.0]


@pytest.mark.parametrize("factor", [0.125, 3.0])
def test_a_factor_behind_a_quantisation_is_part_of_it(factor: float) -> None:
    model = product_model((2, 3, 5, 6), (2, 3, 6, 7), factor=factor, is_quantised_between=True)
    assert_computes(model)
    graph = simplified(model)
    assert not {"conv", "rescale"} & set(kinds(graph))
    assert only(graph, "product").attributes["factor"] == pytest.approx(factor, rel=1e-3)


def test_a_factor_to_another_scale_is_one_more_rounding() -> None:
    model = product_model((2, 3, 5, 6), (2, 3, 6, 7), factor=0.125, is_quantised_between=True)
    for constant in model.graph.initializer:
        if constant.name == model.graph.node[-1].input[1]:
            coarser = numpy_helper.to_array(constant) * np.float32(1.7)
            constant.CopyFrom(numpy_helper.from_array(coarser, constant.name))
    assert_computes(model)
    assert "rescale" in kinds(simplified(model))


def test_a_negative_factor_is_not_part_of_it() -> None:
    model = product_model((2, 5, 6), (2, 6, 7), factor=-0.5, is_quantised_between=True)
    assert_computes(model)
    assert only(simplified(model), "product").attributes["factor"] == 1.0


MASKS = {(6, 6): (1, 6, 1, 6), (2, 1, 1, 6): (4, 6, 1, 1), (1, 2, 6, 6): (4, 6, 1, 6), (6,): (1, 6, 1, 1)}
"""Masks of scores of two times two heads, and what is added to [4, keys, 1, queries]."""


@pytest.mark.parametrize("shape", [*MASKS, (1, 1, 1, 1)], ids=str)
def test_a_mask_is_added_where_the_scores_are(shape: tuple[int, ...]) -> None:
    model = attention_model(2, 6, 32, 2, mask=shape)
    assert_computes(model)
    graph = simplified(model)
    assert all(o.attributes["axes"] == (0,) for o in graph.operators if o.kind == "permute")
    constants = [graph.tensors[o.inputs[1]].shape for o in graph.operators if o.kind == "add" and o.name == "masked"]
    assert constants == ([] if shape == (1, 1, 1, 1) else [MASKS[shape]])
