"""Print how well the decoder foretells text that was held back: bits for each character, in float and in int8.

python -m programs.decoder.evaluate
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

import tilewright
from programs.decoder.model import STEP, continued, float_prefill, int8_prefill, load_weights
from programs.decoder.network import LENGTH, TABLE
from programs.decoder.text import encode, stored

Array = NDArray[np.float32]


def main(arguments: list[str] | None = None) -> None:
    """Evaluate the networks."""
    parser = argparse.ArgumentParser(prog="python -m programs.decoder.evaluate", description="Bits for each character.")
    parser.add_argument("--isa", default="sequence16", help="a machine; default: sequence16")
    isa = parser.parse_args(arguments).isa
    texts = held_back()
    print(f"{texts[:, 1:].size:,} characters that were held back, in {len(texts)} texts; bits for each character:")
    print(f"{bits(texts, in_onnx_runtime(float_prefill())):.3f}  float, in ONNX Runtime")
    print(f"{bits(texts, in_onnx_runtime(int8_prefill())):.3f}  int8, in ONNX Runtime")
    program = tilewright.compile(int8_prefill().SerializeToString(), isa)
    print(f"{bits(texts, on_machine(program)):.3f}  int8, on the simulated {isa}")
    print(f"the first {STEPPED} of these texts:")
    print(f"{bits(texts[:STEPPED], in_onnx_runtime(float_prefill())):.3f}  float, in ONNX Runtime")
    stepping = tilewright.compile(STEP, isa)
    print(f"{bits(texts[:STEPPED], step_by_step(stepping)):.3f}  int8, on the simulated {isa}, one character at a time")


STEPPED = 4
"""Texts that are read one character at a time, which takes long to simulate."""

Logits = Callable[[NDArray[np.int64]], Array]
"""Characters of a text → what may follow each of them, [LENGTH, characters]."""


def held_back() -> NDArray[np.int64]:
    """Texts that were not learned, [texts, LENGTH + 1]: each begins with the last character of the one before it."""
    tokens = encode(stored("held_back"))
    starts = np.arange(0, len(tokens) - LENGTH, LENGTH)
    return tokens[starts[:, None] + np.arange(LENGTH + 1)]


def bits(texts: NDArray[np.int64], logits: Logits) -> float:
    """What a character costs on average, if what the network holds likely is written short."""
    return float(np.mean([costs(logits(text[:-1]), text[1:]) for text in texts]))


def costs(logits: Array, after: NDArray[np.int64]) -> NDArray[np.float64]:
    """-log2 of the share that each of these characters has."""
    rows = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    nats = np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(len(after)), after]
    return nats / np.log(2)


def in_onnx_runtime(model: onnx.ModelProto) -> Logits:
    """With graph optimisations off, on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda text: session.run(["logits"], {"embeddings": load_weights()[TABLE][text][None]})[0][0]


def on_machine(program: tilewright.Program) -> Logits:
    """All characters of a text at once, in the simulator."""
    return lambda text: program.run({"embeddings": load_weights()[TABLE][text][None]}).outputs["logits"][0]


def step_by_step(program: tilewright.Program) -> Logits:
    """One character after the other: the next one is that of the text, whatever the network would choose."""

    def logits(text: NDArray[np.int64]) -> Array:
        rows: list[Array] = []

        def given(row: Array) -> int:
            rows.append(row.reshape(-1))
            return int(text[len(rows) % len(text)])

        continued(program, text[:1], len(text), given)
        return np.stack(rows)

    return logits


if __name__ == "__main__":
    main()
