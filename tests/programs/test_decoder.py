"""The trained decoder is small, right in its gradients, and nearly as good in int8 as in float."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import tilewright
from programs.decoder import evaluate
from programs.decoder.model import (
    CACHE,
    PLACES,
    STEP,
    calibration,
    float_prefill,
    int8_prefill,
    int8_step,
    load_weights,
    with_weights,
)
from programs.decoder.network import (
    LENGTH,
    SIZES,
    TABLE,
    Weights,
    forward,
    initial_weights,
    loss_and_gradients,
    shapes,
)
from programs.decoder.text import CHARACTERS, FOLDER, decode, encode, paragraphs, stored
from programs.decoder.write import chooser, main, written
from programs.networks.decoder import Decoder
from tests.compiler.models import run_onnx

SMALL = Decoder(layers=2, features=16, heads=4, sources=2, hidden=24, words=11)

LOSS = 0.03
"""Bits for each character that int8 may cost."""


def small_weights(seed: int) -> Weights:
    """In float64, so that small differences can be seen."""
    made = initial_weights(np.random.default_rng(seed), SMALL)
    return {name: each.astype(np.float64) for name, each in made.items()}  # type: ignore[misc]


@pytest.mark.parametrize("name", shapes(SMALL))
def test_gradients_are_slopes(name: str) -> None:
    """Where a weight is moved a little to both sides, the loss changes by what the gradient says."""
    random, weights = np.random.default_rng(1), small_weights(0)
    tokens = random.integers(0, SMALL.words, (3, 9))
    _, gradients = loss_and_gradients(weights, tokens, SMALL)
    assert set(gradients) == set(weights)
    place = (tokens[0, 0], 3) if name == TABLE else tuple(random.integers(0, size) for size in weights[name].shape)
    losses, before = [], weights[name][place]
    for step in (-1e-5, 1e-5):
        weights[name][place] = before + step
        losses.append(loss_and_gradients(weights, tokens, SMALL)[0])
    assert gradients[name][place] == pytest.approx((losses[1] - losses[0]) / 2e-5, rel=1e-4, abs=1e-8)


def test_what_is_dropped_is_dropped_on_the_way_back() -> None:
    """With the same random numbers, the loss has a slope, too."""
    weights, tokens = small_weights(0), np.random.default_rng(1).integers(0, SMALL.words, (3, 9))

    def slope() -> tuple[float, Weights]:
        return loss_and_gradients(weights, tokens, SMALL, np.random.default_rng(2))

    _, gradients = slope()
    weights["layer0.mlp.up.weight"][2, 5] += 1e-5
    above, _ = slope()
    weights["layer0.mlp.up.weight"][2, 5] -= 2e-5
    below, _ = slope()
    expected = (above - below) / 2e-5
    assert gradients["layer0.mlp.up.weight"][2, 5] == pytest.approx(expected, rel=1e-4)
    assert loss_and_gradients(weights, tokens, SMALL)[1]["layer0.mlp.up.weight"][2, 5] != pytest.approx(expected)


def test_the_network_that_was_trained_is_the_one_in_the_file() -> None:
    """The gradients' network and ONNX Runtime on what the builder wrote: the same logits."""
    text = calibration()[:1]
    trained, _ = forward(load_weights(), {}, text)
    found = run_onnx(float_prefill(), {"embeddings": load_weights()[TABLE][text]})["logits"][0]
    np.testing.assert_allclose(trained, found, atol=2e-4)


def test_refuses_weights_of_another_network() -> None:
    weights = load_weights()
    with pytest.raises(ValueError, match=r"network and weights differ in \[\('norm.scale', \(64,\)\)\]"):
        with_weights(float_prefill(), {name: each for name, each in weights.items() if name != "norm.scale"})


def test_is_small() -> None:
    assert (FOLDER / "weights.npz").stat().st_size <= 300_000
    assert sum(each.size for each in load_weights().values()) == 141_760


def test_characters_are_whole_words_and_every_text_is_made_of_them() -> None:
    assert len(CHARACTERS) == SIZES.words == 96
    assert decode(encode(CHARACTERS)) == CHARACTERS
    with pytest.raises(ValueError, match=r"printable ASCII and line breaks; the text has \['é'\]"):
        encode("é")


