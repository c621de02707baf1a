"""What narrow weights are worth: the networks of docs/types.md on the machines of that page, beside base16 with int8.

python -m tests.types                  # the rows of the page's tables
python -m tests.types autoencoder      # one network
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx

from tests import digits
from tests.schedules.never_slower import model
from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

PAGE = Path(__file__).parents[1] / "docs/types.md"

NETWORKS = ("autoencoder", "digits", "ds-cnn", "resnet8")

ROW = "| {network} | {machine} | {0:,} | {1:,} | {cycles:.2f} | {2:,} | {3:,} | {bytes:.2f} |"

TOP1 = "| {name} | {right} of {count} | {part:.2%} |"

BUDGETS_DB = (0, 12, 14, 16, 20)
"""How much noisier the worst output of the digits network may be than with int8 weights."""

CURVE_DB = 10
"""The same for a curve with activations of 16 bits."""

MIXED = "| {budget} dB | {narrow} | {snr:.1f} | {cycles:,} | {right} of {count} |"

CALIBRATION = 32
"""Images that the digits network is calibrated on."""


def tables() -> list[list[str]]:
    """The page's tables: of each the rows, without the two lines of its head."""
    found: list[list[str]] = []
    before = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            found[-1].append(line)
        before = line
    return [rows[2:] for rows in found]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.types", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    asked = parser.parse_args().networks
    for network in asked:
        for machine in MACHINES:
            print(row(network, machine), flush=True)
    if "digits" in asked:
        print()
        for line in (*top1_rows(), "", *mixed_rows(), "", *pair_rows(), "", *curve_rows()):
            print(line, flush=True)


@dataclass(frozen=True)
class Variant:
    """A shipped machine with settings."""

    name: str
    settings: tuple[str, ...] = ()

    @property
    def machine(self) -> Machine:
        return load_machine(self.name, self.settings)

    def __str__(self) -> str:
        return ", ".join(f"`{each}`" for each in (self.name, *self.settings))


BASE = Variant("base16")

MACHINES = (Variant("w4-only"), Variant("w4-only", ("array.cols=32",)), Variant("base16-w4"))
"""Those of the page's tables."""


def row(network: str, machine: Variant) -> str:
    """Cycles, and bytes of all constants, with int8 weights on base16 and with int4 ones on the machine."""
    (wide_cycles, wide_bytes), (narrow_cycles, narrow_bytes) = (
        taken(model(network), BASE),
        taken(with_narrow_weights(network), machine),
    )
    numbers = wide_cycles, narrow_cycles, wide_bytes, narrow_bytes
    return ROW.format(
        *numbers,
        network=network,
        machine=machine,
        cycles=narrow_cycles / wide_cycles,
        bytes=narrow_bytes / wide_bytes,
    )


def taken(network: onnx.ModelProto, machine: Variant) -> tuple[int, int]:
    """Cycles, and bytes of the region of weights."""
    import tilewright

    program = tilewright.compile(network, machine.machine)
    return int(program.profile()["cycles"]), sum(len(part.weights) for part in program.programs)


@cache
def with_narrow_weights(network: str) -> onnx.ModelProto:
    """A network quantised to int8 activations and int4 weights."""
    from programs.networks.registry import float_network
    from tilewright.quantization.quantize import quantize

    if network == "digits":
        images = {"image": digits.images()[:CALIBRATION]}
        return quantize(onnx.load(digits.FOLDER / "digits.onnx"), images, weights="int4").model
    return quantize(float_network(network), "random", weights="int4").model


def top1_rows() -> Iterator[str]:
    """How many of the digits' held-back images are right: with int8 on base16, with int4 weights on the machines."""
    count, narrow = len(digits.labels()), with_narrow_weights("digits")
    for weights, network, of in (
        ("int8", model("digits"), BASE),
        *(("int4", narrow, machine) for machine in MACHINES),
    ):
        hits = right(network, of)
        name = f"{of}, {weights} weights"
        yield TOP1.format(name=name, right=hits, count=count, part=hits / count)


PAIR = "| {network} | {weights} | {activations} | {cycles:,} | {bytes:,} |"


def pair_rows() -> Iterator[str]:
    """Cycles and bytes of constants of the digits network on mixed16, for each pair of types."""
    from tilewright.quantization.quantize import quantize

    network, images = onnx.load(digits.FOLDER / "digits.onnx"), {"image": digits.images()[:CALIBRATION]}
    for weights, activations in product(("int8", "int4"), ("int8", "int16")):
        made = quantize(network, images, weights=weights, activations=activations).model
        cycles, constants = taken(made, Variant("mixed16"))
        yield PAIR.format(network="digits", weights=weights, activations=activations, cycles=cycles, bytes=constants)


def mixed_rows() -> Iterator[str]:
    """The digits network with types chosen layer by layer for base16-w4, within budgets."""
    from tilewright.quantization.costs import budget_of
    from tilewright.quantization.quantize import quantize

    machine = Variant("base16-w4")
    images, count = {"image": digits.images()[:CALIBRATION]}, len(digits.labels())
    for budget in BUDGETS_DB:
        network = onnx.load(digits.FOLDER / "digits.onnx")
        found = quantize(network, images, weights="int4", mixed=budget_of(budget, machine.machine))
        assert found.mixed is not None
        narrow = ", ".join(f"`{layer.name}`" for layer in found.mixed.weights if layer.type == "int4") or "none"
        cycles, _ = taken(found.model, machine)
        snr, hits = found.mixed.mixed.snr_db, right(found.model, machine)
        yield MIXED.format(budget=budget, narrow=narrow, snr=snr, cycles=cycles, right=hits, count=count)


CURVE = "| {activations} | {snr:.1f} | {cycles:,} | {of_host} |"


def curve_network() -> onnx.ModelProto:
    """Conv → LeakyRelu → Conv on [1, 16, 16, 16], with random weights."""
    b = FloatBuilder()
    x = b.conv("conv1", b.input("x", (1, 16, 16, 16)), 16, 16)
    x = b.node("LeakyRelu", "leaky", x, alpha=0.2)
    return b.build(b.conv("conv2", x, 16, 16))


def curve_rows() -> Iterator[str]:
    """A curve that polynomials do not reach, on mixed16: activations of 16 bits, as is chosen, and of 8 bits."""
    from tilewright.quantization.costs import budget_of
    from tilewright.quantization.quantize import quantize

    inputs = {"x": np.random.default_rng(0).normal(size=(8, 1, 16, 16, 16)).astype(np.float32)}
    budget = budget_of(CURVE_DB, Variant("mixed16").machine)
    found = quantize(curve_network(), inputs, activations="int16", mixed=budget).mixed
    assert found is not None
    eight = ", ".join(f"`{part.name}`" for part in found.results if part.type == "int8")
    points = {"int16": found.wide, f"int8 of {eight}, else int16": found.mixed, "int8": found.narrow}
    for name, point in points.items():
        cycles, host = round(point.taken.cost), point.taken.host_nodes
        yield CURVE.format(activations=name, snr=point.snr_db, cycles=cycles, of_host=host)


def right(network: onnx.ModelProto, machine: Variant) -> int:
    import tilewright

    program = tilewright.compile(network, machine.machine)
    results = [program.run({"image": image[None]}).outputs for image in digits.images()]
    found = np.array([next(iter(outputs.values())).argmax() for outputs in results])
    return int((found == digits.labels()).sum())


if __name__ == "__main__":
    main()
