"""Files of the forms that other quantisers and exporters of ONNX models write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.files.styles import MICROSOFT, Style, model
from tests.files.trial import Trial


def _file(style: Style) -> Callable[[], bytes]:
    return partial(_written, style)


def _written(style: Style) -> bytes:
    return model(style).SerializeToString(deterministic=True)


def _torch_script(name: str) -> str:
    """Names of TorchScript's exporter are paths."""
    return f"/model/{name}"


def _clipped(bits: int, signed: bool = True) -> tuple[int, int]:
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


INT8, UINT8 = "int8", "uint8"

TRIALS = [
    Trial("PyTorch, TorchScript", "fake-quantised, per channel", _file(
        Style(opset=13, activations=UINT8, weights="float", bias="float", constants_are_nodes=True, names=_torch_script)
    )),
    Trial("PyTorch, TorchScript", "fake-quantised, per tensor", _file(
        Style(13, activations=INT8, weights="float", bias="float", per_channel=False, constants_are_nodes=True,
              names=_torch_script)
    )),
    Trial("PyTorch, dynamo", "PT2E, symmetric, per channel", _file(
        Style(opset=20, activations=INT8, symmetric=True, bias="float")
    )),
    Trial("PyTorch, dynamo", "PT2E, per tensor", _file(
        Style(opset=20, activations=INT8, bias="float", per_channel=False)
    )),
    Trial("tf2onnx", "quantised, images [N, H, W, C]", _file(
        Style(opset=13, activations=INT8, last=True, transposes_weights=True)
    )),
    Trial("tf2onnx", "quantised, images [N, H, W, C], uint8", _file(
        Style(opset=13, activations=UINT8, last=True, transposes_weights=True, per_channel=False)
    )),
    Trial("tf2onnx", "float, images [N, H, W, C]", _file(Style(opset=13, last=True, transposes_weights=True)),
          is_float=True),
    Trial("Brevitas", "QCDQ, 8 bits", _file(
        Style(opset=13, activations=INT8, symmetric=True, clips=(-127, 127), clips_weights=True)
    )),
    Trial("Brevitas", "QCDQ, 8 bits, per tensor, float biases", _file(
        Style(opset=13, activations=INT8, symmetric=True, clips=(-128, 127), clips_weights=True, per_channel=False,
              bias="float")
    )),
    Trial("Brevitas", "QCDQ, unsigned activations", _file(
        Style(opset=13, activations=UINT8, clips=(0, 255), clips_weights=True)
    )),
    Trial("Brevitas", "QCDQ, 4-bit weights", _file(
        Style(opset=13, activations=INT8, symmetric=True, clips=(-127, 127), clips_weights=True, weight_bits=4)
    )),
    Trial("Brevitas", "QCDQ, narrow activations", _file(
        Style(opset=13, activations=INT8, symmetric=True, clips=_clipped(4), clips_weights=True, weight_bits=4)
    )),
    Trial("Brevitas", "QDQ", _file(Style(opset=13, activations=INT8, symmetric=True))),
    Trial("NNCF", "int8 activations, weights in QuantizeLinear", _file(
        Style(opset=13, activations=INT8, weights="float", bias="float")
    )),
    Trial("NNCF", "uint8 activations, weights in QuantizeLinear", _file(
        Style(opset=13, activations=UINT8, weights="float", bias="float")
    )),
    Trial("AIMET", "uint8 activations, int32 biases", _file(Style(opset=13, activations=UINT8, weights="float"))),
    Trial("AIMET", "per tensor", _file(Style(opset=13, activations=UINT8, weights="float", per_channel=False))),
    Trial("Quark", "XINT8: powers of two, int8 biases", _file(
        Style(activations=INT8, powers_of_two=True, per_channel=False, bias="int8")
    )),
    Trial("Quark", "A8W8, per channel", _file(Style(activations=INT8, symmetric=True))),
    Trial("Quark", "QDQ of com.microsoft", _file(Style(activations=INT8, symmetric=True, domain=MICROSOFT))),
    Trial("Quark", "A16W8, QDQ of com.microsoft", _file(Style(activations="int16", symmetric=True, domain=MICROSOFT))),
]  # fmt: skip
