"""The float network out of PyTorch: by its exporters where it is installed, else by a generator of the same form."""

from __future__ import annotations

import io
from functools import partial
from importlib.util import find_spec
from typing import Any

from tests.files.styles import CHANNELS, INSIDE, SIZE, Style, layers, model
from tests.files.trial import Trial

IS_INSTALLED = find_spec("torch") is not None


def _exported(dynamo: bool) -> bytes:
    import torch

    network = _network(torch).eval()
    image = torch.zeros(1, CHANNELS, SIZE, SIZE)
    names: dict[str, Any] = {"input_names": ["input"], "output_names": ["output"]}
    if dynamo:
        program = torch.onnx.export(network, (image,), dynamo=True, **names)
        return bytes(program.model_proto.SerializeToString())
    written = io.BytesIO()
    torch.onnx.export(network, (image,), written, dynamo=False, opset_version=17, **names)
    return written.getvalue()


def _network(torch: Any) -> Any:
    """The network of tests/files/styles.py as a module."""
    nn = torch.nn

    class Network(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(CHANNELS, INSIDE, 3, padding=1)
            self.conv2 = nn.Conv2d(INSIDE, INSIDE, 1)
            self.depthwise = nn.Conv2d(INSIDE, INSIDE, 3, padding=1, groups=INSIDE)
            self.fc = nn.Linear(INSIDE, layers()["fc"][0].shape[0])

        def forward(self, x: Any) -> Any:
            first = torch.relu(self.conv1(x))
            deep = self.depthwise(first + self.conv2(first))
            return self.fc((deep * torch.sigmoid(deep)).mean((2, 3)))

    network = Network()
    with torch.no_grad():
        for name, (weights, bias) in layers().items():
            layer = getattr(network, name)
            layer.weight.copy_(torch.from_numpy(weights))
            layer.bias.copy_(torch.from_numpy(bias))
    return network


def _generated(style: Style) -> bytes:
    return model(style).SerializeToString(deterministic=True)


STYLES = {
    "TorchScript": Style(opset=17, constants_are_nodes=False, names=lambda name: f"/{name}"),
    "dynamo": Style(opset=18),
}

TRIALS = [
    Trial(
        f"PyTorch, {name}",
        "float",
        partial(_exported, name == "dynamo") if IS_INSTALLED else partial(_generated, style),
        "run" if IS_INSTALLED else "generator",
        is_float=True,
    )
    for name, style in STYLES.items()
]
