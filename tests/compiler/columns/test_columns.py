"""Joined columns: the same numbers, in fewer cycles, or nothing is joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.columns.networks import narrow_model
from tests.compiler.models import ModelBuilder, add_conv, random_inputs, rescaled
from tests.compiler.pipelines import base16, compiled_distances, simplified, simulated
from tilewright.compiler.columns.columns import columns, proposals, region_of, with_joined_columns
from tilewright.compiler.columns.elements import joined_columns, with_columns_apart, with_columns_joined
from tilewright.compiler.graph.graph import JOINED, MACS, Graph
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine

# -- where elements are ------------------------------------------------------------------------------------------------


def test_a_column_becomes_channels_after_those_of_the_column_before_it() -> None:
    values = np.arange(2 * 3 * 4 * 6).reshape(2, 3, 4, 6)
    joined = with_columns_joined(values, 2)
    assert joined.shape == (2, 6, 4, 3)
    for n, c, h, w in np.ndindex(values.shape):
        assert joined[n, (w % 2) * 3 + c, h, w // 2] == values[n, c, h, w]
    np.testing.assert_array_equal(with_columns_apart(joined, 2), values)


# -- the same numbers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The convolution in the middle of three, and the tensors that are joined: `before` it, `after` it or both."""

    conv: Mapping[str, Any]
    joined: str = "before after"
    factor: int = 2
    width: int = 16
    activation: type = np.int8


CASES = {
    "3x3": Case({"pads": [1, 1, 1, 1]}),
    "3x3 by 4": Case({"pads": [1, 1, 1, 1]}, factor=4),
    "1x1": Case({"kernel": 1}),
    "1x1 in groups": Case({"kernel": 1, "group": 2}),
    "1x1 of each channel": Case({"kernel": 1, "group": 4}),
    "1x1 that begins in the padding": Case({"kernel": 1, "pads": [0, 1, 0, 1], "stride": (1, 3)}, "after", width=16),
    "2x5 with gaps": Case({"kernel": (2, 5), "dilations": (1, 2), "pads": [0, 4, 1, 4]}),
    "3x3 in groups": Case({"pads": [1, 1, 1, 1], "group": 2}),
    "3x3 of each channel": Case({"pads": [1, 1, 1, 1], "group": 4}),
    "3x3, more padding on the right": Case({"pads": [0, 0, 1, 2]}),
    "3x3 to single columns": Case({"pads": [1, 1, 1, 1], "stride": 2}, "before"),
    "4x4 to single columns, of each channel": Case(
        {"kernel": 4, "pads": [1, 1, 2, 2], "stride": 2, "group": 4}, "before"
    ),
    "3x3 from single columns": Case({"pads": [1, 1, 1, 1]}, "after"),
    "3x3/2 from single columns": Case({"pads": [1, 1, 1, 1], "stride": 2}, "after", width=32),
    "5x5/3 by 3": Case({"kernel": 5, "pads": [2, 2, 2, 2], "stride": 3}, "before", factor=3, width=18),
    "3x3/4 between joined ones": Case({"pads": [1, 1, 1, 1], "stride": (1, 4)}, width=32),
    "uint8": Case({"pads": [1, 1, 1, 1]}, activation=np.uint8),
    "one scale for all weights, no bias": Case({"pads": [1, 1, 1, 1], "per_channel": False, "bias": "none"}),
}


def three_convs(case: Case) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(3), activation=case.activation)
    x = builder.quantize(builder.input("x", [2, 3, 5, case.width]), 0.1, name="x.q")
    before = add_conv(builder, x, 3, 4, 1, name="first")
    after = add_conv(builder, before, 4, 4, **{"kernel": 3, **case.conv}, name="middle")
    builder.output(add_conv(builder, after, 4, 5, (1, 3), stride=(1, case.factor), pads=[0, 1, 0, 1], name="last"))
    return rescaled(builder.build("three"))


def tensor_after(name: str, graph: Graph) -> str:
    return next(each.outputs[0] for each in graph.operators if each.name == name)


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same_numbers(name: str) -> None:
    case = CASES[name]
    model = three_convs(case)
    graph = simplified(model)
    tensors = {"before": tensor_after("first", graph), "after": tensor_after("middle", graph)}
    joined = frozenset(tensors[each] for each in case.joined.split())
    changed = with_joined_columns(graph, joined, case.factor)
    assert joined_columns(graph, changed) == dict.fromkeys(joined, case.factor)
    plain, other = lower(graph, base16()), lower(changed, base16())
    for seed in range(3):
        inputs = random_inputs(model, np.random.default_rng(seed))
        found = run_nests(other, inputs)
        for output, values in run_nests(plain, inputs).items():
            np.testing.assert_array_equal(found[output], values)
    assert [nest.macs for nest in other.nests] == [nest.macs for nest in plain.nests]
    meant, said = run_graph(graph, inputs), run_graph(changed, inputs)
    for output, values in meant.items():
        np.testing.assert_allclose(said[output], values, atol=max(t.scale for t in plain.outputs) * 1.01)


def by_element_model() -> onnx.ModelProto:
    """Two convolutions; their sum; a constant for each channel; a table; a clip; all by element."""
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", [1, 3, 6, 16]), 0.1, name="x.q")
    first = add_conv(builder, x, 3, 4, 1, name="first")
    second = add_conv(builder, first, 4, 4, 3, pads=[1, 1, 1, 1], name="second")
    total = builder.quantize(builder.node("Add", [first, second], name="add"), 0.2, name="add.q")
    offsets = builder.constant("offsets", np.array([0.5, -1, 2, 0.25], np.float32).reshape(1, 4, 1, 1))
    moved = builder.quantize(builder.node("Add", [total, offsets], name="moved"), 0.2, name="moved.q")
    curved = builder.quantize(builder.node("Sigmoid", [moved], name="sigmoid"), 1 / 200, name="sigmoid.q")
    builder.output(add_conv(builder, curved, 4, 5, 3, stride=2, pads=[1, 1, 1, 1], name="last"))
    return rescaled(builder.build("by_element"))


