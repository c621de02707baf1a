"""Graphs of ONNX's own operators that break a rule are refused with the rule and the line."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

from tests.compiler.models import small_cnn
from tests.random_networks import random_network
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.importers.node_rules import NODE_RULES
from tilewright.compiler.levels import GRAPH
from tilewright.compiler.rules import BrokenRule
from tilewright.isa.files.loader import load_machine

BROKEN = [
    ("opset", "opset = 17", "opset = 3", "the network: rule opset: its opset is 3; expected 11 to"),
    ("nodes", "onnx.Relu", "onnx.Rely", "onnx.Rely 'conv1.relu': rule nodes: opset 17 has no such operator"),
    ("nodes", "(%conv1.out)", "(%$$)", "onnx.Relu 'conv1.relu': rule nodes: X is left out; expected all operands"),
    (
        "nodes",
        "%conv1.relu.out",
        "%$$",
        "onnx.Relu 'conv1.relu': rule nodes: Y is left out; expected all results",
    ),
    ("node-attributes", "strides = [1, 1]", "strides = 1", "attribute strides is of another type; expected ints"),
    (
        "node-attributes",
        "kernel_shape = [2, 2], ",
        "",
        "MaxPool 'maxpool': rule node-attributes: attribute kernel_shape is missing",
    ),
    ("node-attributes", "strides = [1, 1]", "stride = [1, 1]", "unknown attribute stride; expected one of auto_pad, "),
    ("node-types", "strides = [1, 1]", "strides = [1, 0]", "onnx.Conv 'conv1': rule node-types: "),
    (
        "node-types",
        "strides = [1, 1]",
        "strides = [1, 3]",
        "'conv1.out' is float32 [1, 8, 8, 8]; expected float32 [1, 8, 8, 3]",
    ),
]


def graph_of(model: onnx.ModelProto) -> Graph:
    return import_onnx(model.SerializeToString())


@cache
def text() -> str:
    return GRAPH.print(graph_of(small_cnn(np.random.default_rng(0))))


@pytest.mark.parametrize(("rule", "old", "new", "message"), BROKEN)
def test_a_broken_rule_is_named_with_its_line(rule: str, old: str, new: str, message: str) -> None:
    assert old in text()
    changed = text().replace(old, new)
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(changed, load_machine("tiny8"))
    assert refused.value.rule == rule
    assert message in str(refused.value)
    assert str(refused.value).startswith("line ")


def test_every_rule_has_a_text_that_breaks_it() -> None:
    assert {rule.name for rule in NODE_RULES} == {rule for rule, *_ in BROKEN}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_imported_keeps_the_rules(seed: int) -> None:
    GRAPH.require(graph_of(random_network(seed, transposes=True, has_softmax=True)))
