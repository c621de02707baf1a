"""A small array at work: an animated picture of one mma instruction, cycle by cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.host.tensors import dram_image
from tilewright.html.svg import COLOURS, box, frames, picture, text
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.engine import Template
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.pictures.flow import ArrayFlow, DrawnVector, Indices, array_flow
from tilewright.program import Program
from tilewright.simulator.values import simulate_values

MACHINE = """\
# small.yaml
extends: tiny8
about: an array that fits a picture
array: {rows: 4, cols: 4}
lanes: 4
"""

PROGRAM = """\
# small.s: a 2×2 convolution of an image of 3×3 pixels; 4 channels in, 4 out
.machine small
.inputs 100
.outputs 64
.input  image   shape(3, 3, 4)    stored(1, 4, 3, 3) axes(2, 0, 1)
.input  weights shape(2, 2, 4, 4) stored(1, 4, 4, 4) axes(3, 0, 1, 2) offset=36
.output sums    shape(2, 2, 4)    stored(1, 4, 2, 2) axes(2, 0, 1) dtype=int32

conv: macs=256
  load_act  loops(k=9) d=inputs[0; k=4] y=act[0; k=1]
  load_wgt  loops(k=16) d=inputs[36; k=4] y=wgt[0; k=1]
  mma       loops(r=2, s=2, y=2, x=2) a=act[0; r=3, s=1, y=3, x=1] w=wgt[0; r=8, s=4] c=acc[0; y=2, x=1] wait(load=2)
  store_acc loops(k=4) y=acc[0; k=1] d=outputs[0; k=16] wait(mma=1)