def test_what_works_by_element_computes_the_same_numbers() -> None:
    model = by_element_model()
    graph = simplified(model)
    last = next(each for each in graph.operators if each.name == "last")
    conv_input = last.inputs[0]
    joined = frozenset(name for each in graph.operators for name in each.outputs if each.kind != "dequantize")
    joined -= {*last.outputs, *(each.outputs[0] for each in graph.operators if each.kind == "quantize")}
    assert conv_input in joined and len(joined) >= 4
    plain, other = (lower(each, base16()) for each in (graph, with_joined_columns(graph, joined, 2)))
    for seed in range(3):
        inputs = random_inputs(model, np.random.default_rng(seed))
        found = run_nests(other, inputs)
        for output, values in run_nests(plain, inputs).items():
            np.testing.assert_array_equal(found[output], values)


# -- what is proposed --------------------------------------------------------------------------------------------------


def test_proposes_what_fills_the_array() -> None:
    graph = simplified(narrow_model())
    best = proposals(graph, load_machine("wide32"))[0]
    assert (best.joined, best.factor) == ({tensor_after("first", graph), tensor_after("second", graph)}, 2)
    assert best.saved > 9 * 32 * 32 / 2  # half of the second convolution, and more


def test_joins_more_columns_of_fewer_channels() -> None:
    assert proposals(simplified(narrow_model(channels=8, stride=4)), load_machine("wide32"))[0].factor == 4


@pytest.mark.parametrize(
    ("model", "machine"),
    [
        (narrow_model(), "base16"),  # its channels fill the array
        (narrow_model(width=31), "wide32"),  # no pairs
        (narrow_model(stride=1), "wide32"),  # the last convolution's result would have to be joined, and is the host's
        (narrow_model(between="pool"), "wide32"),  # a pool does not know of joined columns
    ],
    ids=["full array", "odd width", "no way out", "pool"],
)
def test_proposes_nothing(model: onnx.ModelProto, machine: str) -> None:
    found = proposals(simplified(model), load_machine(machine))
    first = tensor_after("first", simplified(model))
    assert all(first not in each.joined for each in found)


def test_proposes_nothing_that_the_host_reads() -> None:
    graph = simplified(narrow_model())
    first = tensor_after("first", graph)
    seen = replace(graph, outputs={**graph.outputs, "seen": first})
    assert all(first not in each.joined for each in proposals(seen, load_machine("wide32")))


# -- what is joined ----------------------------------------------------------------------------------------------------


def test_joins_only_what_the_cycle_model_finds_faster() -> None:
    graph, machine = simplified(narrow_model()), load_machine("wide32")

    def faster(each: Graph) -> int:
        return 50 if any(operator.attributes.get(JOINED, 1) > 1 for operator in each.operators) else 100

    assert columns(graph, machine, faster) is not graph
    assert columns(graph, machine, lambda each: 150 - faster(each)) is graph
    assert columns(graph, machine, lambda each: 100) is graph
    assert columns(graph, machine, lambda each: None) is graph


def test_measures_single_columns_once_for_each_set_of_tensors() -> None:
    """Two or four columns of the same tensors might be joined."""
    graph, machine = simplified(narrow_model(channels=8, stride=4)), load_machine("wide32")
    assert len({each.joined for each in proposals(graph, machine)}) == 1 < len(proposals(graph, machine))
    measured: list[int] = []

    def slower(each: Graph) -> int:
        measured.append(max(operator.attributes.get(JOINED, 1) for operator in each.operators))
        return 50 + measured[-1]

    assert columns(graph, machine, slower) is graph
    assert measured.count(1) == 1 < len(measured)


def test_measures_the_layers_around_them_alone() -> None:
    graph = simplified(narrow_model())
    region = region_of(graph, frozenset({tensor_after("second", graph)}))
    assert [each.name for each in region.operators] == ["second", "last"]
    assert region.inputs == (tensor_after("first", graph),)
    assert list(region.outputs) == [tensor_after("last", graph)]
    whole = region_of(graph, frozenset({tensor_after("first", graph)}))
    assert whole.inputs == graph.inputs  # with what the host quantises


def test_a_network_takes_fewer_cycles_and_computes_what_onnx_runtime_computes() -> None:
    model, machine = narrow_model(), load_machine("wide32")
    joined = compile_model(model, machine, Options(effort=0))
    assert "2 are joined to one in 2 layers from first to second" in joined.metadata["columns"]
    assert compiled_distances(model, "wide32").max() <= 1
    plain = compile_model(model, machine, Options(effort=0, joins_columns=False))
    inputs = random_inputs(model, np.random.default_rng(7))
    for name, values in simulated(plain, inputs).items():
        np.testing.assert_array_equal(simulated(joined, inputs)[name], values)
    assert exact_cycles(joined) < 0.7 * exact_cycles(plain)
    assert sum(layer.macs for layer in joined.layers) == sum(layer.macs for layer in plain.layers)


def test_a_convolution_keeps_the_models_multiplications() -> None:
    graph = simplified(narrow_model())
    changed = with_joined_columns(graph, frozenset({tensor_after("first", graph)}), 2)
    macs = {each.name: each.attributes[MACS] for each in changed.operators if MACS in each.attributes}
    assert macs == {"first": 16 * 3 * 9 * 32 * 32, "second": 16 * 16 * 9 * 32 * 32}
