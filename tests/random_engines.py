"""Seeded machine files with none to three engines of each template, each of its own size: base16 with others added.

python -m tests.random_engines 4 > random4.yaml
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import yaml

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine

SHARED = ("requantize", "rescale", "add", "max_pool", "copy", "fill", "mul", "sum", "add_bias", "add_sums")
"""Instructions of base16 that several vector engines may have: those without tables."""

MOST = 3
"""Engines of a template, at the most."""


def random_engines(seed: int) -> dict[str, Any]:
    """The keys of a machine file that extends base16, small enough to be built in a minute."""
    rng = random.Random(f"engines {seed}")
    lanes = rng.choice([2, 4])
    # One machine in four has no array, one in four no vector engine; all have loads and a store.
    arrays = rng.choice([0, 1, 2, 3])
    vectors = rng.choice([0, 1, 2, 3] if arrays else [1, 2, 3])
    loads = rng.randint(1, MOST)
    banks = rng.choice([1, 2, 4])
    memories: dict[str, Any] = {
        name: {"kib": None, "banks": banks, "depth": banks * words}
        for name, words in (("act", 256), ("acc", 96), ("par", 48))
    }
    engines: dict[str, Any] = {"store": {"reads": ["act", "acc"]}}
    instructions: dict[str, Any] = {}
    _add_arrays(rng, arrays, lanes, banks, memories, engines, instructions)
    _add_vectors(rng, vectors, engines, instructions)
    _add_lanes(random.Random(f"lanes {seed}"), lanes, engines)
    if not vectors:
        memories |= {"par": None, "lut": None}
        instructions |= {"load_par": None, "load_lut": None}
    _add_loads(rng, loads, [name for name in ("act", "acc", "par") if memories[name]], engines, instructions)
    ports = _add_ports(random.Random(f"ports {seed}"), engines, instructions)
    return {
        "extends": "base16",
        "name": f"engines{seed}",
        "array": {"rows": lanes, "cols": lanes} if arrays else None,
        "lanes": lanes,
        "wait_bits": 10,
        "dram": {"bus_bytes": rng.choice([2, 4, 8]), "latency_cycles": rng.randint(1, 80), "ports": ports},
        "memories": memories,
        "engines": engines,
        "instructions": instructions,
    }


def _add_arrays(
    rng: random.Random,
    count: int,
    lanes: int,
    banks: int,
    memories: dict[str, Any],
    engines: dict[str, Any],
    instructions: dict[str, Any],
) -> None:
    """Each array behind the first has its own sizes, weights and sums."""
    memories["wgt"] = {"kib": None, "banks": banks, "depth": banks * 64} if count else None
    if not count:
        engines |= {"mma": None, "load": {"writes": ["act", "acc", "par", "lut"]}}
        instructions |= {"mma": None, "mma_transposed": None, "load_wgt": None}
    for number in range(2, count + 1):
        rows, cols = lanes * rng.randint(1, 2), lanes * rng.randint(1, 2)
        weights, sums = f"wgt{number}", f"acc{number}"
        memories[weights] = {"element": "int8", "width": cols, "banks": banks, "depth": banks * 64}
        memories[sums] = {"element": "int32", "width": "lanes", "banks": banks, "depth": banks * 64}
        engines[f"mma{number}"] = {
            "template": "systolic",
            "queue": rng.randint(1, 3),
            "rows": rows,
            "cols": cols,
            "reads": ["act", weights],
            "writes": [sums],
        }
        instructions[f"mma{number}"] = {
            "engine": f"mma{number}",
            "loops": {"n": 4, "r": 3, "s": 3, "k": 4, "y": 6, "x": 6},
            "reduce": ["r", "s", "k"],
            "from": {"a": "rows // lanes * act[r, s, k, y, x]", "w": f"rows * {weights}[n, r, s, k]"},
            "to": {"c": f"cols // lanes * {sums}[n, y, x]"},
            "flags": ["accumulate"],
            "do": "c = wrap(sum(dot(a, w)), int32)",
        }


def _add_vectors(rng: random.Random, count: int, engines: dict[str, Any], instructions: dict[str, Any]) -> None:
    if not count:
        engines["vec"] = None
        tables = ("maximum", "minimum", "lookup")
        instructions |= dict.fromkeys((*SHARED, *tables))
        engines["load"] = {"writes": ["act", "wgt", "acc"]}
    for number in range(2, count + 1):
        engines[f"vec{number}"] = {
            "template": "vector",
            "queue": rng.randint(1, 3),
            "results": rng.choice([1, 2, 4]),
            "reads": ["act", "acc", "par"],
            "writes": ["act", "acc"],
        }
    names = [f"vec{number}" if number > 1 else "vec" for number in range(1, count + 1)]
    for mnemonic in SHARED if count > 1 else ():
        chosen = rng.sample(names, rng.randint(1, count))
        instructions[mnemonic] = {"engine": chosen}
    for name in names[1:]:  # none is without an instruction
        mnemonic = rng.choice(SHARED)
        engine = instructions[mnemonic]["engine"]
        instructions[mnemonic]["engine"] = [*engine, *({name} - {*engine})]


def _add_lanes(rng: random.Random, lanes: int, engines: dict[str, Any]) -> None:
    """Each vector engine behind the first has lanes of its own, as many as divide a word."""
    for name in ("vec2", "vec3"):
        if name in engines:
            engines[name]["lanes"] = rng.choice([own for own in range(1, lanes + 1) if lanes % own == 0])


def _add_loads(
    rng: random.Random,
    count: int,
    memories: list[str],
    engines: dict[str, Any],
    instructions: dict[str, Any],
) -> None:
    names = ["load", *(f"load{number}" for number in range(2, count + 1))]
    for name in names[1:]:
        engines[name] = {
            "template": "dma",
            "queue": rng.randint(1, 3),
            "contexts": rng.randint(2, 4),
            "bursts": rng.randint(1, 4),
            "beats": rng.randint(1, 3),
            "reads": ["dram"],
            "writes": memories,
        }
    for memory in memories if count > 1 else ():
        instructions[f"load_{memory}"] = {"engine": rng.sample(names, rng.randint(1, count))}
    for name in names[1:]:
        instructions["load_act"]["engine"] = list(dict.fromkeys([*instructions["load_act"]["engine"], name]))


def _add_ports(rng: random.Random, engines: dict[str, Any], instructions: dict[str, Any]) -> int:
    """AXI ports, up to one more than loads, each with a load or a store or both; some machines have two stores."""
    loads = [name for name in ("load", "load2", "load3") if name == "load" or name in engines]
    ports = rng.randint(1, len(loads) + 1)
    for name, port in zip(loads, rng.sample(range(ports), min(ports, len(loads))), strict=False):
        engines[name] = {**engines.get(name, {}), "port": port}
    used = {engines[name].get("port", 0) for name in loads if name in engines} | {0}
    unused = [port for port in range(ports) if port not in used]
    engines["store"]["port"] = unused[0] if unused else rng.randrange(ports)
    if ports > 1 and rng.random() < 0.6:
        port = rng.choice([port for port in range(ports) if port != engines["store"]["port"]])
        engines["store2"] = {
            "template": "dma",
            "port": port,
            "queue": rng.randint(1, 3),
            "contexts": rng.randint(2, 3),
            "bursts": rng.randint(1, 3),
            "beats": rng.randint(1, 4),
            "reads": ["act", "acc"],
            "writes": ["dram"],
        }
        instructions |= {name: {"engine": ["store", "store2"]} for name in ("store_act", "store_acc")}
    return ports


def machine_of_engines(seed: int) -> Machine:
    return load_machine_text(yaml.safe_dump(random_engines(seed), sort_keys=False), f"engines{seed}.yaml")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.random_engines", description=__doc__)
    parser.add_argument("seed", type=int, help="which machine")
    print(yaml.safe_dump(random_engines(parser.parse_args().seed), sort_keys=False), end="")


if __name__ == "__main__":
    main()