"""

SECONDS = 0.9
"""For which each cycle is shown."""

CELL, LEFT, TOP = 62, 330, 96
IMAGE_LEFT, SUMS_LEFT = 24, 690
WIDTH, HEIGHT = 960, 470

Words = NDArray[np.int64]


def small_program() -> Program:
    """The program of the picture, on its machine."""
    return Program(assemble(PROGRAM, load_machine_text(MACHINE, "small"), "small.s"))


def small_inputs() -> dict[str, NDArray[Any]]:
    """An image and weights of small numbers, which a reader can multiply in the head."""
    image = np.array(
        [[[(3 * y + x + 2 * c) % 5 for c in range(4)] for x in range(3)] for y in range(3)], DEFAULT_TYPE.dtype
    )
    weights = np.array([(7 * n * n + 3 * n) % 5 - 2 for n in range(64)], DEFAULT_TYPE.dtype).reshape(2, 2, 4, 4)
    return {"image": image, "weights": weights}


def small_flow() -> tuple[ArrayFlow, Mapping[str, Words]]:
    """What the array does in each cycle, and what the memories hold after the run."""
    program = small_program()
    binary = program.binary
    state = simulate_values(binary, dram_image(binary, small_inputs()), place_regions(binary.limits))
    memories = {
        name: state.memories[name].view(dtype).astype(np.int64)
        for name, dtype in ((m.name, m.element.type.dtype) for m in binary.machine.memories.values() if m.element.type)
    }
    (run,) = program.runs()
    index = next(at for at, one in enumerate(binary.instructions) if one.engine.template is Template.SYSTOLIC)
    return array_flow(run, index, memories), memories


def array_picture() -> str:
    """The animation as SVG."""
    flow, memories = small_flow()
    first = flow.tiles[0].first_read
    cycles = range(first, flow.arrives(flow.vectors[-1]) + 1)
    shown = ["\n".join(_frame(flow, memories["act"][:9], cycle, first)) for cycle in cycles]
    still = [
        text(IMAGE_LEFT, 76, "image in act", "title"),
        text(LEFT, 30, "array: weights stay, vectors go right, sums go down", "title"),
        text(SUMS_LEFT, 76, "sums in acc", "title"),
        text(IMAGE_LEFT, 452, "One colour is one pixel of the result. Large: what is multiplied. "
             "Small: the weight, and beside it the next tile's.", "quiet small"),
    ]  # fmt: skip
    return picture(WIDTH, HEIGHT, "A 4×4 array computes a 2×2 convolution", [*still, *frames(shown, SECONDS)])


def _frame(flow: ArrayFlow, image: Words, cycle: int, first: int) -> Iterator[str]:
    issuing = next((vector for vector in flow.vectors if vector.issued == cycle), None)
    yield text(IMAGE_LEFT, 30, f"cycle {cycle - first}", "title")
    yield text(IMAGE_LEFT, 48, _caption(flow, issuing, cycle), "quiet")
    yield from _image(image, issuing)
    for row in range(flow.rows):
        yield from _row_on_its_way(flow, row, cycle)
        for column in range(flow.cols):
            yield from _element(flow, row, column, cycle)
    yield from _leaving(flow, cycle)
    yield from _sums(flow, cycle)


def _caption(flow: ArrayFlow, issuing: DrawnVector | None, cycle: int) -> str:
    if issuing is not None:
        return f"reads the pixel for {_named(issuing.indices)}"
    return "reads weights" if cycle < flow.vectors[0].issued else "the last sums come out"


def _named(indices: Indices) -> str:
    """`r=0 s=1 y=1 x=0`, without the loops that are one iteration."""
    return " ".join(f"{name}={indices[name]}" for name in ("r", "s", "y", "x"))


def _colour(vector: DrawnVector) -> str:
    return COLOURS[vector.accumulator % len(COLOURS)]


def _image(image: Words, issuing: DrawnVector | None) -> Iterator[str]:
    """The pixels with their four channels; the one that is read has the colour of the sum that it goes to."""
    size = 74
    read = None if issuing is None else 3 * (issuing.indices["r"] + issuing.indices["y"]) + issuing.indices["s"]
    for word, elements in enumerate(image.tolist()):
        x, y = IMAGE_LEFT + size * (word % 3), TOP - 8 + size * (word // 3)
        is_read = issuing is not None and read is not None and word == read + issuing.indices["x"]
        yield box(x, y, size - 6, size - 6, fill=_colour(issuing) if is_read and issuing is not None else "")
        kind = "middle on" if is_read else "middle"
        yield text(x + 34, y + 30, f"{elements[0]}  {elements[1]}", kind)
        yield text(x + 34, y + 52, f"{elements[2]}  {elements[3]}", kind)


def _row_on_its_way(flow: ArrayFlow, row: int, cycle: int) -> Iterator[str]:
    """The elements that wait to enter a row: each row gets its own a cycle after the row above."""
    for vector in flow.vectors:
        ahead = flow.multiplies(vector, row, 0) - cycle
        if vector.issued < cycle and ahead > 0:
            x = LEFT - 22 * ahead
            yield box(x, TOP + CELL * row + 18, 18, 22, fill=_colour(vector))
            yield text(x + 9, TOP + CELL * row + 34, vector.elements[row], "middle on")


def _element(flow: ArrayFlow, row: int, column: int, cycle: int) -> Iterator[str]:
    x, y = LEFT + CELL * column, TOP + CELL * row
    now = next((one for one in flow.vectors if flow.multiplies(one, row, column) == cycle), None)
    yield box(x, y, CELL - 4, CELL - 4, fill="" if now is None else _colour(now))
    used = [one.tile for one in flow.vectors if flow.multiplies(one, row, column) <= cycle]
    held = [at for at, tile in enumerate(flow.tiles) if flow.holds(tile, row, column) <= cycle]
    kind = "" if now is None else " on"
    if used:
        weight = flow.tiles[used[-1]].weights[row, column]
        words = (
            weight
            if now is None
            else f"{now.elements[row]}·{weight}"
            if weight >= 0
            else f"{now.elements[row]}·({weight})"
        )
        yield text(x + 29, y + 40, words, f"middle{kind}" if now is not None else "middle quiet small")
    if held and (not used or held[-1] > used[-1]):
        yield text(x + CELL - 9, y + 14, flow.tiles[held[-1]].weights[row, column], f"end small{kind or ' quiet'}")


def _leaving(flow: ArrayFlow, cycle: int) -> Iterator[str]:
    """Below each column, the sum over its rows that has just come out."""
    y = TOP + CELL * flow.rows + 4
    for vector in flow.vectors:
        for column in range(flow.cols):
            if flow.leaves(vector, column) == cycle:
                x = LEFT + CELL * column
                yield box(x + 8, y, CELL - 20, 24, fill=_colour(vector))
                yield text(x + 29, y + 17, _products(flow, vector)[column], "middle on")


def _sums(flow: ArrayFlow, cycle: int) -> Iterator[str]:
    """The accumulators: a row of `cols` sums for each pixel of the result."""
    totals: dict[int, list[int]] = {}
    fresh: set[int] = set()
    for vector in flow.vectors:
        row = totals.setdefault(vector.accumulator, [0] * flow.cols)
        if flow.arrives(vector) <= cycle:
            totals[vector.accumulator] = [a + b for a, b in zip(row, _products(flow, vector), strict=True)]
            fresh = fresh | {vector.accumulator} if flow.arrives(vector) == cycle else fresh
    for word, values in sorted(totals.items()):
        y = TOP - 8 + 40 * word
        colour = COLOURS[word % len(COLOURS)]
        yield box(SUMS_LEFT, y, 8, 32, fill=colour)
        yield text(SUMS_LEFT + 16, y + 21, f"y={word // 2} x={word % 2}", "quiet small")
        for column, value in enumerate(values):
            x = SUMS_LEFT + 64 + 46 * column
            yield box(x, y, 42, 32, fill=colour if word in fresh else "")
            yield text(x + 21, y + 21, value, "middle on" if word in fresh else "middle")


def _products(flow: ArrayFlow, vector: DrawnVector) -> Sequence[int]:
    """What the array adds up of one vector, by column."""
    sums: list[int] = (np.array(vector.elements) @ flow.tiles[vector.tile].weights).tolist()
    return sums
