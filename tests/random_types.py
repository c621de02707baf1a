"""Seeded small machines of any types: activations, weights, sums, and weights that are read as narrower ones.

python -m tests.random_types 4 > types4.yaml
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import yaml

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine

ACTIVATIONS = ("int8", "uint8", "int16", "int12")
WEIGHTS = ("int8", "int4", "int2", "int6", "int9", "int16")
SUMS = ("int24", "int28", "int32", "int40")
NARROWER = {"int8": ("int4", "int2"), "int4": ("int2",), "int16": ("int8", "int4")}
"""What the words of a memory of weights may be read as, besides."""

TABLES = {"load_lut": None, "lookup": None}
"""Instructions that need a table of 256 values: without them where an activation has more."""


def overlay_of_types(seed: int) -> dict[str, Any]:
    """The keys of a machine file that extends base16."""
    rng = random.Random(f"types {seed}")
    lanes = rng.choice([2, 4])
    act, wgt, acc = rng.choice(ACTIVATIONS), WEIGHTS[seed % len(WEIGHTS)], rng.choice(SUMS)
    array = {"rows": lanes * rng.choice([1, 2]), "cols": lanes * rng.choice([1, 2]) * (2 if wgt == "int2" else 1)}
    instructions: dict[str, Any] = {} if act in ("int8", "uint8") else dict(TABLES)
    for narrow in NARROWER.get(wgt, ()):
        times = _bits(wgt) // _bits(narrow)
        if rng.random() < 0.7:
            instructions[f"mma_{narrow}"] = {
                "engine": "mma",
                "loops": {"n": 6, "r": 4, "s": 4, "k": 8, "y": 10, "x": 10},
                "reduce": ["r", "s", "k"],
                "from": {"a": "rows // lanes * act[r, s, k, y, x]", "w": f"rows * wgt[n, r, s, k] as {narrow}"},
                "to": {"c": f"{times} * cols // lanes * acc[n, y, x]"},
                "flags": ["accumulate"],
                "do": "c = wrap(sum(dot(a, w)), acc)",
            }
    return {
        "extends": "base16",
        "name": f"types{seed}",
        "array": array,
        "lanes": lanes,
        "dram": {"bus_bytes": rng.choice([4, 8, 16])},
        "memories": {
            "act": {"element": act, "kib": None, "depth": 2048},
            "wgt": {"element": wgt, "kib": None, "depth": 64 * array["rows"]},
            "acc": {"element": acc, "kib": None, "depth": 1024},
            "par": {"kib": None, "depth": 256},
            "lut": {"element": act if act == "uint8" else "int8"},
        },
        "instructions": instructions,
    }


def _bits(element: str) -> int:
    return int(element.removeprefix("int"))


def text_of_types(seed: int) -> str:
    return yaml.safe_dump(overlay_of_types(seed), sort_keys=False)


def machine_of_types(seed: int) -> Machine:
    """The machine of a seed; a file that does not load is a fault of this generator or the loader."""
    return load_machine_text(text_of_types(seed), f"types{seed}.yaml")


def main() -> None:
    """Print the file of a machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_types", description=__doc__)
    parser.add_argument("seed", type=int, help="which machine")
    print(text_of_types(parser.parse_args().seed), end="")


if __name__ == "__main__":
    main()
