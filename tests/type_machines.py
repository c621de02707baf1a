"""What a bit buys: cycles, energy, area, clock and accuracy of the machines of docs/types.md, with the types they have.

python -m tests.type_machines                              # the page's tables, in an hour: clocks take minutes once
python -m tests.type_machines machines                     # one of them
python -m tests.type_machines sequences --isa llm16        # the rows of one machine
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

import tilewright
from programs.decoder.evaluate import bits, held_back, on_machine
from programs.decoder.model import calibration, float_prefill, load_weights
from programs.decoder.network import TABLE
from programs.networks.registry import float_network
from tests import digits
from tests.block_weights import BLOCK, nats
from tests.types import CALIBRATION, Variant, right
from tilewright.codesign.points.evaluate import MeasuredNetwork, figures, measure
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import price_of
from tilewright.isa.files.loader import load_machine
from tilewright.quantization.quantize import quantize


@dataclass(frozen=True, slots=True)
class Typed:
    """A machine with the types of weights and activations that its networks have here."""

    machine: str
    weights: str
    activations: str
    block: int = 0  # so many weights of a matrix share a scale; 0: all of a channel

    @property
    def cells(self) -> str:
        of_block = f" in blocks of {self.block}" if self.block else ""
        return f"| `{self.machine}` | {self.weights}{of_block} | {self.activations} |"

    def quantized(self, network: onnx.ModelProto, samples: Any = "random") -> onnx.ModelProto:
        types = {"weights": self.weights, "activations": self.activations, "block": self.block}
        return quantize(network, samples, **types).model


SEQUENCE_TYPES = (
    Typed("sequence16", "int8", "int8"),
    Typed("llm16", "int4", "int8", BLOCK),
    Typed("sequence16-a16", "int8", "int16"),
    Typed("llm16-a16", "int4", "int16", BLOCK),
)
"""Those of the machines with softmax and normalisation."""

TYPES = (
    Typed("base16", "int8", "int8"),
    Typed("w4-only", "int4", "int8"),
    Typed("base16-w4", "int4", "int8"),
    Typed("base16-a16", "int8", "int16"),
    Typed("mixed16", "int8", "int16"),
    Typed("mixed16", "int4", "int16"),
    Typed("mx16", "e4m3", "e4m3"),
    Typed("mx16", "e2m1", "e4m3"),
    *SEQUENCE_TYPES,
)

NETWORKS = ("digits", "resnet8", "ds-cnn", "lstm-denoiser")

SEQUENCES = ("kwt-1", "stories260k-step")

LARGE = ("stories15m-step",)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.type_machines", description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES), metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--isa", help="the rows of this machine alone")
    arguments = parser.parse_args()
    for table in arguments.tables:
        for line in TABLES[table](arguments.isa):
            print(line, flush=True)


def network_rows(isa: str | None = None) -> Iterator[str]:
    """Cycles and microjoules of each network, with a machine's own types."""
    yield from _rows_of(TYPES, NETWORKS, isa)


def machine_rows(isa: str | None = None) -> Iterator[str]:
    """Logic, memories and clock of each machine, synthesised and not placed; the held-back images that are right."""
    count = len(digits.labels())
    for typed in _of(TYPES, isa):
        figures = price_of(load_machine(typed.machine)).figures
        hits = right(of_types("digits", typed), Variant(typed.machine))
        cells = f"{figures.kge:,.1f} | {figures.memories_mm2:.1f} | {figures.clock_mhz:.0f} | {hits} of {count}"
        yield f"{typed.cells} {cells} |"


def sequence_rows(isa: str | None = None) -> Iterator[str]:
    """Cycles and microjoules of keyword spotting by a transformer, and of a token of a small decoder."""
    yield from _rows_of(SEQUENCE_TYPES, SEQUENCES, isa)


def large_rows(isa: str | None = None) -> Iterator[str]:
    """The same of a token of a decoder of 15 million weights."""
    yield from _rows_of(SEQUENCE_TYPES, LARGE, isa)


def decoder_rows(isa: str | None = None) -> Iterator[str]:
    """Cycles and microjoules of the trained decoder for a whole text, and what a character costs it, in nats."""
    samples = {"embeddings": load_weights()[TABLE][calibration()]}
    for typed in _of(SEQUENCE_TYPES, isa):
        model = typed.quantized(float_prefill(), samples)
        found = nats(bits(held_back(), on_machine(tilewright.compile(model, typed.machine))))
        yield f"{typed.cells} {costs(typed, [model])[0]} | {found:.3f} |"


TABLES: dict[str, Callable[[str | None], Iterator[str]]] = {
    "networks": network_rows,
    "machines": machine_rows,
    "sequences": sequence_rows,
    "large": large_rows,
    "decoder": decoder_rows,
}


def _of(types: Sequence[Typed], isa: str | None) -> Iterator[Typed]:
    return (typed for typed in types if isa in (None, typed.machine))


def _rows_of(types: Sequence[Typed], networks: Sequence[str], isa: str | None) -> Iterator[str]:
    for typed in _of(types, isa):
        cells = costs(typed, [of_types(network, typed) for network in networks])
        yield f"{typed.cells} {' | '.join(cells)} |"


def costs(typed: Typed, models: Sequence[onnx.ModelProto]) -> list[str]:
    """Cycles and microjoules of each model on a machine; (host) where a node is the host's, which takes nothing."""
    machine = load_machine(typed.machine)
    price = price_of(machine, with_clock=False).price
    cells = []
    for model in models:
        found = measure(Network("network", model.SerializeToString(deterministic=True), {}), machine)
        assert isinstance(found, MeasuredNetwork), found
        cycles, energy = sum(each.cycles for each in found.profiles), figures(found, price)
        assert energy.on_chip_mj is not None and energy.dram_mj is not None
        microjoules = 1000 * (energy.on_chip_mj + energy.dram_mj)
        cells.append(f"{cycles:,}{' (host)' if found.host_nodes else ''}, {microjoules:,.0f} µJ")
    return cells


@cache
def of_types(network: str, typed: Typed) -> onnx.ModelProto:
    if network == "digits":
        images = {"image": digits.images()[:CALIBRATION]}
        return typed.quantized(onnx.load(digits.FOLDER / "digits.onnx"), images)
    return typed.quantized(float_network(network))


if __name__ == "__main__":
    main()
