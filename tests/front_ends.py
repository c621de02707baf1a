"""Front ends of networks for sound, and norms: what eight bits leave of them, in decibels.

python -m tests.front_ends                  # a table, one line for each form

A front end is a spectrum of frames, its bands, a logarithm and a product. The samples are sounds whose loudness and
pitch differ, so that most values of a spectrum are small beside the greatest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import onnx
from numpy.typing import NDArray

import tilewright
from tests.tilewright.quantization.float_networks import FloatBuilder

FRAMES, LENGTH, BANDS, RESULTS = 12, 64, 16, 8
FREQUENCIES = LENGTH // 2 + 1

SPECTRA = ("power", "power of Pow", "magnitude", "magnitude with epsilon")
LOGARITHMS = ("none", "plain", "epsilon", "clip", "max")
NORMS = ("of a row", "of a row by Pow", "mean", "deviation", "scaled row")


def front_end(spectrum: str, logarithm: str) -> onnx.ModelProto:
    """Frames [1, 12, 64] → spectrum → bands → logarithm → a product."""
    b = FloatBuilder()
    x, angles = b.input("x", (1, FRAMES, LENGTH)), np.outer(np.arange(LENGTH), np.arange(FREQUENCIES))
    parts = []
    for name, wave in (("real", np.cos), ("imaginary", np.sin)):
        weights = np.hanning(LENGTH)[:, None] * wave(2 * np.pi * angles / LENGTH) / 8
        part = b.node("MatMul", name, x, b.constant(f"{name}.waves", weights))
        two = b.constant(f"{name}.two", np.array(2.0)) if "Pow" in spectrum else part
        parts.append(b.node("Pow" if "Pow" in spectrum else "Mul", f"{name}.square", part, two))
    power = b.node("Add", "power", *parts)
    if "epsilon" in spectrum:
        power = b.node("Add", "more", power, b.constant("more.epsilon", np.array(1e-6)))
    if "magnitude" in spectrum:
        power = b.node("Sqrt", "magnitude", power)
    bands = b.node("MatMul", "bands", power, b.constant("filters", _filters()))
    match logarithm:
        case "epsilon":
            bands = b.node("Add", "apart", bands, b.constant("epsilon", np.array(1e-5)))
        case "clip":
            bands = b.node("Clip", "apart", bands, b.constant("least", np.array(1e-5)))
        case "max":
            bands = b.node("Max", "apart", bands, b.constant("least", np.array(1e-5)))
    if logarithm != "none":
        bands = b.node("Log", "log", bands)
    return b.build(b.node("MatMul", "last", bands, b.normal("last.weight", BANDS, RESULTS, scale=0.3)))


def _filters() -> NDArray[np.float64]:
    """Triangles whose width grows with the frequency."""
    centres = np.linspace(1, np.sqrt(FREQUENCIES), BANDS + 2) ** 2 - 1
    at = np.arange(FREQUENCIES)[:, None]
    rising = (at - centres[:-2]) / (centres[1:-1] - centres[:-2])
    falling = (centres[2:] - at) / (centres[2:] - centres[1:-1])
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) + 1e-3)


def sounds(count: int = 16, seed: int = 0) -> NDArray[np.float32]:
    """Frames of a few tones, loud and soft ones, and noise that is a tenth as strong."""
    rng, times = np.random.default_rng(seed), np.arange(LENGTH)
    frames = np.zeros((count, FRAMES, LENGTH))
    for sound, frame in product(range(count), range(FRAMES)):
        loudness = 10 ** rng.uniform(-1, 0)
        for _ in range(3):
            tone = np.sin(2 * np.pi * rng.uniform(0.5, LENGTH / 2) * times / LENGTH + rng.uniform(0, 6))
            frames[sound, frame] += loudness * 10 ** rng.uniform(-1, 0) * tone
        frames[sound, frame] += 0.1 * loudness * rng.normal(size=LENGTH)
    return frames.astype(np.float32)


def norm(form: str) -> onnx.ModelProto:
    """Rows [1, 12, 64] → a product → a norm of each row → what is done with it."""
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input("x", (1, FRAMES, LENGTH)), b.normal("first.weight", LENGTH, 32, scale=0.2))
    if form == "deviation":
        mean = b.node("ReduceMean", "mean", x, axes=[-1])
        x = b.node("Sub", "centred", x, mean)
    by_pow = form == "of a row by Pow"
    squares = (
        b.node("Pow", "squares", x, b.constant("two", np.array(2.0))) if by_pow else b.node("Mul", "squares", x, x)
    )
    if form in ("mean", "deviation"):
        total = b.node("ReduceMean", "total", squares, axes=[-1])
    else:
        total = b.node("ReduceSum", "total", squares, b.constant("axes", np.array([-1], np.int64)))
    root = b.node("Sqrt", "root", b.node("Add", "apart", total, b.constant("epsilon", np.array(1e-6))))
    if form != "scaled row":
        return b.build(root)
    return b.build(b.node("Mul", "scaled", x, root))


def forms() -> Iterator[tuple[str, onnx.ModelProto]]:
    """All front ends and norms, with what they are called."""
    for spectrum, logarithm in product(SPECTRA, LOGARITHMS):
        yield f"{spectrum}, logarithm {logarithm}", front_end(spectrum, logarithm)
    for form in NORMS:
        yield f"norm {form}", norm(form)


def decibels(model: onnx.ModelProto) -> tuple[float, str]:
    """The ratio of the output, and what loses most before it."""
    quantized = tilewright.quantize(model, {"x": sounds()})
    outputs = {value.name for value in model.graph.output}
    (ratio,) = (layer.snr_db for layer in quantized.layers if layer.tensor in outputs)
    worst = ", ".join(f"{layer.name} ({layer.drop_db:.1f})" for layer in quantized.hurting[:2])
    return float("inf") if ratio is None else ratio, worst


def main() -> None:
    print("| form | output in dB | loses most |\n| --- | ---: | --- |")
    for name, model in forms():
        ratio, worst = decibels(model)
        print(f"| {name} | {ratio:.1f} | {worst} |")


if __name__ == "__main__":
    main()
