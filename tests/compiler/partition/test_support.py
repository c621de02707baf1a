"""The support table: honest about what runs where, and about how exact it is."""

from __future__ import annotations

import re

import pytest

from tests.compiler.pipelines import base16
from tests.operators.measure import Exactness, measured
from tests.operators.page import PAGE, page, page_now, places
from tests.operators.tflite_names import onnx_operators
from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.importers.onnx_import import import_onnx
from tilewright.compiler.importers.tflite.read import CUSTOM
from tilewright.compiler.importers.tflite.translate import ROWS
from tilewright.compiler.partition.probe_model import Activation, Numbers, Probe, probe_model
from tilewright.compiler.partition.probes import PROBES, plain_probes
from tilewright.compiler.partition.support import Support, support_table, unasked_operators, why_not


def test_a_convolution_runs_on_the_machine() -> None:
    forms = {of.form: of for of in support_table(base16(), "Conv")}
    assert forms["3×3, pads, strides"].place == "NPU"
    assert forms["computed weights"].place == "host"
    assert "expected constant weights" in forms["computed weights"].reason


def test_what_runs_is_measured() -> None:
    (exactness,) = [measured(of, base16()) for of in support_table(base16(), "GlobalMaxPool")]
    assert exactness is not None
    assert (exactness.steps, exactness.share) == (0, 1.0)


def test_what_does_not_run_is_not_measured() -> None:
    assert measured(Support("Conv", "", (), "no"), base16()) is None


def test_the_reason_is_the_compilers() -> None:
    assert why_not(Probe("CumSum", "", (Activation(), Numbers(1, "int64"))), "int8", base16()) == (
        "operator CumSum has no lowering to the machine"
    )


def test_every_operator_of_onnx_is_somewhere() -> None:
    names = {probe.operator for probe in plain_probes()}
    assert {"Relu", "Sigmoid", "Tanh"} <= names
    assert {"LSTM", "TopK", "NonMaxSuppression"} <= set(unasked_operators())


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.operator} {probe.form}")
def test_every_form_that_is_asked_about_keeps_to_onnx(probe: Probe) -> None:
    """Otherwise the answer would be about the question."""
    try:
        import_onnx(probe_model(probe, "int8").SerializeToString())
    except CompileError as error:
        assert not isinstance(error, DamagedModel), error


def test_the_page_is_read_as_it_is_written() -> None:
    found = [
        (Support("Conv", "1×1", ("int8", "uint8"), ""), Exactness(1, 999, 1000)),
        (Support("Conv", "3-D", (), "too many"), None),
        (Support("Sin", "", (), "none"), None),
    ]
    text = page(found)
    assert "| Conv | CONV_2D, DEPTHWISE_CONV_2D, SVDF | 1×1 | NPU | 1 | 99.9 % |  |" in text
    assert "| Sin | SIN | none |" in text
    assert places(text) == {("Conv", "1×1"): "NPU", ("Conv", "3-D"): "host"}


@pytest.mark.parametrize(
    ("kind", "operators"),
    [
        ("SQUARE", ("Mul",)),
        ("RSQRT", ("Sqrt", "Reciprocal")),
        ("TRANSPOSE", ("Transpose",)),
        ("BATCH_TO_SPACE_ND", ("Reshape", "Transpose")),
        ("QUANTIZE", ("QuantizeLinear",)),
    ],
)
def test_an_operator_of_tflite_becomes_operators_of_onnx(kind: str, operators: tuple[str, ...]) -> None:
    assert onnx_operators(kind) == operators


def test_every_operator_of_tflite_has_a_place_on_the_page() -> None:
    text = page([(Support("Conv", "", ("int8",), ""), None)])
    assert {kind.removeprefix(CUSTOM) for kind in ROWS} - set(re.findall(r"[A-Z]\w+", text)) == set()


@pytest.mark.slow
def test_the_page_is_what_the_compiler_says() -> None:
    assert places(PAGE.read_text()) == places(page_now())


@pytest.mark.slow
def test_nothing_on_the_machine_is_more_than_a_step_away() -> None:
    far = [
        (of.operator, of.form, exactness)
        for of in support_table(base16())
        if (exactness := measured(of, base16())) is not None and (exactness.steps > 1 or exactness.share < 0.99)
    ]
    assert far == []
