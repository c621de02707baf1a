"""Seeded valid machine files of every shape: arrays, lanes, banks, buses, field widths, with and without instructions."""

from __future__ import annotations

import random

import yaml

from isa.loader import load_machine_text
from isa.machine import Machine

OPTIONAL_INSTRUCTIONS = ("load_acc", "store_acc", "copy")
"""Instructions of base16 without which every small network still compiles."""


def random_machine_text(seed: int) -> str:
    """A machine file that extends base16; every number of it may differ."""
    rng = random.Random(f"machine {seed}")
    lanes = rng.choice([1, 2, 2, 3, 4, 4, 5, 8, 8, 16])
    rows = lanes * rng.randint(1, max(1, min(4, 32 // lanes)))
    cols = lanes * rng.randint(1, max(1, min(4, 64 // lanes)))
    rows, cols = max(rows, 2 * lanes if rows == 1 else rows), max(cols, 2 * lanes if cols == 1 else cols)
    scale_bits = rng.choice([12, 16, 16, 20])

    def memory(words: tuple[int, int]) -> dict[str, int | None]:
        banks = rng.choice([1, 1, 2, 3, 4, 8])
        return {"kib": None, "depth": banks * rng.randint(-(-words[0] // banks), words[1] // banks), "banks": banks}

    bits = {name: rng.randint(low, 10) for name, low in (("i", 6), ("j", 6), ("k", 8))}
    overlay: dict[str, object] = {
        "extends": "base16",
        "name": f"random{seed}",
        "rounding": rng.choice(["even", "even", "up", "away"]),
        "array": {"rows": rows, "cols": cols},
        "lanes": lanes,
        "wait_bits": rng.randint(14, 18),
        "dram": {
            "bus_bytes": rng.choice([4, 8, 16, 32, 64]),
            "latency_cycles": rng.randint(1, 300),
            "outstanding_beats": rng.choice([16, 24, 64, 128, 256]),
        },
        "memories": {
            "act": memory((256 * (rows // lanes), 4096)),
            "wgt": memory((12 * rows, 64 * rows)),
            "acc": memory((64 * (cols // lanes), 1024)),
            "par": {
                **memory((4 * (cols // lanes), 128)),
                "element": {"bias": "int32", "scale": f"uint{scale_bits}", "shift": "uint6"},
            },
        },
        "engines": {name: {"queue": rng.randint(1, 16)} for name in ("load", "mma", "vec", "store")},
        "instructions": {
            **{name: None for name in OPTIONAL_INSTRUCTIONS if rng.random() < 0.4},
            "requantize": {"loops": bits},
            "mma": {
                "loops": {
                    "n": rng.randint(1, 6),
                    "r": rng.randint(1, 4),
                    "s": rng.randint(1, 4),
                    "k": rng.randint(2, 8),
                }
            },
            "max_pool": {"loops": {"r": rng.randint(2, 4), "s": rng.randint(2, 4)}},
            "add": {"imm": {"a_scale": f"uint{scale_bits}", "b_scale": f"uint{scale_bits}"}},
            "rescale": {"imm": {"scale": f"uint{scale_bits}"}},
        },
    }
    return yaml.safe_dump(overlay, sort_keys=False)


def random_machine(seed: int) -> Machine:
    """The machine of `random_machine_text`; a file that does not load is a fault of this generator or the loader."""
    return load_machine_text(random_machine_text(seed), f"random{seed}.yaml")
