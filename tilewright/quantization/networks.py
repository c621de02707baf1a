"""Networks for `compare` and `advise`: float ones are quantised as `compile --calibration` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from tilewright.codesign.points.network import Network, read_networks
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.errors import InputError
from tilewright.files.kinds import require_models

if TYPE_CHECKING:
    from tilewright.quantization.quantize import QuantizedModel
    from tilewright.quantization.samples import Calibration

Tell = Callable[["QuantizedModel"], None]
"""Told of each network that was quantised."""


def read_quantized(
    paths: Sequence[str | Path],
    shapes: Shapes | None,
    calibration: Calibration | None,
    seed: int = 0,
    tell: Tell = lambda quantized: None,
) -> list[Network]:
    """The networks in files; with `calibration`, the float ones among them quantised.

    Raises CompileError for a file that cannot be read or quantised, InputError for samples of other inputs, where no
    network is float, and for a compiled program.
    """
    require_models(paths)
    networks = read_networks(paths, shapes)
    if calibration is None:
        return networks
    if not any(map(_is_float, networks)):
        raise InputError("--calibration quantises float models, and none of these is; leave it out")
    return [_quantized(network, calibration, seed, tell) if _is_float(network) else network for network in networks]


def _quantized(network: Network, calibration: Calibration, seed: int, tell: Tell) -> Network:
    from tilewright.quantization.quantize import quantize

    quantized = quantize(network.content, calibration, shapes=network.shapes, seed=seed)
    tell(quantized)
    return replace(network, content=quantized.content)


def _is_float(network: Network) -> bool:
    from tilewright.quantization.float_model import is_quantized

    try:
        model = onnx.ModelProto.FromString(network.content)
    except DecodeError:
        return False  # TFLite, or damaged: the compiler says what it takes
    return bool(model.graph.node) and not is_quantized(model)
