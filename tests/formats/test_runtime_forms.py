"""What ONNX Runtime's own quantiser writes, in every form, runs on the machine and gives what ONNX Runtime gives."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tilewright
from tests.compiler.models import run_onnx
from tests.formats.runtime_forms import RuntimeForm, all_forms, image
from tests.rings import long_beyond

EVERY = list(all_forms())

FEW = [each for each in EVERY if each.extra == {"UseQDQContribOps": True}][::5]


MOST_APART = 2.01
"""In steps of the result: each operator may be a step off, and one of the mean of an image passes two dense layers."""


def check(form: RuntimeForm) -> None:
    model = form.model()
    program = tilewright.compile(model.SerializeToString(), "base16", effort=0)
    assert not program.host_nodes
    for seed in (91, 92):
        expected = run_onnx(model, {"x": image(seed)})["y"]
        assert np.ptp(expected) > 40 * step(model)
        assert np.abs(program.run({"x": image(seed)}).outputs["y"] - expected).max() <= MOST_APART * step(model)


def step(model: onnx.ModelProto) -> float:
    """Of the network's result."""
    return float(next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "y_scale"))


@pytest.mark.parametrize("form", FEW, ids=lambda form: form.name)
def test_runs_on_the_machine(form: RuntimeForm) -> None:
    check(form)


@pytest.mark.slow
@pytest.mark.parametrize("form", long_beyond(8, EVERY[::31] + EVERY), ids=lambda form: form.name)
def test_every_form_runs_on_the_machine(form: RuntimeForm) -> None:
    check(form)


def test_no_form_is_there_twice() -> None:
    assert len({form.name for form in EVERY}) == len(EVERY)


@pytest.mark.parametrize("activations", ["s16", "u16"])
def test_sixteen_bits_run_on_the_host_with_the_reason(activations: str) -> None:
    """The quantiser writes them with operators of `com.microsoft` where ONNX has none: in an opset before 21."""
    form = RuntimeForm("QDQ", activations, "s8", True, False, 13, {"UseQDQContribOps": True})
    model = form.model()
    assert {node.domain for node in model.graph.node if node.op_type == "QuantizeLinear"} == {"com.microsoft"}
    program = tilewright.compile(model.SerializeToString(), "base16", effort=0, host_floats=True)
    assert {"an activation is int16; expected int8 or uint8" in node.reason for node in program.host_nodes}
    expected = run_onnx(model, {"x": image(91)})["y"]
    assert np.allclose(program.run({"x": image(91)}).outputs["y"], expected, atol=1e-4)
