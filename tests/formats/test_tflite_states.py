"""Streaming networks: run after run, what a program gives is what LiteRT gives, which keeps the state itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.importers.tflite.runs import random_values, run
from tests.formats.tflite_states import FORMS, StateForm
from tests.rings import slow_beyond
from tilewright.compiler.importers.tflite.translate import translate_tflite

RUNS = 4

Arrays = Mapping[str, NDArray[Any]]


def inputs_of(form: StateForm, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    return {
        tensor.name: rng.uniform(-1, 1, tensor.shape).astype(np.float32)
        if form.is_real
        else random_values(tensor.shape, tensor.dtype, rng)
        for tensor in form.file.inputs
    }


def apart(came: Arrays, expected: Arrays) -> float:
    """How far results are from each other."""
    return max(
        float(np.abs(came[name].astype(np.float64) - values.astype(np.float64)).max())
        for name, values in expected.items()
    )


@pytest.mark.parametrize("name", FORMS)
def test_the_translation_gives_what_litert_gives(name: str) -> None:
    form = FORMS[name](np.random.default_rng(1))
    if not form.has_kernel:
        pytest.skip("LiteRT has no kernel")
    model, litert, rng = translate_tflite(form.content, "net"), Litert(form.content), np.random.default_rng(2)
    states = tilewright.states(form.content)
    kept, seen = {key: state.initial for key, state in states.items()}, []
    for _ in range(RUNS):
        inputs = inputs_of(form, rng)
        expected, came = litert.run(inputs), run(model, {**inputs, **kept})
        assert apart(came, expected) <= form.apart
        kept = {key: came[state.output] for key, state in states.items()}
        seen.append(next(iter(expected.values())))
    assert len({values.tobytes() for values in seen}) == RUNS


@pytest.mark.parametrize("name", FORMS)
def test_a_program_gives_what_the_translation_gives(name: str) -> None:
    """Which for 8-bit SVDF, of which LiteRT has no kernel, is that of 16 bits with other steps."""
    form = FORMS[name](np.random.default_rng(1))
    if form.is_real:
        pytest.skip("it is quantised first")
    model, rng = translate_tflite(form.content, "net"), np.random.default_rng(2)
    program = tilewright.compile(form.content, "base16", effort=0)
    states = tilewright.states(form.content)
    kept = {key: state.initial for key, state in states.items()}
    for _ in range(RUNS):
        inputs = {**inputs_of(form, rng), **kept}
        expected, came = run(model, inputs), program.run(inputs).outputs
        assert apart(came, expected) <= 1
        kept = {key: came[state.output] for key, state in states.items()}
    found = {node.op_type for node in program.host_nodes}
    assert found >= form.on_host and bool(found) == bool(form.on_host)
    assert all(node.reason for node in program.host_nodes)


@pytest.mark.parametrize(
    "name", slow_beyond(1, ["SVDF in floats", "a wake word in floats", "LSTM, floats", "LSTM, projected, floats"])
)
def test_a_float_file_is_quantised_with_its_state(name: str) -> None:
    form = FORMS[name](np.random.default_rng(1))
    states = tilewright.states(form.content)
    program = tilewright.compile(tilewright.quantize(form.content, "random").content, "base16", effort=0)
    assert not program.host_nodes
    names = {value.name for value in (*program.inputs, *program.outputs)}
    assert names >= {*states, *(state.output for state in states.values())}


def test_a_program_says_what_it_keeps() -> None:
    program = tilewright.compile(FORMS["a running sum"](np.random.default_rng(1)).content, "base16", effort=0)
    assert program.binary.metadata["state sum"] == (
        "an input; the next run is given the output sum.next. The first run begins with all 40"
    )
    assert [tensor.name for tensor in program.inputs] == ["x", "sum"]
    assert [tensor.name for tensor in program.outputs] == ["y", "sum.next"]


def test_says_why_a_state_of_sixteen_bits_is_the_hosts() -> None:
    program = tilewright.compile(FORMS["LSTM"](np.random.default_rng(1)).content, "base16", effort=0)
    (text,) = (text for about, text in program.programs[0].metadata.items() if about.startswith("operator 0"))
    assert text == (
        "keeps 16 bits, with which no instruction computes, so that the host does it; `tilewright quantize` of the "
        "float network keeps 8 bits, which the machine computes with"
    )
