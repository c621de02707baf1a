"""What a bit buys: cycles and energy of networks on the machines of docs/types.md, with the types that these have.

python -m tests.type_machines               # the page's tables, in minutes: energy takes the price of each machine
python -m tests.type_machines machines      # one of them
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache

import onnx

from tests import digits
from tests.block_weights import BLOCK
from tests.types import CALIBRATION, Variant, right
from tilewright.codesign.points.priced import price_of
from tilewright.quantization.costs import budget_of
from tilewright.quantization.quantize import quantize

TYPES = (
    ("base16", "int8", "int8"),
    ("w4-only", "int4", "int8"),
    ("base16-w4", "int4", "int8"),
    ("base16-a16", "int8", "int16"),
    ("mixed16", "int8", "int16"),
    ("mixed16", "int4", "int16"),
)
"""Machine, weights and activations: those whose networks it shows."""

NETWORKS = ("digits", "resnet8", "ds-cnn", "lstm-denoiser")


SEQUENCE_MACHINES = (
    ("sequence16", "int8", 0, "int8"),
    ("llm16", "int4", BLOCK, "int8"),
    ("sequence16-a16", "int8", 0, "int16"),
    ("llm16-a16", "int4", BLOCK, "int16"),
)
"""Machine, weights, how many of a channel share a scale, and activations."""

SEQUENCES = ("kwt-1", "stories260k-step")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.type_machines", description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES), metavar="TABLE")
    for table in parser.parse_args().tables:
        for line in TABLES[table]():
            print(line, flush=True)


def network_rows() -> Iterator[str]:
    """Cycles and microjoules of each network, with a machine's own types."""
    for name, weights, activations in TYPES:
        machine = Variant(name).machine
        costs = [budget_of(0, machine, cost).cost for cost in ("cycles", "energy")]
        cells = []
        for network in NETWORKS:
            model = of_types(network, weights, activations)
            cycles, energy = (cost(model) for cost in costs)
            cells.append(f"{cycles.cost:,.0f}{'' if not cycles.host_nodes else ' (host)'}, {energy.cost:,.0f} µJ")
        yield f"| `{name}` | {weights} | {activations} | {' | '.join(cells)} |"


def machine_rows() -> Iterator[str]:
    """Logic and memories of each machine, synthesised and not placed; how many of the held-back images are right."""
    count = len(digits.labels())
    for name, weights, activations in TYPES:
        figures = price_of(Variant(name).machine, with_clock=False).figures
        hits = right(of_types("digits", weights, activations), Variant(name))
        cells = f"{figures.kge:,.1f}", f"{figures.memories_mm2:.1f}", f"{hits} of {count}"
        yield f"| `{name}` | {weights} | {activations} | {' | '.join(cells)} |"


def sequence_rows() -> Iterator[str]:
    """Cycles and microjoules of keyword spotting by a transformer, and of a token of a decoder."""
    from programs.networks.registry import float_network

    for name, weights, block, activations in SEQUENCE_MACHINES:
        machine = Variant(name).machine
        costs = [budget_of(0, machine, cost).cost for cost in ("cycles", "energy")]
        cells = []
        for network in SEQUENCES:
            model = float_network(network)
            model = quantize(model, "random", weights=weights, block=block, activations=activations).model
            cycles, energy = (cost(model) for cost in costs)
            cells.append(f"{cycles.cost:,.0f}{'' if not cycles.host_nodes else ' (host)'}, {energy.cost:,.0f} µJ")
        weights += f" in blocks of {block}" if block else ""
        yield f"| `{name}` | {weights} | {activations} | {' | '.join(cells)} |"


TABLES = {"networks": network_rows, "machines": machine_rows, "sequences": sequence_rows}


@cache
def of_types(network: str, weights: str, activations: str) -> onnx.ModelProto:
    from programs.networks.registry import float_network

    if network == "digits":
        images = {"image": digits.images()[:CALIBRATION]}
        model = onnx.load(digits.FOLDER / "digits.onnx")
        return quantize(model, images, weights=weights, activations=activations).model
    return quantize(float_network(network), "random", weights=weights, activations=activations).model


if __name__ == "__main__":
    main()
