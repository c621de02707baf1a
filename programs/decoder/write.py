"""Continue a text with the trained decoder, character by character, on the simulated machine.

python -m programs.decoder.write "The statement"
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright
from programs.decoder.model import STEP, continued
from programs.decoder.network import LENGTH
from programs.decoder.text import decode, encode
from tilewright.errors import USER_ERRORS, describe


def main(arguments: list[str] | None = None) -> None:
    """Write a text, and what it took."""
    parser = argparse.ArgumentParser(prog="python -m programs.decoder.write", description="Continue a text.")
    parser.add_argument("text", help="how it begins")
    parser.add_argument("--count", type=int, help=f"characters to add; default: up to {LENGTH} in all")
    parser.add_argument("--isa", default="sequence16", help="a machine; default: sequence16")
    parser.add_argument("--on", default="sim", choices=["sim", "interp", "rtl"], help="default: sim")
    parser.add_argument("--temperature", type=float, default=0.4, help="default: 0.4; 0: always the most likely one")
    parser.add_argument("--seed", type=int, default=0, help="of the choices, if the temperature is not 0")
    given = parser.parse_args(arguments)
    try:
        print(written(given.text, given.count, given.isa, given.on, given.temperature, given.seed))
    except (ValueError, *USER_ERRORS) as error:
        parser.exit(1, f"error: {describe(error)}\n")


def written(text: str, count: int | None, isa: str, on: str, temperature: float, seed: int) -> str:
    """The continued text, and a line that says how many cycles a character took."""
    prompt = encode(text)
    program = tilewright.compile(STEP, isa)
    more = LENGTH - len(prompt) if count is None else count
    found = continued(program, prompt, more, chooser(temperature, seed), on)
    lines = [decode(found.tokens)]
    if found.cycles is not None:
        lines.append(f"[{len(found.cycles)} runs of {max(found.cycles):,} cycles on {isa}]")
    return "\n".join(lines)


def chooser(temperature: float, seed: int) -> Callable[[NDArray[Any]], int]:
    """How the next character is chosen: at temperature 1 with the probabilities that the decoder gives."""
    random = np.random.default_rng(seed)

    def choose(logits: NDArray[Any]) -> int:
        row = logits.reshape(-1).astype(np.float64)
        if temperature == 0:
            return int(row.argmax())
        shares = np.exp((row - row.max()) / temperature)
        return int(np.searchsorted(np.cumsum(shares), random.random() * shares.sum(), side="right"))

    return choose


if __name__ == "__main__":
    main()
