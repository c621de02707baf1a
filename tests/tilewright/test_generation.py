"""A decoder with a cache gives the tokens that it gives without one, and says what does not fit before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import tilewright
from programs.networks.builder import Builder
from programs.networks.decoder import Decoder, prefill, step, step_samples, turns
from tests.compiler.models import run_onnx
from tilewright.errors import InputError
from tilewright.generation import Generated, generate

SIZES = Decoder(layers=2, features=32, heads=2, sources=1, hidden=48, words=20)
LENGTH = 8
CACHE = {f"{what}{layer}": f"new_{what}{layer}" for layer in range(SIZES.layers) for what in ("keys", "values")}
PROMPT = (3, 17, 5)

EMBEDDINGS = np.random.default_rng(0).standard_normal((SIZES.words, SIZES.features)).astype(np.float32)
COS, SIN = turns(SIZES, LENGTH + 1)


def inputs(token: int, place: int) -> dict[str, NDArray[np.float32]]:
    """The token's row of the table, and the turns of its place."""
    turned = {"cos": COS[place][None, None, None], "sin": SIN[place][None, None, None]}
    return {"embeddings": EMBEDDINGS[token][None, None], **turned}


@cache
def float_step() -> onnx.ModelProto:
    return step(Builder("decoder"), SIZES, LENGTH)


@cache
def program() -> tilewright.Program:
    """For one token, wholly on the machine."""
    quantized = tilewright.quantize(float_step(), step_samples(float_step(), SIZES, LENGTH, EMBEDDINGS))
    made = tilewright.compile(quantized.content, "sequence16")
    assert made.host_nodes == ()
    return made


def generated(prompt: Sequence[int] = PROMPT, count: int = 4, **changed: Any) -> Generated:
    return generate(program(), prompt, count, **{"inputs": inputs, "cache": CACHE, **changed})


def test_a_step_with_a_cache_is_the_whole_text_at_once() -> None:
    """In float: the same logits after each token, by the network that reads all of them at once."""
    samples = step_samples(float_step(), SIZES, LENGTH, EMBEDDINGS, texts=1)
    words = np.random.default_rng(0).integers(0, SIZES.words, (1, LENGTH))[0]
    whole = run_onnx(prefill(Builder("decoder"), SIZES, LENGTH), {"embeddings": EMBEDDINGS[words][None]})["logits"][0]
    for place in range(LENGTH):
        feed = {name: each[place : place + 1] for name, each in samples.items()}
        np.testing.assert_allclose(run_onnx(float_step(), feed)["logits"].ravel(), whole[place], atol=1e-4)


def test_gives_the_tokens_that_the_whole_text_gives() -> None:
    """Each token is the most likely one, or nearly, of the float network that reads all before it at once."""
    found = generated()
    assert found.tokens[: len(PROMPT)] == PROMPT and len(found.tokens) == len(PROMPT) + 4
    whole = prefill(Builder("decoder"), SIZES, len(found.tokens) - 1)
    logits = run_onnx(whole, {"embeddings": EMBEDDINGS[list(found.tokens[:-1])][None]})["logits"][0]
    for place in range(len(PROMPT), len(found.tokens)):
        before = logits[place - 1]
        assert before[found.tokens[place]] > before.max() - 0.1 * np.ptp(before)
    assert found.cycles is not None and len(set(found.cycles)) == 1 and len(found.cycles) == len(found.tokens) - 1


def test_a_caller_may_choose() -> None:
    found = generated(choose=lambda logits: int(logits.argmin()))
    assert found.tokens != generated().tokens
    assert generated(count=LENGTH + 2 - len(PROMPT)).tokens[: len(PROMPT)] == PROMPT  # the last fills no place


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 8}, "need 9 places of the cache; it has 8: compile the network for more"),
        ({"prompt": ()}, "a prompt of 0 tokens and 4 more; expected at least one of each"),
        ({"mask": "masks"}, "the step has no input 'masks'; it has: embeddings, cos, sin, mask, keys0"),
        ({"mask": "cos"}, r"input 'cos' has shape \[1, 1, 1, 16\]; expected 9 values, for the 8 places"),
        ({"cache": {}}, "no cache is named"),
        ({"cache": {"keys0": "logits"}}, r"'keys0' has shape \[1, 1, 8, 16\] and output 'logits' \[1, 1, 20\]"),
        ({"cache": {"keys0": "new_keys"}}, "the step has no output 'new_keys'; it has: logits, new_keys0"),
    ],
)
def test_says_what_does_not_fit(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generated(**changed)
