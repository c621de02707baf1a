"""Texts of graphs that break a rule are refused with the rule and the line; what passes give keeps all rules."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.compiler.models import conv_model, pool_model, residual_model
from tests.compiler.pipelines import simplified
from tilewright.compiler.graph.attribute_rules import ATTRIBUTES
from tilewright.compiler.graph.graph import CANONICAL
from tilewright.compiler.graph.rules import RULES
from tilewright.compiler.graph.shapes import ANY_RANK, SHAPES
from tilewright.compiler.levels import GRAPH
from tilewright.compiler.rules import BrokenRule
from tilewright.isa.files.loader import load_machine

MODELS = {"conv": lambda rng: conv_model(rng, 16), "pool": pool_model, "residual": residual_model}

BROKEN = [
    ("names", "residual", "%conv.weight", "%$$", "a tensor: rule names: it has no name; expected one"),
    (
        "types",
        "conv",
        "quant.uniform<i8",
        "quant.uniform<i7",
        "its elements are int7; expected one of bool, int2, int4",
    ),
    ("types", "residual", "0.6605546474456787:", "-0.6605546474456787:", "its scales are (-0.66"),
    ("types", "residual", "0.6605546474456787:-8", "0.6605546474456787:-129", "its zero points are (-129,); expected"),
    ("constants", "residual", "tensor<8x8x3x3xi8>}", "tensor<8x8x9x1xi8>}", "its value is int8 [8, 8, 9, 1]; expected"),
    ("attributes", "conv", "strides = [1, 1]", "strides = [0, 1]", "strides is (0, 1); expected two integers from 1"),
    ("attributes", "conv", "group = 1", "group = 1, axis = 0", "conv 'conv': rule attributes: unknown attribute axis"),
    ("attributes", "conv", "group = 1", 'group = "1"', "attribute group is '1'; expected an integer from 1 on"),
    (
        "limits",
        "residual",
        "low = -128, high = 127",
        "low = 5, high = -7",
        "low is 5, high -7; expected ascending values",
    ),
    ("limits", "residual", "high = 127", "high = 128", "low is -128, high 128; expected ascending values of int8"),
    (
        "limits",
        "residual",
        'low = -128, high = 127, name = "add"',
        'high = 127, name = "add"',
        "it has one of low and high; expected both or none",
    ),
    ("shapes", "residual", "pads = [1, 1, 1, 1]", "pads = [1, 1, 1, 0]", "its result is [1, 8, 6, 6]; expected [1, 8"),
    ("shapes", "conv", "group = 1", "group = 2", "conv 'conv': rule shapes: 16 channels, 16 for each of 2"),
    ("shapes", "pool", "kernel = [2, 2]", "kernel = [9, 2]", "a window of 9 is larger than 8, padding included"),
]


@cache
def text_of(model: str) -> str:
    return GRAPH.print(simplified(MODELS[model](np.random.default_rng(0))))


@pytest.mark.parametrize(("rule", "model", "old", "new", "message"), BROKEN)
def test_a_broken_rule_is_named_with_its_line(rule: str, model: str, old: str, new: str, message: str) -> None:
    text = text_of(model)
    assert old in text
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(text.replace(old, new), load_machine("tiny8"))
    assert refused.value.rule == rule
    assert message in str(refused.value)
    assert str(refused.value).startswith("line ")


def test_a_pool_of_maxima_keeps_its_scale() -> None:
    """Its integers are chosen among those of the operand."""
    text = text_of("pool")
    assert text.count(":70>>") > 2
    first = text.index(":70>>", text.index('"graph.max_pool"')) + 5
    changed = text[:first] + text[first:].replace(":70>>", ":71>>")
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(changed, load_machine("tiny8"))
    assert refused.value.rule == "views"


def test_padding_keeps_the_scale_of_what_it_copies() -> None:
    """No multiplication is made for a copy."""
    stored, other = (f"tensor<1x2x3x3x!quant.uniform<i8:f32, {scale}:0>>" for scale in (1.0, 2.0))
    text = f""""graph.network"() ({{
^bb0(%x: {stored}):
  %y = "graph.pad"(%x) {{pads = [0, 0, 0, 0], value = 0, name = "p", nodes = []}} : ({stored}) -> {other}
  "graph.return"(%y) {{outputs = ["y"]}} : ({other}) -> ()
}}) {{name = "n", opset = 17}} : () -> ()"""
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(text, load_machine("tiny8"))
    assert "pad 'p': rule views: its operand is int8 of scale 1 and zero point 0, its result" in str(refused.value)


def test_a_sum_of_floats_makes_no_integers() -> None:
    text, stored = text_of("residual"), "tensor<1x8x6x6x!quant.uniform<i8:f32, 0.05000000074505806:70>>"
    changed = text.replace("(%x.q.quantize.out, %conv.weight)", "(%x, %conv.weight)")
    assert changed != text
    changed = changed.replace(f": ({stored}, tensor<8x8", ": (tensor<1x8x6x6xf32>, tensor<8x8")
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(changed, load_machine("tiny8"))
    assert "rule views: it makes int8 of scale 0.660555 and zero point -8 of float32" in str(refused.value)


def test_a_sum_of_integers_and_floats_is_refused() -> None:
    text, stored = text_of("residual"), "tensor<1x8x6x6x!quant.uniform<i8:f32, 0.05000000074505806:70>>"
    changed = text.replace("(%conv.q.quantize.out, %x.q.quantize.out)", "(%conv.q.quantize.out, %x)")
    assert changed != text
    first = changed.index(stored, changed.index("graph.add"))
    changed = changed[:first] + "tensor<1x8x6x6xf32>" + changed[first + len(stored) :]
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(changed, load_machine("tiny8"))
    assert str(refused.value).endswith(
        "add 'add': rule scales: its operand 'x' is float32; expected integers of one scale"
    )


def test_weights_that_are_no_constant_are_refused() -> None:
    text = text_of("residual")
    line = next(line for line in text.splitlines() if "%conv.weight = " in line)
    weights = line.rpartition(" -> ")[2]
    changed = text.replace(line + "\n", "").replace(
        "(%x: tensor<1x8x6x6xf32>)", f"(%x: tensor<1x8x6x6xf32>, %conv.weight: {weights})"
    )
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(changed, load_machine("tiny8"))
    assert "rule scales: it reads 'conv.weight'; expected weights with scales, and a bias" in str(refused.value)


def test_a_bias_may_be_floats() -> None:
    graph = simplified(conv_model(np.random.default_rng(0), bias="float"))
    assert [fault for rule in RULES for fault in rule.faults(graph)] == []


def test_integers_give_no_floats_but_by_dequantize() -> None:
    text, stored = text_of("residual"), "tensor<1x8x6x6x!quant.uniform<i8:f32, 0.6605546474456787:-8>>"
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(text.replace(stored, "tensor<1x8x6x6xf32>"), load_machine("tiny8"))
    assert "rule limits: low is -128" in str(refused.value) or "rule views: it makes float32" in str(refused.value)


@pytest.mark.parametrize("model", MODELS)
def test_what_simplification_gives_keeps_the_rules(model: str) -> None:
    GRAPH.read(text_of(model), load_machine("tiny8"))


def test_every_kind_has_a_shape_and_every_attribute_a_type() -> None:
    assert {*SHAPES, *ANY_RANK} == set(CANONICAL)
    named = {name for _, names in CANONICAL.values() for name in names}
    assert named - set(ATTRIBUTES) == {"rows", "columns"}  # which are of two kinds


def test_every_rule_has_a_text_that_breaks_it() -> None:
    untold = {rule.name for rule in RULES} - {rule for rule, *_ in BROKEN}
    assert untold == {
        "order",
        "tables",
        "views",
        "scales",
    }  # the grammar refuses the first; the others have tests of their own


def test_a_table_has_an_entry_for_each_value() -> None:
    text = """"graph.network"() ({
^bb0(%x: tensor<1x2x1x1x!quant.uniform<i8:f32, 1.0:0>>):
  %y = "graph.lookup"(%x) {table = dense<"0x0102"> : tensor<2xi8>, name = "l", nodes = []} :
      (tensor<1x2x1x1x!quant.uniform<i8:f32, 1.0:0>>) -> tensor<1x2x1x1x!quant.uniform<i8:f32, 1.0:0>>
  "graph.return"(%y) {outputs = ["y"]} : (tensor<1x2x1x1x!quant.uniform<i8:f32, 1.0:0>>) -> ()
}) {name = "n", opset = 17} : () -> ()"""
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(text, load_machine("tiny8"))
    assert str(refused.value) == (
        "line 3: lookup 'l': rule tables: a table of [2]; expected an entry for each value of int8"
    )
