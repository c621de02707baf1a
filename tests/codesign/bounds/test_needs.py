"""What a program may leave out is in no bound; all else is. By hand, then by what compiled programs do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from tests import bounds
from tests.bounds import Trial, trials
from tests.compiler.models import ModelBuilder, add_conv, conv_model
from tests.rings import long_beyond
from tilewright.codesign.bounds import needs as needed_products
from tilewright.codesign.bounds.needs import NOTHING, Needs, needs_of
from tilewright.codesign.points.evaluate import NetworkFigures, evaluate
from tilewright.codesign.points.network import Network, read_network
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import parse_integer_type

DIGITS = Path("programs/digits/digits_int8.onnx")

WEIGHT = parse_integer_type("int8")

OUTPUTS, INPUTS, SIZE = 6, 5, 4
PRODUCTS = OUTPUTS * INPUTS * 9 * 2 * 2  # 3×3 windows in 4×4 elements: 2×2 results

Weights = NDArray[np.int8]


def needs(model: onnx.ModelProto) -> Needs:
    return needs_of(Network("one", model.SerializeToString()), WEIGHT)


def convolution(change: Callable[[Weights], None], pad: int = 0) -> onnx.ModelProto:
    """A convolution with weights of 1 to 126 and changes to them."""
    model = conv_model(np.random.default_rng(3), INPUTS, OUTPUTS, SIZE, pads=[pad] * 4)
    [tensor] = [tensor for tensor in model.graph.initializer if tensor.name == "conv.weight"]
    values = np.random.default_rng(4).integers(1, 127, (OUTPUTS, INPUTS, 3, 3)).astype(np.int8)
    change(values)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def no_output(values: Weights) -> None:
    values[2] = 0


def no_input(values: Weights) -> None:
    values[:, 3] = 0


def no_tap(values: Weights) -> None:
    values[..., 0] = 0


def the_same(values: Weights) -> None:
    values[1] = values[0]


def a_few(values: Weights) -> None:
    values.flat[:100] = 0


@pytest.mark.parametrize(
    ("change", "without"),
    [
        (lambda values: None, 0),
        (no_output, INPUTS * 9 * 4),
        (no_input, OUTPUTS * 9 * 4),
        (no_tap, OUTPUTS * INPUTS * 3 * 4),
        (the_same, INPUTS * 9 * 4),
        (a_few, 100 * 4),
    ],
)
def test_weights_of_zero_and_channels_that_are_the_same_do_not_count(
    change: Callable[[Weights], None], without: int
) -> None:
    found = needs(convolution(change))
    assert found.products == PRODUCTS - without
    assert found.weight_bytes == found.products // 4


def test_products_with_padding_do_not_count() -> None:
    """Of three taps on 4 elements padded by 1 there are 2 + 3 + 3 + 2 inside."""
    assert needs(convolution(lambda values: None, pad=1)).products == OUTPUTS * INPUTS * 10 * 10


def test_what_is_computed_twice_counts_once() -> None:
    assert needs(pair(lambda builder, a, b: [a, b])).products == 2 * 64
    assert needs(pair(lambda builder, a, b: [a, b], is_same=True)).products == 64


def test_what_no_output_needs_does_not_count() -> None:
    """Two convolutions 1×1 of 4 channels to 4, on 2×2 elements: 64 products each."""
    assert needs(pair(lambda builder, a, b: [a])).products == 64
    assert needs(pair(lambda builder, a, b: [a, cut(builder, b, axis=1)])).products == 64 + 16
    assert needs(pair(lambda builder, a, b: [a, cut(builder, b, axis=3)])).products == 64 + 32


def test_channels_that_are_there_twice_count_once() -> None:
    """A convolution of (a, b, a) has 8 channels to multiply, not 12."""
    assert needs(pair(lambda builder, a, b: [after(builder, [a, b, a])])).products == 2 * 64 + 4 * 8 * 4


def test_nothing_is_known_of_what_repeats() -> None:
    """A convolution 1×1 of an enlarged tensor could as well stand before that; its weights are read in any case."""
    found = needs(pair(lambda builder, a, b: [after(builder, [enlarged(builder, a)], taken=4)]))
    assert (found.products, found.weight_bytes) == (64, 2 * 16)


def pair(rest: Callable[[ModelBuilder, str, str], list[str]], is_same: bool = False) -> onnx.ModelProto:
    """Two convolutions of one input; of the rest come the outputs."""
    builder = ModelBuilder(np.random.default_rng(5))
    x = builder.quantize(builder.input("x", [1, 4, 2, 2]), 0.1)
    a, b = (add_conv(builder, x, 4, 4, 1, name=name, bias="none") for name in ("a", "b"))
    outputs = rest(builder, a, b)
    _set_weights(builder, is_same)
    for number, tensor in enumerate(outputs):
        builder.output(tensor, f"result{number}")
    return builder.build()


def _set_weights(builder: ModelBuilder, is_same: bool) -> None:
    for number, tensor in enumerate(builder.initializers):
        if tensor.name.endswith(".weight"):
            rng = np.random.default_rng(6 if is_same else number)
            values = rng.permutation(np.prod(tensor.dims)).reshape(tensor.dims) + 1
            tensor.CopyFrom(numpy_helper.from_array(values.astype(np.int8), tensor.name))
        elif tensor.name.endswith(".zero"):
            tensor.CopyFrom(numpy_helper.from_array(np.array(3, np.int8), tensor.name))
        elif tensor.name.endswith("scale"):
            value = np.full(tensor.dims, 0.1, np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def cut(builder: ModelBuilder, tensor: str, axis: int) -> str:
    """The first index along an axis."""
    bounds = [builder.constant(f"cut{v}{axis}{i}", np.array([v], np.int64)) for i, v in enumerate((0, 1, axis))]
    return builder.node("Slice", [tensor, *bounds])


def after(builder: ModelBuilder, tensors: list[str], taken: int = 12) -> str:
    joined = builder.node("Concat", tensors, axis=1) if len(tensors) > 1 else tensors[0]
    return add_conv(builder, joined, taken, 4, 1, name="after", bias="none")


def enlarged(builder: ModelBuilder, tensor: str) -> str:
    factors = builder.constant("factors", np.array([1, 1, 2, 2], np.float32))
    made = builder.node("Resize", [tensor, "", factors], mode="nearest", nearest_mode="floor",
                        coordinate_transformation_mode="asymmetric")  # fmt: skip
    return builder.quantize(made, 0.1)


def test_a_network_of_dense_weights_needs_nearly_what_it_multiplies() -> None:
    figures = evaluate(read_network(DIGITS), load_machine("base16"), effort=0)
    assert isinstance(figures, NetworkFigures)
    found = needs_of(read_network(DIGITS), WEIGHT)
    assert 0.7 * figures.macs < found.products < figures.macs  # whose count has padding in it
    assert found.weight_bytes > 0


def test_nothing_is_known_of_a_file_that_is_no_network() -> None:
    assert needs_of(Network("none", b"none"), WEIGHT) == NOTHING


def test_a_defect_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.codesign.bounds.needs.needs_of_graph", lambda graph, weight: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        needs_of(read_network(DIGITS), WEIGHT)


def test_no_program_does_less_than_its_network_needs() -> None:
    found = list(trials(range(5)))
    _require(found)
    assert sum(each.bound > 0 for each in found) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", long_beyond(1, range(4, 504, 4)))
def test_no_program_does_less_than_more_networks_need(first: int) -> None:
    _require(list(trials(range(first, first + 4))))


def test_a_bound_that_counts_zeros_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one processing element, where no product is done in passing."""
    monkeypatch.setattr(bounds, "machine_of", lambda seed: load_machine("tiny8", bounds.SMALL))
    count = needed_products._products_of_conv
    monkeypatch.setattr(
        needed_products,
        "_products_of_conv",
        lambda operator, rows, need, graph: count(operator, [np.ones_like(row) for row in rows], need, graph),
    )
    [wrong] = trials(range(101, 102))
    assert not wrong.holds


def _require(found: list[Trial]) -> None:
    for each in found:
        assert each.holds, f"worn_network({each.seed}) on {each.machine}: {each}"
