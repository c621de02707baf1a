"""What networks take for each image, in batches of one image and of more.

python -m tests.schedules.batches                         # the table of docs/schedules.md
python -m tests.schedules.batches autoencoder base16
python -m tests.schedules.batches --values resnet8 dw16   # hold each image's bytes against those that it gives alone
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

from tests.schedules.never_slower import model
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine
from tilewright.program import Program

NETWORKS = ("autoencoder", "resnet8", "ds-cnn", "mobilenetv1-0.25")

ENTRIES = tuple(product(NETWORKS, ("base16", "dw16")))

BATCHES = (1, 2, 4, 8)


def compiled(name: str, isa: str, batch: int | None, effort: int = 1) -> Program:
    """A network for a batch; for one run as the file says it where that is None."""
    options = Options(batch=batch, effort=effort)
    return Program(compile_partitioned(model(name), load_machine(isa), options), is_checked=True)


def cycles_per_image(program: Program) -> float:
    """The cycles of a run, divided by its images."""
    return sum(map(exact_cycles, program.programs)) / (program.images or 1)


def differing_images(name: str, isa: str, batch: int, effort: int = 1) -> list[int]:
    """Of a batch of random images, those whose bytes are not what they give alone."""
    single, many = compiled(name, isa, None, effort), compiled(name, isa, batch, effort)
    rng = np.random.default_rng(0)
    given = {of.name: rng.normal(scale=2, size=(batch, *of.shape[1:])).astype(of.dtype) for of in single.inputs}
    together = many.run(given).outputs
    differing = []
    for image in range(batch):
        alone = single.run({key: array[image : image + 1] for key, array in given.items()}).outputs
        if any(together[key][image : image + 1].tobytes() != array.tobytes() for key, array in alone.items()):
            differing.append(image)
    return differing


def markdown(entries: tuple[tuple[str, str], ...]) -> str:
    """The table of docs/schedules.md; behind the cycles, the images of a run where these are fewer than the batch."""
    rows = [
        "| network | machine | batch 1 | 2 | 4 | 8 | |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, isa in entries:
        programs = [compiled(name, isa, batch) for batch in BATCHES]
        taken = [cycles_per_image(program) for program in programs]
        cells = [
            f"{cycles:,.0f}" + (f" ({program.images})" if program.images != batch else "")
            for cycles, program, batch in zip(taken, programs, BATCHES, strict=True)
        ]
        rows.append(f"| {name} | `{isa}` | {' | '.join(cells)} | {100 * (min(taken) / taken[0] - 1):+.1f} % |")
    return "\n".join(rows)


def main() -> None:
    """Print a row for each network and machine, or the images that differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.batches", description="Cycles for each image.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: those of docs/schedules.md")
    parser.add_argument("--values", action="store_true", help="compare bytes, and print images that differ")
    arguments = parser.parse_args()
    if len(arguments.entry) not in (0, 2):
        parser.error("expected a network and a machine")
    entries = ((arguments.entry[0], arguments.entry[1]),) if arguments.entry else ENTRIES
    if not arguments.values:
        print(markdown(entries))
        return
    for name, isa in entries:
        print(name, isa, differing_images(name, isa, max(BATCHES)) or "all images are the same")


if __name__ == "__main__":
    main()
