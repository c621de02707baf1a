"""One network in every form: the same bits, the same cycles, and nothing on the host."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import tilewright
from tests.compiler.models import run_onnx
from tests.formats.forms import CHANNELS, MICROSOFT, SIZE, Form, float_file
from tilewright.program import Program

BOTH = (False, True)

FORMS = [
    *(Form("qdq", opset=opset) for opset in (13, 17, 19, 21, onnx.defs.onnx_opset_version())),
    *(Form("qdq", opset=opset, per_channel=False) for opset in (10, 11, 12, 13)),
    *(Form("qdq", constants=constants, last=last) for constants in ("nodes", "inputs") for last in BOTH),
    *(Form("qdq", dtype, last=last, is_real=real) for dtype in ("int8", "uint8") for last in BOTH for real in BOTH),
    *(Form("qdq", weights="uint8", per_channel=per_channel) for per_channel in BOTH),
    Form("qdq", has_relu=False),
    *(Form("qdq", dtype, opset=opset, domain=MICROSOFT) for dtype, opset in (("int8", 11), ("uint8", 17))),
    *(Form("qcdq", opset=opset, constants=constants) for opset, constants in ((13, "nodes"), (17, "initialisers"))),
    Form("qcdq", "uint8", last=True, is_real=False, per_channel=False),
    *(Form("qoperator", "uint8", last=last, is_real=real) for last in BOTH for real in BOTH),
    *(Form("qoperator", constants=constants, per_channel=False) for constants in ("initialisers", "nodes", "inputs")),
    *(Form("tflite", last=True, is_real=real, per_channel=per) for real in BOTH for per in BOTH),
    *(Form("tflite", "uint8", last=True, is_real=real, per_channel=False, weights="uint8") for real in BOTH),
    Form("tflite", last=True, has_relu=False),
]
"""Without a Relu the form is the same, since the least value of its result is 0."""

OPSETS = (7, 8, 9, 10, 11, 12, 13, 15, 19, 21, onnx.defs.onnx_opset_version())
"""Of float networks: QuantizeLinear is there since 10, and `quantize` brings older ones up to date."""

MACHINES = ("tiny8", "base16")


@cache
def compiled(form: Form, isa: str) -> Program:
    return tilewright.compile(form.model(), isa)


def images() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.integers(-128, 128, (1, CHANNELS, SIZE, SIZE)).astype(np.int8) for _ in range(3)]


def scores_of(form: Form, isa: str, image: np.ndarray) -> list[int]:
    outputs = compiled(form, isa).run({next(iter(compiled(form, isa).zero_inputs())): form.image(image)}).outputs
    return form.scores(next(iter(outputs.values()))).tolist()


@pytest.mark.parametrize("isa", MACHINES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_gives_the_same_bits_as_any_other_form(form: Form, isa: str) -> None:
    plain = Form("qdq", per_channel=form.per_channel)
    for image in images():
        assert scores_of(form, isa, image) == scores_of(plain, isa, image)


@pytest.mark.parametrize("isa", MACHINES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_takes_the_cycles_of_any_other_form(form: Form, isa: str) -> None:
    plain = Form("qdq", per_channel=form.per_channel)
    assert compiled(form, isa).profile()["cycles"] == compiled(plain, isa).profile()["cycles"]
    assert not compiled(form, isa).host_nodes


@pytest.mark.parametrize("per_channel", BOTH)
def test_computes_what_onnx_runtime_computes(per_channel: bool) -> None:
    form = Form("qdq", per_channel=per_channel)
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(form.model()))
    for image in images():
        expected = form.scores(run_onnx(model, {"x": form.image(image)})["y"])
        came = np.array(scores_of(form, "base16", image))
        assert np.abs(came - expected).max() <= 1
        assert np.ptp(expected.astype(np.int64)) > 20


@pytest.mark.parametrize("form", [form for form in FORMS if form.kind == "tflite"], ids=lambda form: form.name)
def test_computes_what_the_reference_kernels_of_litert_compute(form: Form) -> None:
    interpreter = Interpreter(
        model_content=form.model(), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    for image in images():
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], form.image(image))
        interpreter.invoke()
        expected = form.scores(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        came = np.array(scores_of(form, "base16", image))
        assert np.abs(came - expected).max() <= 1


@pytest.mark.parametrize("opset", OPSETS)
def test_a_float_network_is_quantised_alike_in_every_opset(opset: int) -> None:
    sample = np.concatenate([Form("qdq").image(image) for image in images()])
    programs = [
        tilewright.compile(tilewright.quantize(float_file(each), {"x": sample[:, None]}).model, "base16")
        for each in (17, opset)
    ]
    results = [program.run({"x": sample[:1]}) for program in programs]
    assert np.array_equal(*(result.outputs["y"] for result in results))
    assert len({result.profile["cycles"] for result in results}) == 1
    assert not programs[1].host_nodes
