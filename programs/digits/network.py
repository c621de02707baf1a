"""The digits network in numpy: its forward pass and, for training, its gradients.

    image [1,8,8]  -> conv1 3x3 pad 1, 16 channels, relu                     [16,8,8]
                   -> conv2 3x3 pad 1 stride 2, 32 channels, relu            [32,4,4]
                   -> block: conv1 3x3, relu, conv2 3x3, plus its input, relu  [32,4,4]
                   -> max pool 2x2                                           [32,2,2]
                   -> global average pool                                    [32]
                   -> dense                                                  [10]

Every convolution is one matrix product over unfolded patches ("im2col"): for images [n,c,h,w] the patches are
[n*oh*ow, c*9], the weights [k, c*9], the result [n*oh*ow, k]. Example: conv2 on one image unfolds [16,8,8] to 16 rows
(4x4 positions) of 144 columns (16 channels x 9 taps), and 144x32 weights give [16, 32].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Parameters = dict[str, Array]

# name of a convolution -> (input channels, output channels, stride); all are 3x3 with one pixel of padding.
CONVOLUTIONS = {
    "conv1": (1, 16, 1),
    "conv2": (16, 32, 2),
    "block.conv1": (32, 32, 1),
    "block.conv2": (32, 32, 1),
}
CLASSES = 10
FEATURES = 32
TAP = 3


def initial_parameters(random: np.random.Generator) -> Parameters:
    """He initialisation; weights are [out, in, 3, 3] and [classes, features], biases start at zero."""
    parameters: Parameters = {}
    for name, (channels_in, channels_out, _) in CONVOLUTIONS.items():
        deviation = np.sqrt(2.0 / (channels_in * TAP * TAP))
        weight = random.normal(0.0, deviation, (channels_out, channels_in, TAP, TAP))
        parameters[f"{name}.weight"] = weight.astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(channels_out, np.float32)
    dense = random.normal(0.0, np.sqrt(1.0 / FEATURES), (CLASSES, FEATURES))
    parameters["dense.weight"] = dense.astype(np.float32)
    parameters["dense.bias"] = np.zeros(CLASSES, np.float32)
    return parameters


@dataclass(frozen=True, slots=True)
class Convolved:
    """A convolution's result [n,k,oh,ow], with what its gradient needs."""

    output: Array
    patches: Array
    input_shape: tuple[int, ...]


def convolve(parameters: Parameters, name: str, images: Array) -> Convolved:
    """Apply convolution `name` to images [n,c,h,w]."""
    count, _, height, width = images.shape
    _, channels_out, stride = CONVOLUTIONS[name]
    patches = unfold(images, stride)
    weight = parameters[f"{name}.weight"].reshape(channels_out, -1)
    flat = patches @ weight.T + parameters[f"{name}.bias"]
    output = flat.reshape(count, height // stride, width // stride, channels_out).transpose(0, 3, 1, 2)
    return Convolved(output, patches, images.shape)


def convolve_backward(
    parameters: Parameters, gradients: Parameters, name: str, forward: Convolved, upstream: Array
) -> Array:
    """Store the gradients of `name`'s weight and bias; return the gradient of its input."""
    _, channels_out, stride = CONVOLUTIONS[name]
    weight = parameters[f"{name}.weight"]
    flat = np.ascontiguousarray(upstream.transpose(0, 2, 3, 1)).reshape(-1, channels_out)
    gradients[f"{name}.weight"] = (flat.T @ forward.patches).reshape(weight.shape)
    gradients[f"{name}.bias"] = flat.sum(axis=0)
    return fold(flat @ weight.reshape(channels_out, -1), forward.input_shape, stride)


def unfold(images: Array, stride: int) -> Array:
    """Patches [n*oh*ow, c*9] of images [n,c,h,w], padded by one zero pixel."""
    count, channels, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (TAP, TAP), axis=(2, 3))[:, :, ::stride, ::stride]
    positions = count * (height // stride) * (width // stride)
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(positions, channels * TAP * TAP)


def fold(patches: Array, shape: tuple[int, ...], stride: int) -> Array:
    """The transpose of `unfold`: add every patch back to where it was taken from."""
    count, channels, height, width = shape
    rows, columns = height // stride, width // stride
    taps = patches.reshape(count, rows, columns, channels, TAP, TAP).transpose(4, 5, 0, 3, 1, 2)
    padded = np.zeros((count, channels, height + 2, width + 2), np.float32)
    for r in range(TAP):
        for s in range(TAP):
            padded[:, :, r : r + rows * stride : stride, s : s + columns * stride : stride] += taps[r, s]
    return padded[:, :, 1:-1, 1:-1]


def loss_and_gradients(parameters: Parameters, images: Array, targets: Array) -> tuple[float, Parameters]:
    """Mean cross-entropy of the network on images [n,1,8,8] against target distributions [n,10], and its gradients."""
    count = len(images)
    gradients: Parameters = {}

    first = convolve(parameters, "conv1", images)
    first_active = np.maximum(first.output, 0)
    second = convolve(parameters, "conv2", first_active)
    second_active = np.maximum(second.output, 0)
    inner = convolve(parameters, "block.conv1", second_active)
    inner_active = np.maximum(inner.output, 0)
    outer = convolve(parameters, "block.conv2", inner_active)
    added = outer.output + second_active
    active = np.maximum(added, 0)
    quads = active.reshape(count, FEATURES, 2, 2, 2, 2)  # [n, c, y, in-window y, x, in-window x]
    pooled = quads.max(axis=(3, 5), keepdims=True)
    features = pooled.mean(axis=(2, 3, 4, 5))
    logits = features @ parameters["dense.weight"].T + parameters["dense.bias"]
    logits -= logits.max(axis=1, keepdims=True)
    log_probability = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    loss = float(-(targets * log_probability).sum() / count)

    d_logits = (np.exp(log_probability) - targets) / np.float32(count)
    gradients["dense.weight"] = d_logits.T @ features
    gradients["dense.bias"] = d_logits.sum(axis=0)
    d_features = d_logits @ parameters["dense.weight"]
    is_maximum = quads == pooled
    share = is_maximum / is_maximum.sum(axis=(3, 5), keepdims=True, dtype=np.float32)
    d_active = (share * d_features[:, :, None, None, None, None] / np.float32(4)).reshape(active.shape)
    d_added = d_active * (added > 0)
    d_inner_active = convolve_backward(parameters, gradients, "block.conv2", outer, d_added)
    d_block_input = convolve_backward(parameters, gradients, "block.conv1", inner, d_inner_active * (inner.output > 0))
    d_second_active = d_block_input + d_added
    d_first_active = convolve_backward(parameters, gradients, "conv2", second, d_second_active * (second.output > 0))
    convolve_backward(parameters, gradients, "conv1", first, d_first_active * (first.output > 0))
    return loss, gradients
