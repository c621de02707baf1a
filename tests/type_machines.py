"""What a bit buys: cycles and energy of networks on the machines of docs/types.md, with the types that these have.

`python -m tests.type_machines` prints the page's table, in minutes: energy takes the price of each machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import onnx

from tests import digits
from tests.types import CALIBRATION, Variant
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


def main() -> None:
    for line in network_rows():
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
