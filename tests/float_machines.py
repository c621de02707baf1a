"""What floats of few bits are worth: the digits network on the machines that take them, with the images that are right.

`python -m tests.float_machines` prints the rows of the table in docs/types.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from tests import digits
from tests.types import CALIBRATION, Variant, right, taken
from tilewright.isa.program.small_floats import BLOCK
from tilewright.quantization.quantize import quantize

PAIRS = (
    ("base16", "int8", "int8", 0),
    ("base16", "e2m1", "int8", 0),
    ("mx16", "e4m3", "e4m3", 0),
    ("mx16", "e4m3", "e4m3", BLOCK),
    ("mx16", "e2m1", "e4m3", 0),
    ("mx16", "e2m1", "e4m3", BLOCK),
)
"""Machine, weights, activations, and how many weights of a matrix share a scale; 0: all of a channel."""

ROW = "| `{machine}` | {weights} | {activations} | {cycles:,} | {bytes:,} | {right} of {count} |"


def main() -> None:
    for line in rows():
        print(line, flush=True)


def rows() -> Iterator[str]:
    """Cycles, bytes of constants and right answers of each pair of types."""
    network, count = onnx.load(digits.FOLDER / "digits.onnx"), len(digits.labels())
    images = {"image": digits.images()[:CALIBRATION]}
    for name, weights, activations, block in PAIRS:
        made = quantize(network, images, weights=weights, activations=activations, block=block)
        model, machine = made.model, Variant(name)
        cycles, constants = taken(model, machine)
        yield ROW.format(
            machine=name,
            weights=f"{weights}, blocks of {block}" if block else weights,
            activations=activations,
            cycles=cycles,
            bytes=constants,
            right=right(model, machine),
            count=count,
        )


if __name__ == "__main__":
    main()
