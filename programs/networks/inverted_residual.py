"""The block of MobileNetV2 and its descendants: expand, filter each channel, project, add where the shape allows.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018 (arXiv:1801.04381), figure 4; with
squeeze-and-excite as in Howard et al., "Searching for MobileNetV3", 2019 (arXiv:1905.02244), figure 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from programs.networks.builder import LINEAR_GAIN, Builder, Value

Activation = Callable[[Value], Value]

BRANCH_GAIN = 0.5
"""What a projection gives when it is added to its block's input."""


def inverted_residual(
    builder: Builder,
    name: str,
    source: Value,
    *,
    expanded: int,
    channels: int,
    stride: int,
    dilation: int = 1,
    activation: Activation,
    kernel: int = 3,
    padding: str = "symmetric",
    squeezed: int | None = None,
) -> Value:
    """One block: `expanded` channels inside, `squeezed` of them between the layers of squeeze-and-excite, if any."""
    is_added = stride == 1 and source.channels == channels
    x = source
    if expanded != source.channels:
        x = activation(builder.conv(f"{name}.expand", x, expanded))
    x = activation(builder.depthwise(f"{name}.depthwise", x, kernel, stride=stride, dilation=dilation, padding=padding))
    if squeezed is not None:
        x = _squeeze_and_excite(builder, f"{name}.squeeze", x, squeezed)
    x = builder.conv(f"{name}.project", x, channels, gain=BRANCH_GAIN if is_added else LINEAR_GAIN)
    return builder.add(f"{name}.add", source, x) if is_added else x


def inverted_residual_stages(
    builder: Builder, x: Value, stages: Iterable[tuple[int, int, int, int, int]], *, padding: str = "symmetric"
) -> Value:
    """Blocks with ReLU6, stage by stage: expansion, kernel, output channels, how many blocks, stride of the first."""
    for stage, (expansion, kernel, channels, blocks, stride) in enumerate(stages):
        for block in range(blocks):
            x = inverted_residual(
                builder,
                f"stage{stage}.{block}",
                x,
                expanded=expansion * x.channels,
                channels=channels,
                stride=stride if block == 0 else 1,
                activation=builder.relu6,
                kernel=kernel,
                padding=padding,
            )
    return x


def _squeeze_and_excite(builder: Builder, name: str, source: Value, squeezed: int) -> Value:
    """Each channel times a factor between 0 and 1 that the averages of all channels decide."""
    x = builder.global_average(f"{name}.average", source)
    x = builder.relu(builder.conv(f"{name}.reduce", x, squeezed, is_normalised=False))
    x = builder.hard_sigmoid(builder.conv(f"{name}.excite", x, source.channels, gain=LINEAR_GAIN, is_normalised=False))
    return builder.mul(f"{name}.scale", source, x)
