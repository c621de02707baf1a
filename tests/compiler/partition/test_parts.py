"""Cutting a model: which nodes go together, what passes between, and that the parts are models of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.mixed_networks import mixed_network
from tilewright.compiler.partition.parts import Part, cut_into_parts, part_model, place_to_cut
from tilewright.compiler.partition.source import Source, read_source


def source_of(body: str, inputs: str = "float[1, 4] x", outputs: str = "float[1, 4] y") -> Source:
    """A model in ONNX's text; nodes get the names of their first outputs."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> f ({inputs}) => ({outputs}) '
        f"<float s = {{0.5}}, int8 z = {{0}}, int8[4] w = {{1, 2, 3, 4}}> {{ {body} }}"
    )
    for node in model.graph.node:
        node.name = node.output[0]
    return read_source(model.SerializeToString())


def shown(parts: tuple[Part, ...]) -> list[str]:
    return [
        f"{'npu' if part.on_machine else 'host'}: {' '.join(part.nodes)} | {' '.join(part.inputs)} → "
        f"{' '.join(part.outputs)}"
        for part in parts
    ]


CHAIN = """
    q1 = QuantizeLinear(x, s, z)  d1 = DequantizeLinear(q1, s, z)
    a = Relu(d1)  q2 = QuantizeLinear(a, s, z)  d2 = DequantizeLinear(q2, s, z)
    b = Sign(d2)  q3 = QuantizeLinear(b, s, z)  d3 = DequantizeLinear(q3, s, z)
    c = Relu(d3)  q4 = QuantizeLinear(c, s, z)  y = DequantizeLinear(q4, s, z)
"""


def test_a_part_is_cut_where_only_integers_pass() -> None:
    source = source_of(CHAIN)
    (whole,) = cut_into_parts(source, ())
    assert place_to_cut(source, whole, {"c", "q4"}) == "c"
    assert place_to_cut(source, whole, {"q3"}) == "b"  # b's result is not quantised yet
    assert place_to_cut(source, whole, {"q1"}) is None
    assert shown(cut_into_parts(source, (), {"b"})) == ["npu: q1 a q2 | x → q2", "npu: b q3 c q4 | q2 → y"]


def test_what_the_machine_does_whole_is_one_part() -> None:
    assert shown(cut_into_parts(source_of(CHAIN), ())) == ["npu: q1 a q2 b q3 c q4 | x → y"]


def test_integers_pass_between_parts() -> None:
    """A quantisation is done where its operand is made, a dequantisation where its result is read."""
    assert shown(cut_into_parts(source_of(CHAIN), {"b"})) == [
        "npu: q1 a q2 | x → q2",
        "host: b q3 | q2 → q3",
        "npu: c q4 | q3 → y",
    ]


def test_a_quantised_input_that_only_the_host_reads_is_the_hosts() -> None:
    assert shown(cut_into_parts(source_of(CHAIN), {"a", "b", "c"})) == ["host: q1 a q2 b q3 c q4 | x → y"]


def test_constants_are_copied_into_each_part() -> None:
    source = source_of("k = DequantizeLinear(w, s, z)  a = Add(x, k)  b = Sign(a)  y = Add(b, k)")
    parts = cut_into_parts(source, {"b"})
    assert shown(parts) == ["npu: a | x → a", "host: b | a → b", "npu: y | b → y"]
    for part, copies in zip(parts, (1, 0, 1), strict=True):
        model = part_model(source, part)
        assert [node.op_type for node in model.graph.node].count("DequantizeLinear") == copies
        assert {t.name for t in model.graph.initializer} == ({"w", "s", "z"} if copies else set())


def test_what_is_ready_goes_together() -> None:
    source = source_of("a = Relu(x)  b = Sign(a)  c = Relu(x)  d = Relu(c)  y = Add(b, d)")
    assert shown(cut_into_parts(source, {"b"})) == ["npu: a c d | x → a d", "host: b | a → b", "npu: y | b d → y"]


def test_begins_on_the_side_that_needs_fewer_parts() -> None:
    source = source_of("a = Relu(x)  b = Sign(x)  y = Add(a, b)")
    assert shown(cut_into_parts(source, {"b"})) == ["host: b | x → b", "npu: a y | x b → y"]


def test_a_known_shape_is_a_constant() -> None:
    source = source_of("a = Relu(x)  t = Shape(a)  y = Reshape(a, t)")
    assert "t" in source.initializers
    assert shown(cut_into_parts(source, {"y"})) == ["npu: a | x → a", "host: y | a → y"]


def test_constant_outputs_and_inputs_handed_on_are_the_hosts() -> None:
    source = source_of("k = DequantizeLinear(w, s, z)  y = Relu(x)", outputs="float[1, 4] y, float[4] k")
    assert shown(cut_into_parts(source, ())) == ["npu: y | x → y", "host:  |  → k"]


def test_outer_tensors_of_subgraphs_are_read() -> None:
    source = source_of(
        "a = Relu(x)  y = If(c) <then_branch = g () => (float[1, 4] p) { p = Identity(a) },"
        " else_branch = h () => (float[1, 4] q) { q = Identity(x) }>",
        inputs="float[1, 4] x, bool c",
    )
    assert source.refused.keys() == {"y"}
    assert shown(cut_into_parts(source, source.refused)) == ["npu: a | x → a", "host: y | x c a → y"]


def test_random_numbers_are_not_constant() -> None:
    source = source_of("r = RandomNormal<shape = [1, 4]>()  y = Add(x, r)")
    assert "r" not in source.free


@pytest.mark.parametrize("seed", range(20))
def test_every_part_is_a_valid_model(seed: int) -> None:
    source = read_source(mixed_network(np.random.default_rng(seed), 15).SerializeToString())
    host = {name for name, node in source.nodes.items() if node.op_type in ("CumSum", "Abs")}
    parts = cut_into_parts(source, host)
    there = set(source.inputs)
    for part in parts:
        onnx.checker.check_model(part_model(source, part), full_check=True)
        assert set(part.inputs) <= there
        there |= set(part.outputs)
        assert all((name in host) != part.on_machine or not part.on_machine for name in part.nodes)
    assert set(source.outputs) <= there
    placed = [name for part in parts for name in part.nodes]
    assert sorted(placed) == sorted(set(source.nodes) - (source.free - host))
