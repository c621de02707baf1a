"""Train the decoder in numpy; write its weights, and the texts that quantisation and evaluation read.

    python -m programs.decoder.train [FOLDER]

Seeded and single-threaded: on one machine and one version of Python, two runs write the same bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from programs.decoder.network import LENGTH, Weights, initial_weights, loss_and_gradients
from programs.decoder.text import FOLDER, encode, split

SEED = 96
STEPS = 6000
TEXTS = 16
"""Pieces of text in a step."""

PEAK_RATE = 4e-3
WARM_UP_STEPS = 200
WEIGHT_DECAY = 0.1
LONGEST_GRADIENT = 1.0
MOMENTUM, MOMENTUM_OF_SQUARES = 0.9, 0.99
CALIBRATION_CHARACTERS = 4096


def main() -> None:
    """Train, then write into the folder."""
    parser = argparse.ArgumentParser(description="Train the decoder.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where to write; default: this folder")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"default: {STEPS}")
    given = parser.parse_args()
    learned, held_back = split()
    print(f"{len(learned):,} characters to learn, {len(held_back):,} held back")
    with threadpool_limits(1):  # threads would change the order of sums, and so the bytes
        weights = train(learned, held_back, given.steps)
    np.savez_compressed(given.folder / "weights.npz", **{n: each.astype(np.float16) for n, each in weights.items()})
    (given.folder / "held_back.txt").write_text(held_back)
    (given.folder / "calibration.txt").write_text(learned[:CALIBRATION_CHARACTERS])


def train(learned: str, held_back: str, steps: int = STEPS) -> Weights:
    """Weights after so many steps of AdamW on random pieces of the text, with a cosine learning rate."""
    random = np.random.default_rng(SEED)
    weights = initial_weights(random)
    mean = {name: np.zeros_like(each) for name, each in weights.items()}
    mean_square = {name: np.zeros_like(each) for name, each in weights.items()}
    tokens, unseen = encode(learned), encode(held_back)
    start, losses = perf_counter(), []
    for step in range(1, steps + 1):
        batch = pieces(tokens, random.integers(0, len(tokens) - LENGTH, TEXTS))
        loss, gradients = loss_and_gradients(weights, batch, random=random)
        losses.append(loss)
        length = np.sqrt(sum(float(np.vdot(each, each)) for each in gradients.values()))
        shortened = np.float32(min(1.0, LONGEST_GRADIENT / length))
        rate = learning_rate(step, steps)
        for name, gradient in gradients.items():
            gradient *= shortened
            mean[name] += np.float32(1 - MOMENTUM) * (gradient - mean[name])
            mean_square[name] += np.float32(1 - MOMENTUM_OF_SQUARES) * (gradient * gradient - mean_square[name])
            towards = mean[name] / np.float32(1 - MOMENTUM**step)
            size = np.sqrt(mean_square[name] / np.float32(1 - MOMENTUM_OF_SQUARES**step)) + np.float32(1e-8)
            decay = np.float32(WEIGHT_DECAY if name.endswith(".weight") else 0)
            weights[name] -= np.float32(rate) * (towards / size + decay * weights[name])
        if step % 500 == 0 or step == steps:
            starts = np.arange(0, len(unseen) - LENGTH, LENGTH)
            unseen_loss, _ = loss_and_gradients(weights, pieces(unseen, starts))
            bits = np.array([np.mean(losses), unseen_loss]) / np.log(2)
            print(f"step {step:5d} of {steps}: {bits[0]:.3f} bits a character, held back {bits[1]:.3f}, "
                  f"{perf_counter() - start:.0f} s", flush=True)  # fmt: skip
            losses = []
    return weights


def pieces(tokens: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """[pieces, LENGTH + 1]: what is read, and the token after it."""
    return tokens[starts[:, None] + np.arange(LENGTH + 1)]


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up to `PEAK_RATE`, then half a cosine down to zero."""
    warm_up = min(1.0, step / WARM_UP_STEPS)
    return float(PEAK_RATE * warm_up * 0.5 * (1 + np.cos(np.pi * step / steps)))


if __name__ == "__main__":
    main()
