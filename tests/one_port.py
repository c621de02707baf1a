"""Machines whose banks have one port, or whose words are interleaved over banks, as overlays of shipped ones."""

from __future__ import annotations

import random

import yaml

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine

SMALL = {
    "array": {"rows": 4, "cols": 4},
    "lanes": 4,
    "dram": {"bus_bytes": 4, "latency_cycles": 20},
    "counters": "all",
}
"""What makes a machine small enough to be built in a minute."""

WRITES_WEIGHTS = {
    "engines": {"vec": {"writes": ["act", "acc", "wgt"]}},
    "instructions": {
        "copy_to_weights": {
            "engine": "vec",
            "loops": {"i": 10, "j": 10, "k": 10},
            "from": {"a": "act"},
            "to": {"y": "wgt"},
            "do": "y = a",
        }
    },
}
"""Results of the vector engine that wait where the array reads its weights."""

NAMES = ("act", "wgt", "acc", "par")
"""Memories of tiny8 that may have one port; in `lut`, lanes look up."""


def one_port_machine(seed: int, base: str = "tiny8") -> Machine:
    """A small machine of which each memory has a random number of ports and banks, interleaved or not."""
    rng = random.Random(f"one port {seed}")
    memories = {}
    for name in NAMES:
        banks = rng.choice([1, 2, 4, 8] if name != "par" else [1, 2])
        memories[name] = {
            "kib": None,
            "depth": banks * rng.choice([32, 48, 64] if name != "par" else [4, 8]),
            "banks": banks,
            "ports": rng.choice([1, 1, 1, 2]),
            "interleave": rng.choice(["words", "none"]),
        }
    text = yaml.safe_dump({"extends": base, **SMALL, **WRITES_WEIGHTS, "memories": memories}, sort_keys=False)
    return load_machine_text(text, f"ports{seed}.yaml")
