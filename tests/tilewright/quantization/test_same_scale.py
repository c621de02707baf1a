"""Joined tensors have one range, unless that would lose something."""

from __future__ import annotations

import numpy as np
import onnx

from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.quantization.ranges import Range
from tilewright.quantization.same_scale import join_ranges


def range_of(low: float, high: float) -> Range:
    return Range(np.float32(low), np.float32(high))


WIDE, OWN = range_of(-4, 4), range_of(0, 2)


def joined(*chain: str, other_reader: bool = False) -> dict[str, Range]:
    """A Concat of a tensor behind operators and another; its result has the range WIDE, all before it OWN."""
    b = FloatBuilder()
    x = b.node("Add", "first", b.input("x"), "x")
    for number, kind in enumerate(chain):
        constants = [b.constant("low", np.array(0.0)), b.constant("high", np.array(1.0))] if kind == "Clip" else []
        attributes = {"MaxPool": {"kernel_shape": [1, 1]}, "Transpose": {"perm": [0, 1, 3, 2]}}
        x = b.node(kind, f"{kind}{number}", x, *constants, **attributes.get(kind, {}))
    outputs = [b.node("Concat", "join", x, b.node("Mul", "other", "x", "x"), axis=1)]
    if other_reader:
        outputs.append(b.node("Neg", "reader", x))
    model: onnx.ModelProto = b.build(*outputs)
    ranges = {output: OWN for node in model.graph.node for output in node.output}
    return join_ranges(model, {"x": OWN, **ranges, "join.out": WIDE})


def test_operands_get_the_range_of_the_result() -> None:
    found = joined()
    assert found["first.out"] == found["other.out"] == WIDE
    assert found["x"] == OWN


def test_so_does_what_is_before_a_pool() -> None:
    found = joined("MaxPool", "Transpose")
    assert found["first.out"] == found["MaxPool0.out"] == found["Transpose1.out"] == WIDE


def test_so_does_an_input_that_only_the_concat_reads() -> None:
    b = FloatBuilder()
    x, y = b.input("x"), b.input("y")
    model = b.build(b.node("Concat", "join", x, y, axis=1), b.node("Neg", "reader", y))
    found = join_ranges(model, {"x": OWN, "y": OWN, "join.out": WIDE, "reader.out": OWN})
    assert found["x"] == WIDE and found["y"] == OWN


def test_a_tensor_with_another_reader_keeps_its_own() -> None:
    assert joined(other_reader=True)["first.out"] == OWN


def test_so_does_a_result_of_the_network() -> None:
    b = FloatBuilder()
    x = b.input("x")
    y = b.node("Add", "add", x, x)
    model = b.build(b.node("Concat", "join", y, x, axis=1), y)
    assert join_ranges(model, {"x": OWN, "add.out": OWN, "join.out": WIDE})["add.out"] == OWN


def test_a_limit_keeps_its_own() -> None:
    assert joined("Clip")["Clip0.out"] == OWN
    assert joined("Relu")["Relu0.out"] == OWN


def test_a_relu_joins_what_is_positive() -> None:
    b = FloatBuilder()
    relu = b.node("Relu", "relu", b.input("x"))
    model = b.build(b.node("Concat", "join", relu, b.node("Mul", "other", "x", "x"), axis=1))
    ranges = {"x": WIDE, "relu.out": range_of(0, 1), "other.out": OWN, "join.out": OWN}
    assert join_ranges(model, ranges)["relu.out"] == OWN


def test_what_is_averaged_keeps_a_range_beyond_the_joined_one() -> None:
    b = FloatBuilder()
    x = b.input("x")
    pooled = b.node("AveragePool", "pool", b.node("Add", "add", x, x), kernel_shape=[1, 1])
    model = b.build(b.node("Concat", "join", pooled, x, axis=1))
    ranges = {"x": WIDE, "add.out": range_of(0, 5), "pool.out": OWN, "join.out": WIDE}
    assert join_ranges(model, ranges) == ranges
    assert join_ranges(model, {**ranges, "add.out": OWN})["add.out"] == WIDE


def test_a_concat_of_a_concat_gives_its_range_on() -> None:
    b = FloatBuilder()
    x = b.input("x")
    inner = b.node("Concat", "inner", b.node("Add", "add", x, x), b.node("Mul", "mul", x, x), axis=1)
    model = b.build(b.node("Concat", "outer", inner, b.node("Sub", "sub", x, x), axis=1))
    names = ["add.out", "mul.out", "inner.out", "sub.out"]
    found = join_ranges(model, {"x": OWN, **dict.fromkeys(names, OWN), "outer.out": WIDE})
    assert all(found[name] == WIDE for name in names)
