"""What narrow weights are worth: the networks of docs/types.md on the machine of that page, beside base16 with int8.

python -m tests.types                  # the rows of the page's tables
python -m tests.types autoencoder      # one network
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from tests import digits
from tests.schedules.never_slower import model

PAGE = Path(__file__).parents[1] / "docs/types.md"

NETWORKS = ("autoencoder", "digits", "ds-cnn", "resnet8")

ROW = "| {network} | `{machine}` | {0:,} | {1:,} | {cycles:.2f} | {2:,} | {3:,} | {bytes:.2f} |"

TOP1 = "| {name} | {right} of {count} | {part:.2%} |"

CALIBRATION = 32
"""Images that the digits network is calibrated on."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.types", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    asked = parser.parse_args().networks
    with tempfile.TemporaryDirectory() as folder:
        of_page = [str(machine) for machine in machines(Path(folder))]
        for network in asked:
            for machine in of_page:
                print(row(network, machine), flush=True)
        if "digits" in asked:
            print()
            for line in top1_rows(of_page):
                print(line, flush=True)


def machines(folder: Path) -> Iterator[Path]:
    """The machine files that the page shows, written into a folder."""
    for block in re.findall(r"```yaml\n(# (\S+\.yaml)\n.*?)```", PAGE.read_text(), re.DOTALL):
        path = folder / block[1]
        path.write_text(block[0])
        yield path


def row(network: str, machine: str) -> str:
    """Cycles, and bytes of all constants, with int8 weights on base16 and with int4 ones on the machine."""
    (wide_cycles, wide_bytes), (narrow_cycles, narrow_bytes) = (
        taken(model(network), "base16"),
        taken(with_narrow_weights(network), machine),
    )
    numbers = wide_cycles, narrow_cycles, wide_bytes, narrow_bytes
    return ROW.format(
        *numbers,
        network=network,
        machine=Path(machine).stem,
        cycles=narrow_cycles / wide_cycles,
        bytes=narrow_bytes / wide_bytes,
    )


def taken(network: onnx.ModelProto, machine: str) -> tuple[int, int]:
    """Cycles, and bytes of the region of weights."""
    import tilewright

    program = tilewright.compile(network, machine)
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


def top1_rows(of_page: Sequence[str]) -> Iterator[str]:
    """How many of the digits' held-back images are right: with int8 on base16, with int4 weights on the machines."""
    count, narrow = len(digits.labels()), with_narrow_weights("digits")
    for weights, network, of in (
        ("int8", model("digits"), "base16"),
        *(("int4", narrow, machine) for machine in of_page),
    ):
        hits = right(network, of)
        name = f"`{Path(of).stem}`, {weights} weights"
        yield TOP1.format(name=name, right=hits, count=count, part=hits / count)


def right(network: onnx.ModelProto, machine: str) -> int:
    import tilewright

    program = tilewright.compile(network, machine)
    results = [program.run({"image": image[None]}).outputs for image in digits.images()]
    found = np.array([next(iter(outputs.values())).argmax() for outputs in results])
    return int((found == digits.labels()).sum())


if __name__ == "__main__":
    main()