def test_paragraphs_are_sentences() -> None:
    topic = (
        "A heading\n*********\n\nA name is bound to what is “assigned”\nto it, always.\n\n   x ::= y\n\n   >>> f(x)\n"
    )
    assert list(paragraphs(topic)) == ['A name is bound to what is "assigned" to it, always.']


def test_what_is_held_back_is_not_learned() -> None:
    held_back, learned = (set(stored(name).splitlines()[:-1]) for name in ("held_back", "calibration"))
    assert len(held_back) > 20 and not held_back & learned


def test_the_step_is_quantised_and_takes_a_cache() -> None:
    step = onnx.load(STEP)
    onnx.checker.check_model(step, full_check=True)
    sizes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in step.graph.input}
    assert {name: sizes[name] for name in CACHE} == dict.fromkeys(CACHE, [1, SIZES.sources, PLACES, SIZES.width])
    assert any(node.op_type == "QuantizeLinear" for node in step.graph.node)


@pytest.mark.slow
def test_int8_foretells_as_well_as_float() -> None:
    """On part of what was held back, in the simulator, with nothing on the host."""
    texts = evaluate.held_back()[:4]
    program = tilewright.compile(int8_prefill().SerializeToString(), "sequence16", effort=0)
    assert program.host_nodes == ()
    exact = evaluate.bits(texts, evaluate.in_onnx_runtime(float_prefill()))
    assert evaluate.bits(texts, evaluate.on_machine(program)) < exact + LOSS


@pytest.mark.long
def test_evaluation_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """All of the held-back text, and some of it one character at a time."""
    evaluate.main([])
    printed = figures(capsys.readouterr().out)
    shown = figures((FOLDER / "README.md").read_text())
    assert len(printed) == 5 and [each for each, _ in printed] == [each for each, _ in shown]
    for (what, found), (_, expected) in zip(printed, shown, strict=True):
        assert found == pytest.approx(expected, abs=0.005), what
    whole, _, int8, first, stepped = (found for _, found in printed)
    assert int8 < whole + LOSS and stepped < first + LOSS


def figures(text: str) -> list[tuple[str, float]]:
    """Lines that begin with a number of three places, and the number."""
    return [(what, float(number)) for number, what in re.findall(r"^(\d\.\d{3})  (.+)$", text, re.MULTILINE)]


def test_temperature_makes_choices_and_a_seed_repeats_them() -> None:
    logits = np.log(np.array([[[0.1, 0.6, 0.3]]]))
    assert chooser(0, 0)(logits) == 1
    chosen = [chooser(1, seed)(logits) for seed in range(2000)]
    assert np.bincount(chosen) / 2000 == pytest.approx([0.1, 0.6, 0.3], abs=0.04)
    assert chosen == [chooser(1, seed)(logits) for seed in range(2000)]


@pytest.mark.slow
def test_the_step_is_what_quantising_gives(tmp_path: Path) -> None:
    """Another processor may add floats in another order: so the numbers are nearly those of the file."""
    made, kept = int8_step(), onnx.load(STEP)
    assert [node.SerializeToString() for node in made.graph.node] == [
        node.SerializeToString() for node in kept.graph.node
    ]
    for new, old in zip(made.graph.initializer, kept.graph.initializer, strict=True):
        first, second = (onnx.numpy_helper.to_array(each).astype(np.float64) for each in (new, old))
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["café"], "error: the decoder knows printable ASCII and line breaks; the text has ['é']"),
        (
            ["The", "--count", "127"],
            "error: a prompt of 3 tokens and 127 more need 128 places of the cache; it has 127",
        ),
        (["The", "--isa", "base17"], "error: no machine 'base17' (did you mean 'base16'?)"),
    ],
)
def test_says_what_it_cannot_write(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(message)


def test_writes() -> None:
    """The text goes on, and says how long it took."""
    text = written("The ", 3, "sequence16", "sim", 0.0, 0)
    assert re.fullmatch(r"The .{3}\n\[6 runs of [\d,]+ cycles on sequence16\]", text)
    assert LENGTH == PLACES + 1
