"""Seeded valid machine files of every shape: arrays, lanes, banks, buses, widths; some without some instructions.

python -m tests.random_machines 4 > random4.yaml
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import yaml

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine

OPTIONAL_INSTRUCTIONS = ("load_acc", "store_acc", "copy", "fill")
"""Instructions of base16 without which every small network still compiles."""

FUSED_IMMEDIATES = {
    **dict.fromkeys(("zero", "low", "high", "a_zero", "b_zero", "out_zero", "out_low", "out_high"), "int8"),
    "shift": "uint6",
}

FUSED = {
    "engine": "vec",
    "loops": {"i": 10, "j": 10, "k": 10},
    "from": {"a": "acc", "p": "par", "b": "act"},
    "to": {"y": "act"},
    "do": "y = clamp(round_shift((clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high) - a_zero)"
    " * a_scale + (b - b_zero) * b_scale, shift) + out_zero, out_low, out_high)",
}
"""An instruction that no shipped machine has: requantize and add in one."""


def random_overlay(seed: int) -> dict[str, Any]:
    """The keys of a machine file that extends base16; every number of it may differ."""
    rng = random.Random(f"machine {seed}")
    lanes = rng.choice([1, 2, 2, 3, 4, 4, 5, 8, 8, 16])
    rows = _array_side(rng, lanes, 32)
    cols = _array_side(rng, lanes, 64)
    scale_bits = rng.choice([12, 16, 16, 20])
    is_tight = rng.random() < 0.3

    def memory(least: int, most: int, block: int = 1) -> dict[str, int | None]:
        """At least `least` words, about so many where memory is tight; a bank holds `block` words."""
        banks = rng.choice([1, 1, 2, 3, 4, 8])
        few = max(block, -(-least // banks))
        many = max(few, most // banks)
        return {"kib": None, "depth": banks * (few if is_tight else rng.randint(few, many)), "banks": banks}

    scale = f"uint{scale_bits}"
    missing = {name: None for name in OPTIONAL_INSTRUCTIONS if rng.random() < 0.4}
    products = {"n": rng.randint(1, 6), "r": rng.randint(1, 4), "s": rng.randint(1, 4), "k": rng.randint(2, 8)}
    instructions: dict[str, Any] = {
        **missing,
        "mma": {"loops": products},
        "mma_transposed": {"loops": products},  # where the array is square
        "requantize": {"loops": {"i": rng.randint(4, 10), "j": rng.randint(4, 10), "k": rng.randint(6, 12)}},
        "max_pool": {"loops": {"r": rng.randint(1, 4), "s": rng.randint(2, 4)}},
        "add": {
            "loops": {"i": rng.randint(2, 10), "j": rng.randint(4, 10), "k": rng.randint(6, 12)},
            "imm": {"a_scale": scale, "b_scale": f"int{scale_bits + 1}"},
        },
        "rescale": {"imm": {"scale": scale}},
        "mul": {"imm": {"scale": scale}},
        "load_act": {"loops": {"i": rng.randint(1, 10), "j": rng.randint(4, 10), "k": rng.randint(8, 14)}},
    }
    if rng.random() < 0.3:
        instructions["requantize_add"] = {**FUSED, "imm": {**FUSED_IMMEDIATES, "a_scale": scale, "b_scale": scale}}
    overlay: dict[str, Any] = {
        "extends": "base16",
        "name": f"random{seed}",
        "rounding": rng.choice(["even", "even", "up", "away"]),
        "array": {"rows": rows, "cols": cols},
        "lanes": lanes,
        "wait_bits": rng.randint(13, 18),
        "dram": {
            "bus_bytes": rng.choice([4, 8, 16, 32, 64]),
            "latency_cycles": rng.randint(1, 300),
            "outstanding_beats": rng.choice([16, 24, 64, 128, 256]),
            "offset_bits": rng.randint(20, 34),
        },
        "memories": {
            "act": memory(96 * (rows // lanes), 4096, 8 * (rows // lanes)),
            "wgt": memory(9 * rows, 64 * rows, rows),
            "acc": memory(32 * (cols // lanes), 1024, cols // lanes),
            "par": {
                **memory(2 * (cols // lanes), 128),
                "element": {"bias": "int32", "scale": scale, "shift": "uint6"},
            },
        },
        "engines": {name: {"queue": rng.randint(1, 16)} for name in ("load", "mma", "vec", "store")},
        "instructions": instructions,
    }
    for name in ("load", "store"):
        limits = {"contexts": rng.randint(2, 6), "bursts": rng.choice([1, 2, 4, 16]), "beats": rng.randint(1, 5)}
        overlay["engines"][name] |= limits
    overlay["fetch_beats"] = rng.choice([16, 17, 40, 64])
    return overlay


def _array_side(rng: random.Random, lanes: int, most: int) -> int:
    """A multiple of the lanes, from 2 to about `most`."""
    side = lanes * rng.randint(1, max(1, min(6, most // lanes)))
    return max(side, 2 * lanes if side == 1 else side)


def overlay_text(overlay: dict[str, Any]) -> str:
    return yaml.safe_dump(overlay, sort_keys=False)


def random_machine_text(seed: int) -> str:
    """A machine file that extends base16; every number of it may differ."""
    return overlay_text(random_overlay(seed))


def random_machine(seed: int) -> Machine:
    """The machine of `random_machine_text`; a file that does not load is a fault of this generator or the loader."""
    return load_machine_text(random_machine_text(seed), f"random{seed}.yaml")


def main() -> None:
    """Print the file of a machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_machines", description=__doc__)
    parser.add_argument("seed", type=int, help="which machine")
    print(random_machine_text(parser.parse_args().seed), end="")


if __name__ == "__main__":
    main()
