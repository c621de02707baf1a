"""What passes between nodes that the compiler takes together is not quantised, and is one operator of the machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from programs.networks.builder import Builder
from programs.networks.decoder import Decoder, prefill
from tests.tilewright.quantization.float_networks import FloatBuilder, decibel, run_all, samples
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.quantization.islands import inner_tensors
from tilewright.quantization.quantize import quantize
from tilewright.values.compare import compare_values
from tilewright.values.compiled import compile_keeping

ROWS, FEATURES = 8, 32


def normalised(b: FloatBuilder, x: str) -> str:
    """An RMSNormalization as exporters write it before opset 23."""
    square = b.node("Pow", "square", x, b.constant("two", 2.0))
    mean = b.node("ReduceMean", "mean", square, axes=[-1])
    root = b.node("Sqrt", "root", b.node("Add", "more", mean, b.constant("epsilon", 1e-5)))
    even = b.node("Mul", "even", x, b.node("Div", "over", b.constant("one", 1.0), root))
    return b.node("Mul", "scaled", even, b.normal("scale", FEATURES))


def masked(b: FloatBuilder, x: str) -> str:
    """A softmax of the places that are not behind one's own."""
    later = np.where(np.triu(np.ones((ROWS, FEATURES)), 1) > 0, np.finfo(np.float32).min, 0)
    return b.node("Softmax", "softmax", b.node("Add", "mask", x, b.constant("later", later[None])), axis=-1)


def curved(b: FloatBuilder, x: str) -> str:
    """x · sigmoid(x)."""
    return b.node("Mul", "gate", x, b.node("Sigmoid", "sigmoid", x))


def network(form: Callable[[FloatBuilder, str], str], *also: str) -> onnx.ModelProto:
    """A product, the form, a product; and the tensors named, which others read, too."""
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input(shape=(1, ROWS, FEATURES)), b.normal("a", FEATURES, FEATURES, scale=0.2))
    x = b.node("MatMul", "last", form(b, x), b.normal("b", FEATURES, FEATURES, scale=0.2))
    return b.build(x, *(b.node("Transpose", f"{name}.turned", f"{name}.out") for name in also))


@pytest.mark.parametrize(
    ("form", "inside"),
    [
        (normalised, {"square", "mean", "more", "root", "over", "even"}),
        (masked, {"mask"}),
        (curved, {"sigmoid"}),
    ],
)
def test_only_the_ends_are_quantised(form: Callable[[FloatBuilder, str], str], inside: set[str]) -> None:
    model = network(form)
    assert inner_tensors(model) == {f"{name}.out" for name in inside}
    data = samples(model, 4)
    result = quantize(model, data)
    quantised = [node.input[0] for node in result.model.graph.node if node.op_type == "QuantizeLinear"]
    assert len(quantised) == 4 and {f"{name}.out" for name in inside}.isdisjoint(quantised)
    program, _ = compile_keeping(result.content, load_machine("sequence16"), Options())
    assert program.host_nodes == ()
    assert decibel(*(run_all(each, data) for each in (model, result.model))) > 30


