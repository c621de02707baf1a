"""The support table: honest about what runs where, and about how exact it is."""

from __future__ import annotations

import re

import pytest

from tests.compiler.pipelines import base16
from tests.operators.measure import Exactness, measured
from tests.operators.page import PAGE, page, page_now, places
from tests.operators.tflite_names import onnx_operators
from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.importers.tflite.read import CUSTOM
from tilewright.compiler.importers.tflite.translate import ROWS
from tilewright.compiler.options import Options
from tilewright.compiler.partition.probe_model import Activation, Numbers, Probe, probe_model
from tilewright.compiler.partition.probes import PROBES, plain_probes
from tilewright.compiler.partition.support import Support, probe_of, support_table, unasked_operators, why_not
from tilewright.compiler.pipeline import compile_model


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
    """Nearly all values are equal, but where a remark says that integers are rounded between instructions."""
    found = {(of.operator, of.form): (measured(of, base16()), of) for of in support_table(base16())}
    known = {form: (exactness, of) for form, (exactness, of) in found.items() if exactness is not None}
    assert [form for form, (exactness, _) in known.items() if exactness.steps > 1] == []
    unequal = [of for exactness, of in known.values() if exactness.share < 0.99]
    assert [(of.operator, of.form) for of in unequal if not is_rounded_between(of)] == []


def is_rounded_between(support: Support) -> bool:
    program = compile_model(probe_model(probe_of(support), support.dtypes[0]), base16(), Options(effort=0))
    return any("with int8 between them" in remark for remark in program.metadata.values())
