"""ONNX Runtime's own quantiser, run on the float network in its forms; it works without a network connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from tests.files.styles import Style, model, samples
from tests.files.trial import Trial

EXPORTER = "ONNX Runtime quantiser"

TYPES = {
    "uint8": QuantType.QUInt8,
    "int8": QuantType.QInt8,
    "int16": QuantType.QInt16,
    "uint16": QuantType.QUInt16,
    "int4": QuantType.QInt4,
}


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self._left = iter(samples())

    def get_next(self) -> dict[str, Any] | None:
        values = next(self._left, None)
        return None if values is None else {"input": values}


def _static(activations: str, weights: str, form: QuantFormat, opset: int = 17, **more: Any) -> bytes:
    def quantise(source: Path, target: Path) -> None:
        quantize_static(
            source, target, _Samples(), quant_format=form, activation_type=TYPES[activations],
            weight_type=TYPES[weights], **more,
        )  # fmt: skip

    return _quantised(quantise, opset)


def _dynamic(**more: Any) -> bytes:
    return _quantised(lambda source, target: quantize_dynamic(source, target, **more), 17)


def _preprocessed() -> bytes:
    def quantise(source: Path, target: Path) -> None:
        quant_pre_process(source, source)
        quantize_static(source, target, _Samples(), activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)

    return _quantised(quantise, 17)


def _quantised(quantise: Any, opset: int) -> bytes:
    """What it writes; what it logs goes nowhere."""
    before = logging.root.level
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantised.onnx"
        onnx.save(model(Style(opset=opset)), source)
        logging.disable(logging.WARNING)
        try:
            with redirect_stdout(StringIO()):
                quantise(source, target)
        finally:
            logging.disable(logging.NOTSET)
            logging.root.setLevel(before)
        return target.read_bytes()


EXTRA: Mapping[str, dict[str, Any]] = {
    "symmetric activations": {"ActivationSymmetric": True},
    "asymmetric weights": {"WeightSymmetric": False},
    "each QDQ pair for one node": {"DedicatedQDQPair": True},
    "keeps Relu and Clip": {"QDQKeepRemovableActivations": True},
    "weights in QuantizeLinear": {"AddQDQPairToWeight": True},
    "float biases": {"QuantizeBias": False},
    "ops of com.microsoft": {"UseQDQContribOps": True},
}

TRIALS = [
    *(
        Trial(EXPORTER, f"QDQ, {a} activations, {w} weights{', per channel' * p}",
              partial(_static, a, w, QuantFormat.QDQ, per_channel=p), "run")
        for a, w in (("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")) for p in (False, True)
    ),
    *(
        Trial(EXPORTER, f"QOperator, {a} activations, {w} weights{', per channel' * p}",
              partial(_static, a, w, QuantFormat.QOperator, per_channel=p), "run")
        for a, w in (("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")) for p in (False, True)
    ),
    *(
        Trial(EXPORTER, f"QDQ, {name}",
              partial(_static, "int8", "int8", QuantFormat.QDQ, extra_options=options), "run")
        for name, options in EXTRA.items()
    ),
    Trial(EXPORTER, "QDQ, reduced range", partial(_static, "uint8", "int8", QuantFormat.QDQ, reduce_range=True), "run"),
    *(
        Trial(EXPORTER, f"QDQ, calibrated by {method.name}",
              partial(_static, "uint8", "int8", QuantFormat.QDQ, calibrate_method=method), "run")
        for method in (CalibrationMethod.Entropy, CalibrationMethod.Percentile, CalibrationMethod.Distribution)
    ),
    *(
        Trial(EXPORTER, f"QDQ, opset {opset}", partial(_static, "uint8", "int8", QuantFormat.QDQ, opset), "run")
        for opset in (13, 21)
    ),
    Trial(EXPORTER, "QDQ of a network that it prepared", _preprocessed, "run"),
    Trial(EXPORTER, "QDQ, convolutions only",
          partial(_static, "uint8", "int8", QuantFormat.QDQ, op_types_to_quantize=["Conv"]), "run"),
    Trial(EXPORTER, "QDQ, uint16 activations", partial(_static, "uint16", "int8", QuantFormat.QDQ), "run"),
    Trial(EXPORTER, "QDQ, int16 activations", partial(_static, "int16", "int8", QuantFormat.QDQ), "run"),
    Trial(EXPORTER, "QDQ, int4 weights", partial(_static, "int8", "int4", QuantFormat.QDQ, 21), "run"),
    Trial(EXPORTER, "dynamic", partial(_dynamic, weight_type=QuantType.QUInt8), "run"),
    Trial(EXPORTER, "dynamic, int8 weights, per channel",
          partial(_dynamic, weight_type=QuantType.QInt8, per_channel=True), "run"),
]  # fmt: skip