def with_mask_input(
    least: float, place: str = "only", layers: int = 1
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A softmax of masked scores, as often as there are layers; `place` says how a second, constant mask is joined."""
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input(shape=(1, ROWS, FEATURES)), b.normal("a", FEATURES, FEATURES, scale=0.2))
    mask = b.node("Unsqueeze", "wide", b.input("mask", (1, FEATURES)), b.constant("axis", np.array([1])))
    later = np.triu(np.ones((1, ROWS, FEATURES), bool), 1)
    known, scalar = b.constant("known", np.where(later, np.float32(least), 0)), b.constant("least", least)
    both = b.node("Add", "both", mask, known) if place == "to the mask" else mask
    for layer in range(layers):
        at = "" if layer == 0 else str(layer)
        match place:
            case "to the scores":
                x = b.node("Add", f"known{at}", x, known)
            case "chosen":
                x = b.node("Where", f"known{at}", b.constant(f"later{at}", later), scalar, x)
        x = b.node("Softmax", f"softmax{at}", b.node("Add", f"masked{at}", x, both), axis=-1)
    model = b.build(b.node("MatMul", "last", x, b.normal("b", FEATURES, FEATURES, scale=0.2)))
    rng = np.random.default_rng(7)
    kept = rng.random((4, FEATURES)) < 0.5
    kept[:, 0] = True  # of no row is nothing left
    data = {"image": rng.normal(0, 1, (4, ROWS, FEATURES)).astype(np.float32)}
    return model, {**data, "mask": np.where(kept, 0, least).astype(np.float32)}


@pytest.mark.parametrize("least", [-10000.0, float(np.finfo(np.float32).min)])
def test_a_mask_may_be_an_input(least: float) -> None:
    model, data = with_mask_input(least)
    result = quantize(model, data)
    quantised = [node.input[0] for node in result.model.graph.node if node.op_type == "QuantizeLinear"]
    assert "masked.out" not in quantised
    program, compiled = compile_keeping(result.content, load_machine("sequence16"), Options())
    found = compare_values(result.model, program, compiled, {name: array[:1] for name, array in data.items()})
    assert program.host_nodes == () and found.first is None
    assert decibel(*(run_all(each, data) for each in (model, result.model))) > 30


@pytest.mark.parametrize("least", [-10000.0, -1e38])
@pytest.mark.parametrize("place", ["to the mask", "to the scores", "chosen"])
def test_a_mask_may_be_joined_by_a_constant_one(place: str, least: float) -> None:
    """The machine reads one mask beside the scores, also where both are -10000 at a place."""
    model, data = with_mask_input(least, place)
    result = quantize(model, data)
    program, compiled = compile_keeping(result.content, load_machine("sequence16"), Options())
    found = compare_values(result.model, program, compiled, {name: array[:1] for name, array in data.items()})
    assert program.host_nodes == () and found.first is None
    assert decibel(*(run_all(each, data) for each in (model, result.model))) > 30


def test_a_mask_that_is_chosen_takes_no_precision_from_the_scores() -> None:
    """The host chooses by a computed condition. What it puts in place of scores is the least value of their range."""
    model, data = with_mask_input(-10000.0)
    (masked,) = (node for node in model.graph.node if node.name == "masked")
    scores, mask = masked.input
    there = helper.make_node("Not", ["masked.at"], ["there"], "there")
    masked.CopyFrom(helper.make_node("Where", ["there", scores, "least"], list(masked.output), "masked"))
    at = list(model.graph.node).index(masked)
    model.graph.node.insert(at, there)
    model.graph.node.insert(at, helper.make_node("Less", [mask, "least.half"], ["masked.at"], "masked.at"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(-5000), "least.half"))
    result = quantize(model, data)
    assert decibel(*(run_all(each, data) for each in (model, result.model))) > 30


def test_layers_read_the_same_mask() -> None:
    """Two masks are joined once, however many layers add both to their scores."""
    counts = []
    for layers in (1, 3):
        model, data = with_mask_input(-10000.0, "to the mask", layers)
        program = compile_model(quantize(model, data).content, load_machine("sequence16"), Options())
        counts.append(sum(one.mnemonic == "mul" for one in program.instructions))
    assert counts[0] == counts[1] > 0


def test_what_is_added_besides_is_no_mask() -> None:
    model, data = with_mask_input(-10000.0)
    data["mask"][0, 0] = -3.0
    result = quantize(model, data)
    assert "masked.out" in [node.input[0] for node in result.model.graph.node if node.op_type == "QuantizeLinear"]


def test_a_bias_and_a_mask_in_one_constant_are_two() -> None:
    """As ALiBi's with a causal mask: the bias has steps of its own."""
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input(shape=(1, ROWS, FEATURES)), b.normal("a", FEATURES, FEATURES, scale=0.2))
    distance = np.arange(FEATURES) - np.arange(ROWS)[:, None]
    both = np.where(distance > 0, np.finfo(np.float32).min, 0.5 * distance)
    x = b.node("Softmax", "softmax", b.node("Add", "placed", b.constant("both", both), x), axis=-1)
    model = b.build(b.node("MatMul", "last", x, b.normal("b", FEATURES, FEATURES, scale=0.2)))
    data = samples(model, 4)
    result = quantize(model, data)
    assert [layer.name for layer in result.layers][2:4] == ["placed/bias", "placed/mask"]
    assert compile_keeping(result.content, load_machine("sequence16"), Options())[0].host_nodes == ()
    assert decibel(*(run_all(each, data) for each in (model, result.model))) > 30


def test_what_others_read_is_quantised() -> None:
    model = network(curved, "sigmoid")
    assert inner_tensors(model) == frozenset()
    model = network(normalised, "mean")
    assert "mean.out" not in inner_tensors(model) and "square.out" in inner_tensors(model)


def test_a_node_of_unknown_size_hides_no_other() -> None:
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input(shape=(1, ROWS, FEATURES)), b.normal("a", FEATURES, FEATURES))
    places = b.node("Cast", "float", b.node("NonZero", "places", x), to=onnx.TensorProto.FLOAT)
    model = b.build(places, b.node("Identity", "same", masked(b, x)))
    assert inner_tensors(model) == {"mask.out"}


def test_a_decoder_is_wholly_on_the_machine() -> None:
    sizes = Decoder(layers=1, features=FEATURES, heads=2, sources=1, hidden=48, words=20)
    model = prefill(Builder("decoder"), sizes, ROWS)
    data = samples(model, 4)
    result = quantize(model, data)
    assert min(layer.snr_db for layer in result.layers if layer.snr_db is not None) > 25
    program, compiled = compile_keeping(result.content, load_machine("sequence16"), Options())
    found = compare_values(result.model, program, compiled, {name: array[:1] for name, array in data.items()})
    assert program.host_nodes == () and found.first is None
