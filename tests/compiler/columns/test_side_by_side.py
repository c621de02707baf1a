"""Products of one tensor as one: the same numbers, in fewer cycles, or they stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs
from tests.compiler.pipelines import base16, compiled_distances, simplified, simulated
from tests.rings import slow_beyond
from tilewright.compiler.columns.side_by_side import joints, side_by_side, with_joint_product
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine


@dataclass(frozen=True)
class Case:
    """Convolutions of one tensor of `inputs` channels, to so many `outputs`, and what follows them."""

    outputs: Sequence[int] = (4, 4)
    follow: str = "outputs"
    inputs: int = 20
    kernel: int = 1
    size: int = 6
    bias: str = "int32"
    per_channel: bool = True
    relu: bool = False
    scales: Sequence[float] = ()  # of the results; one for all if there are none
    zeros: Sequence[int] = ()
    dtype: type = np.int8
    weight_zero: int = 0


CASES = {
    "two": Case(),
    "four": Case((4, 4, 4, 4)),
    "of other sizes": Case((3, 5, 7)),
    "beyond a word": Case((9, 20)),
    "3x3": Case(kernel=3),
    "no bias": Case(bias="none"),
    "some biases": Case(bias="first"),
    "float biases": Case(bias="float"),
    "one scale for all weights": Case(per_channel=False),
    "relu": Case(relu=True),
    "other scales": Case(scales=(0.5, 0.31)),
    "other zero points": Case((4, 4, 4), zeros=(1, 5, 1)),
    "uint8": Case(dtype=np.uint8, zeros=(130, 130)),
    "asymmetric weights": Case(weight_zero=7, per_channel=False),
    "concat": Case(follow="concat"),
    "concat of other scales": Case(follow="concat", scales=(0.5, 0.31)),
    "concat in another order": Case((3, 4, 5), follow="reversed concat"),
    "concat with another": Case(follow="concat with input"),
    "concat and more": Case(follow="concat and outputs"),
    "concat of rows": Case(follow="concat of rows"),
    "split": Case((4, 4), follow="split"),
    "convolutions": Case(follow="convolutions"),
    "sum": Case(follow="sum"),
    "sigmoid": Case(follow="sigmoid"),
    "pool": Case(follow="pool"),
}


def model(case: Case) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(4), activation=case.dtype)
    zero = 3 if case.dtype == np.int8 else 131
    x = builder.quantize(builder.input("x", [2, case.inputs, case.size, case.size]), 0.1, zero, name="x.q")
    scales, zeros = case.scales or (0.5,) * len(case.outputs), case.zeros or (1,) * len(case.outputs)
    results = []
    for number, (outputs, scale, point) in enumerate(zip(case.outputs, scales, zeros, strict=True)):
        y = _product(builder, case, x, outputs, number)
        if case.relu:
            y = builder.node("Relu", [y], name=f"relu{number}")
        results.append(builder.quantize(y, scale, point, name=f"y{number}.q"))
    _follow(builder, case, x, results, zeros[0])
    return builder.build("products")


def _product(builder: ModelBuilder, case: Case, x: str, outputs: int, number: int) -> str:
    name, shape = f"conv{number}", [outputs, case.inputs, case.kernel, case.kernel]
    weight, scale = builder.weights(name, shape, per_channel=case.per_channel)
    if case.weight_zero:
        stored = next(each for each in builder.initializers if each.name == f"{name}.weight_zero")
        stored.CopyFrom(onnx.numpy_helper.from_array(np.array(case.weight_zero, np.int8), stored.name))
    inputs = [x, weight]
    if case.bias != "none" and (case.bias != "first" or number == 0):
        inputs.append(builder.bias(name, outputs, 0.1 * scale, is_float=case.bias == "float"))
    return builder.node("Conv", inputs, name=name, pads=[case.kernel // 2] * 4)


def _follow(builder: ModelBuilder, case: Case, x: str, results: list[str], zero: int) -> None:
    def end(tensor: str, number: int = 0) -> None:
        builder.output(builder.quantize(tensor, 0.7, zero), f"end{number}")

    match case.follow:
        case "concat" | "reversed concat" | "concat with input" | "concat of rows" | "concat and outputs":
            read = results[::-1] if case.follow == "reversed concat" else list(results)
            read += [builder.quantize(x, 0.5, zero)] if case.follow == "concat with input" else []
            joint = builder.node("Concat", read, axis=2 if case.follow == "concat of rows" else 1)
            builder.output(builder.quantize(joint, 0.5, zero), "joint")
            if case.follow == "concat and outputs":
                end(builder.node("Sigmoid", [results[1]]))
        case "split":
            for number, result in enumerate(results):
                builder.constant(f"sizes{number}", np.array([1, 3]))
                first = builder.node("Split", [result, f"sizes{number}"], axis=1)
                builder.nodes[-1].output.append(f"{first}.second")
                end(first, 2 * number)
                end(f"{first}.second", 2 * number + 1)
        case "convolutions":
            for number, (result, outputs) in enumerate(zip(results, case.outputs, strict=True)):
                weight, _ = builder.weights(f"next{number}", [5, outputs, 3, 3])
                end(builder.node("Conv", [result, weight], pads=[1] * 4), number)
        case "sum":
            end(builder.node("Add", results))
        case "sigmoid" | "pool":
            for number, result in enumerate(results):
                kind = {"sigmoid": "Sigmoid", "pool": "MaxPool"}[case.follow]
                end(builder.node(kind, [result], **({"kernel_shape": [2, 2]} if kind == "MaxPool" else {})), number)
        case _:
            for number, result in enumerate(results):
                builder.output(result, f"out{number}")


def joined(graph: Graph) -> Graph:
    """All that can be one, whether it pays or not."""
    found = joints(graph, base16())
    assert found
    for joint in found:
        graph = with_joint_product(graph, joint.convs)
    return graph


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same_bits(name: str) -> None:
    network = model(CASES[name])
    graph = simplified(network)
    changed = joined(graph)
    kept = sum(operator.kind == "conv" for operator in graph.operators)
    assert sum(operator.kind == "conv" for operator in changed.operators) < kept
    plain, other = lower(graph, base16()), lower(changed, base16())
    for seed in range(3):
        inputs = random_inputs(network, np.random.default_rng(seed))
        expected, found = run_nests(plain, inputs), run_nests(other, inputs)
        assert expected.keys() == found.keys()
        for output, values in expected.items():
            np.testing.assert_array_equal(found[output], values)
    meant, said = run_graph(graph, inputs), run_graph(changed, inputs)
    for output, values in meant.items():
        np.testing.assert_allclose(said[output], values, atol=1e-6)


LARGER = {
    "two of 128 to 8": Case((8, 8), inputs=128, size=16),
    "four of 64 to 4": Case((4, 4, 4, 4), inputs=64, size=16),
    "a concat": Case((8, 8), "concat", inputs=128, size=16),
    "a split": Case((4, 4), "split", inputs=128, size=16),
    "convolutions": Case((8, 8), "convolutions", inputs=128, size=16),
}


def cycles(network: onnx.ModelProto, joins: bool) -> int:
    return exact_cycles(compile_model(network, base16(), Options(effort=0, joins_columns=joins)))


@pytest.mark.parametrize("name", slow_beyond(2, LARGER))
def test_takes_fewer_cycles_and_gives_the_same_bits(name: str) -> None:
    network = model(LARGER[name])
    alone, together = (
        compile_model(network, base16(), Options(effort=0, joins_columns=joins)) for joins in (False, True)
    )
    assert exact_cycles(together) < 0.95 * exact_cycles(alone)
    inputs = random_inputs(network, np.random.default_rng(1))
    expected = simulated(alone, inputs)
    for output, values in simulated(together, inputs).items():
        np.testing.assert_array_equal(values, expected[output])


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 5))
    follow = str(rng.choice(["outputs", "concat", "concat and outputs", "convolutions", "sigmoid", "split", "sum"]))
    outputs = (4,) * count if follow == "split" else tuple(rng.integers(2, 20, count).tolist())
    if follow == "sum":
        outputs = (outputs[0],) * 2
    scales = tuple(rng.uniform(0.3, 0.8, len(outputs)).tolist()) if "concat" not in follow else ()
    return Case(
        outputs, follow, int(rng.integers(8, 100)), int(rng.choice([1, 3])), int(rng.integers(4, 12)), scales=scales
    )


RANDOM = [
    pytest.param(random_case(seed), id=str(seed), marks=pytest.mark.slow if seed < 3 else pytest.mark.long)
    for seed in range(20)
]


@pytest.mark.parametrize("machine", ["base16", "wide32", "tiny8"])
@pytest.mark.parametrize("case", [pytest.param(LARGER["a split"], id="split"), *RANDOM])
def test_no_machine_takes_more_cycles(case: Case, machine: str) -> None:
    network, isa = model(case), load_machine(machine)
    alone, together = (compile_model(network, isa, Options(effort=0, joins_columns=joins)) for joins in (False, True))
    assert exact_cycles(together) <= exact_cycles(alone)
    inputs = random_inputs(network, np.random.default_rng(1))
    expected = simulated(alone, inputs)
    for output, values in simulated(together, inputs).items():
        np.testing.assert_array_equal(values, expected[output])


def test_a_concatenation_of_products_is_one_product() -> None:
    case = LARGER["four of 64 to 4"]
    apart = model(replace(case, follow="concat"))
    whole = model(replace(case, outputs=(16,)))
    assert cycles(apart, True) <= cycles(whole, True) * 1.01


@pytest.mark.parametrize(
    "case",
    [Case((16, 16)), Case((32, 16)), Case((4, 4), zeros=(1, 2)), Case((4,))],
    ids=["full columns", "more of them", "other zero points", "one"],
)
def test_leaves_what_fills_the_array_or_differs(case: Case) -> None:
    graph = simplified(model(case))
    assert side_by_side(graph, base16(), lambda region: pytest.fail("nothing is measured")) is graph


def test_leaves_what_takes_no_fewer_cycles() -> None:
    graph = simplified(model(Case()))
    assert side_by_side(graph, base16(), lambda region: 1000) is graph
    assert side_by_side(graph, base16(), lambda region: None) is graph


def test_products_of_rows_are_joined_too() -> None:
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", [1, 12, 32]), 0.1, 3, name="x.q")
    for number in range(3):
        weight, _ = builder.weights(f"matrix{number}", [32, 4], axis=1)
        builder.output(builder.quantize(builder.node("MatMul", [x, weight]), 0.5, 0), f"out{number}")
    network = builder.build("rows")
    graph = simplified(network)
    kinds = [operator.kind for operator in joined(graph).operators]
    assert kinds.count("conv") == 1 < sum(operator.kind == "conv" for operator in graph.operators)
    assert compiled_distances(network, "base16").max() <= 1
