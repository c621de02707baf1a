"""Which nests are computed inside the tiles of the nest that reads them, so that their results stay in accumulators.

A product whose result is the bare sums, and whose one reader takes each of them once, need not be finished before the
reader begins. For each tile of its reader, its own tile is computed beside it; no other memory ever holds the sums.

Example, a convolution of stride 1 and a reader with windows of 2×2, two pixels apart: for a tile of 4×8 results, 8×16
sums are computed; the next tile reads none of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine, Nest
from tilewright.compiler.nest.space import NO_LOOP, NestSpace
from tilewright.compiler.select.bindings import ConstantMatrix, TensorRead
from tilewright.compiler.select.cover import Cover, Selection


def nests_within(selection: Selection) -> Mapping[int, int]:
    """For each nest that is computed in its reader's tiles, the position of that reader.

    Between the two are only other nests of the same reader.
    """
    outputs = {tensor.name for tensor in selection.program.outputs}
    uses: dict[str, list[int]] = {}
    for position, nest in enumerate(selection.program.nests):
        for access in (nest.result, *nest.reads.values()):
            uses.setdefault(access.tensor, []).append(position)
    found: dict[int, int] = {}
    for position in reversed(range(len(selection.covers))):
        cover = selection.covers[position]
        tensor = cover.nest.result.tensor
        if not is_bare_product(cover) or tensor in outputs or len(uses[tensor]) != 2:
            continue
        reader = uses[tensor][1]
        is_next = reader > position and all(found.get(other) == reader for other in range(position + 1, reader))
        if is_next and takes_each_once(selection.covers[reader], tensor, cover):
            found[position] = reader
    return found


def is_bare_product(cover: Cover) -> bool:
    """Whether a nest's result is what the array sums of constant weights, and nothing follows."""
    (step, *others) = cover.steps
    matrices = [bound for bound in step.inputs.values() if isinstance(bound, ConstantMatrix)]
    is_plain = step.is_dot and step.adding is None and step.continuing is not None
    return is_plain and not others and len(matrices) == 1 and is_whole_result(cover.nest)


def is_whole_result(nest: Nest) -> bool:
    """Whether a result is walked over one by one, from the first element on."""
    return all(not index.constant and [by for _, by in index.terms] in ([], [1]) for index in nest.result.index)


def takes_each_once(reader: Cover, tensor: str, sums: Cover) -> bool:
    """Whether a covered nest reads each sum of a tensor at most once, where the instruction of `sums` leaves it."""
    access = {name: read for name, read in reader.nest.reads.items() if read.tensor == tensor}
    if len(access) != 1 or reader.space.across != NO_LOOP:
        return False
    ((read, taken),) = access.items()
    product, memory = sums.steps[0].format, sums.result_memory
    memories = {
        operand.memory
        for step in reader.steps
        for operand in step.format.sources
        if step.inputs[operand.name] == TensorRead(read) and not step.is_dot
    }
    has_one_unit = reader.dot is None or reader.dot.format.destination.block == product.destination.block
    return memories == {memory} and has_one_unit and reads_each_once(taken, reader.space)


def reads_each_once(access: Access, space: NestSpace) -> bool:
    """Whether an access takes the lanes of the result, and windows of pixels that do not overlap."""
    lane = ((space.lane, 1),) if space.lane != NO_LOOP else ()
    if access.outside is not None or len(access.index) != COLUMN + 1:
        return False
    if access.index[CHANNEL] != Affine(lane):
        return False
    loops = zip((BATCH, ROW, COLUMN), space.points, strict=True)
    return all(_is_apart(access.index[dimension], loop, space) for dimension, loop in loops)


def _is_apart(index: Affine, point: str, space: NestSpace) -> bool:
    """Whether the windows along a dimension follow each other without a common element."""
    steps = dict(index.terms)
    step = steps.pop(point, 0)
    if index.constant or any(by < 1 or loop not in space.reduce for loop, by in steps.items()):
        return False
    window = 1 + sum(by * (space.trips[loop] - 1) for loop, by in steps.items())
    return step >= window or space.trips[point] == 1
