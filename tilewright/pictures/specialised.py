"""From a layer to hardware: what an array does with channels of their own, the statement for it, and its lane."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.html.svg import COLOURS, arrow, box, picture, text
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.datapath_schedule import Unit, bind, schedule

OVERLAY = """\
extends: base16
about: "base16 with channel_products_by_3, found for ds-cnn, mobilenetv1-0.25, mobilenetv2"
engines:
  vec: {reads: [act, acc, par, lut, wgt]}
instructions:
  channel_products_by_3:
    about: "Sums of products, each channel with weights of its own, 3 words of a window's row in a cycle."
    engine: vec
    loops: {c: 8, y: 10, x: 10, r: 3, s: 2}
    reduce: [r, s]
    from: {a: "3 * act", w: "3 * wgt[c, r, s]"}
    to: {y: "acc[c, y, x]"}
    do: y = sum(words_sum(a * w))
"""
"""As `tilewright specialise` writes it; docs/specialise.md shows the same."""

NAME = "channel_products_by_3"

WIDTH, TOP, CELL = 960, 92, 13
LANE_LEFT, STAGE_HEIGHT, UNIT_WIDTH, UNIT_PITCH = 640, 42, 80, 86
USED, UNUSED, NEW, SHARED = COLOURS[3], "#dde2ea", COLOURS[3], COLOURS[0]


def specialised_picture(machine: Machine) -> str:
    """The picture of a machine that has the instruction, as SVG."""
    format = machine.format(NAME)
    units = _units(machine, format)
    stages = max(unit.operations[0].stage for unit, _ in units) + 1
    height = TOP + max(machine.array.rows * CELL + 74, stages * STAGE_HEIGHT + 60)
    title = f"From a depthwise layer to the hardware of {NAME}"
    return picture(WIDTH, height, title, [*_array(machine), *_statement(machine, format), *_lane(machine, units)])


def _array(machine: Machine) -> Iterator[str]:
    """A tile of weights on the array: those that are not zero stand on its diagonal."""
    rows, cols = machine.array.rows, machine.array.cols
    yield text(24, 32, "1. On the array", "title")
    yield text(24, 52, "a tap of a window: a weight for each channel", "small quiet")
    for row in range(rows):
        for col in range(cols):
            yield box(24 + CELL * col, TOP + CELL * row, CELL - 1, CELL - 1, fill=USED if row == col else UNUSED)
    zeros = rows * cols - min(rows, cols)
    yield text(24, TOP + CELL * rows + 22, f"{zeros} of {rows * cols} products are with zeros", "small")
    yield text(24, TOP + CELL * rows + 40, "a tap of a result takes a cycle", "small quiet")


def _statement(machine: Machine, format: InstructionFormat) -> Iterator[str]:
    """The nest without the matrix of zeros, as an instruction."""
    yield text(290, 32, "2. The nest, as a statement", "title")
    yield text(290, 52, "the matrix is gone; a row of the window is a block", "small quiet")
    loops = [loop.name for loop in format.loops]
    kept = [name for name in loops if name not in format.reduce_loops]
    lines = [
        f"for every {', '.join(kept)}:",
        f"    over {', '.join(format.reduce_loops)}:",
        *(f"        {each.name}: {each.block} words of {each.memory}" for each in format.sources),
        f"    y = {format.statement.expr}",
        f"    y to {format.destination.memory}",
    ]
    yield box(290, TOP, 316, 24 * len(lines) + 20)
    for number, line in enumerate(lines):
        indent = (len(line) - len(line.lstrip())) * 4
        yield text(306 + indent, TOP + 28 + 24 * number, line.strip())
    yield arrow([(24 + CELL * (machine.array.cols + 1), TOP + 60), (286, TOP + 60)])
    yield arrow([(608, TOP + 60), (LANE_LEFT - 8, TOP + 60)])
    yield text(290, TOP + 24 * len(lines) + 44, f"{format.mnemonic}, written as YAML", "small quiet")


def _units(machine: Machine, format: InstructionFormat) -> list[tuple[Unit, bool]]:
    """The operators that the instruction takes in a lane, and whether other instructions use them, too."""
    formats = machine.formats_of(format.engine)
    own = formats.index(format)
    return [
        (unit, any(each.format != own for each in unit.operations))
        for unit in bind(schedule(formats))
        if any(each.format == own for each in unit.operations)
    ]


def _lane(machine: Machine, units: list[tuple[Unit, bool]]) -> Iterator[str]:
    """The operators by the stage at which they begin."""
    yield text(LANE_LEFT, 32, f"3. In each of {machine.lanes} lanes", "title")
    yield text(LANE_LEFT, 52, "a stage a row; red is new, blue is there already", "small quiet")
    by_stage: dict[int, list[tuple[Unit, bool]]] = {}
    for unit, is_shared in units:
        by_stage.setdefault(unit.operations[0].stage, []).append((unit, is_shared))
    for stage, of in sorted(by_stage.items()):
        y = TOP + STAGE_HEIGHT * (stage - min(by_stage))
        yield text(LANE_LEFT, y + 20, f"stage {stage}", "small quiet")
        for number, (unit, is_shared) in enumerate(of):
            x = LANE_LEFT + 56 + UNIT_PITCH * number
            name = unit.op.value if unit.op.is_infix else unit.op.name.lower()
            yield box(x, y, UNIT_WIDTH, STAGE_HEIGHT - 12, fill=SHARED if is_shared else NEW)
            yield text(x + UNIT_WIDTH / 2, y + 20, name, "middle on")
