"""Rules of nest programs about single elements: none is read that is not there or not written, none written twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.buffer_text import COMPUTE
from tilewright.compiler.nest.interpreter import gather
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram, index_range
from tilewright.compiler.nest.space import products_of
from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op

Mask = NDArray[np.bool_]


def _shape(program: NestProgram, tensor: str) -> tuple[int, ...]:
    return program.constants[tensor].shape if tensor in program.constants else program.buffers[tensor].shape


def nest_fault(number: int, nest: Nest, fact: str, expected: str = "") -> RuleViolation:
    """A fault of the nest of a number."""
    return RuleViolation((COMPUTE, number), f"nest {nest.name!r}", fact, expected)


def leaving(nest: Nest, access: Access, shape: Sequence[int]) -> tuple[int, range] | None:
    """The first dimension in which an access leaves a tensor of a shape, and its indices there."""
    for dimension in range(len(access.index)):
        indices = index_range(nest, access, dimension)
        if indices.start < 0 or indices.stop > shape[dimension]:
            return dimension, indices
    return None


def _reads(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        for name, access in nest.reads.items():
            shape = _shape(program, access.tensor)
            left = leaving(nest, access, shape)
            if left is None or access.outside is not None:
                continue
            dimension, indices = left
            fact = f"{name} reads {access.tensor} along {dimension} from {indices.start} to {indices.stop - 1}"
            yield nest_fault(number, nest, fact, f"indices below {shape[dimension]}, or what is `outside`")


def _outsides(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        for name, access in nest.reads.items():
            types = {**program.constant_types, **{each.name: each.type for each in program.buffers.values()}}
            limits = types[access.tensor].values
            if access.outside is not None and not limits.low <= access.outside <= limits.high:
                yield nest_fault(number, nest, f"{name} is {access.outside} outside of {access.tensor}", f"{limits}")


def _taps(program: NestProgram) -> Iterator[RuleViolation]:
    """What multiplies in a sum has a weight for each tap: only channels have none outside of a group or a diagonal."""
    for number, nest in enumerate(program.nests):
        for name, access in nest.reads.items():
            values = program.constants.get(access.tensor)
            if values is None or not values.ndim == len(access.index) == 4:
                continue
            for dimension in (ROW, COLUMN):
                indices = index_range(nest, access, dimension)
                if indices.start < 0 or indices.stop > values.shape[dimension]:
                    fact = f"{name} reads {access.tensor} along {dimension} from {indices.start} to {indices.stop - 1}"
                    yield nest_fault(
                        number, nest, fact, f"indices below {values.shape[dimension]}, also with `outside`"
                    )


def _results(program: NestProgram) -> Iterator[RuleViolation]:
    inputs = {tensor.name for tensor in program.inputs}
    for number, nest in enumerate(program.nests):
        result, shape = nest.result, program.buffers[nest.result.tensor].shape
        left = leaving(nest, result, shape)
        if result.tensor in inputs:
            yield nest_fault(number, nest, f"it writes the input {result.tensor}", "a buffer of its own")
        elif result.outside is not None:
            yield nest_fault(number, nest, f"its result is {result.outside} outside", "a result inside of its buffer")
        elif left is not None:
            fact = f"it writes {result.tensor} along {left[0]} from {left[1].start} to {left[1].stop - 1}"
            yield nest_fault(number, nest, fact, f"indices below {shape[left[0]]}")
        else:
            yield from _walk_faults(number, nest, shape)


def _walk_faults(number: int, nest: Nest, shape: Sequence[int]) -> Iterator[RuleViolation]:
    """Each loop of a nest must move its result, once, and no two iterations to one element."""
    trips = {loop.name: loop.trip for loop in nest.loops}
    moving = [loop for index in nest.result.index for loop, _ in index.terms]
    for loop in nest.loops:
        times = moving.count(loop.name)
        if loop.is_reduce and times:
            yield nest_fault(
                number, nest, f"its result moves with the reduce loop {loop.name}", "a value for each element"
            )
        elif not loop.is_reduce and times != 1 and (times or loop.trip > 1):
            yield nest_fault(number, nest, f"loop {loop.name} moves {times} dimensions of the result", "one")
    for index, size in zip(nest.result.index, shape, strict=True):
        iterations = prod(trips[loop] for loop, _ in index.terms)
        if iterations > size or len(indices_of(index, trips)) < iterations:
            yield nest_fault(number, nest, "two of its iterations write one element", "each element once")


def indices_of(index: Affine, trips: dict[str, int]) -> NDArray[Any]:
    """The indices of one dimension, each once, in order."""
    found = np.array([index.constant])
    for loop, by in index.terms:
        found = np.unique(found[:, None] + by * np.arange(trips[loop]))
    return found


class _WrittenElements:
    """Which elements of each buffer have their values so far."""

    def __init__(self, program: NestProgram) -> None:
        self._masks: dict[str, Mask] = {}
        self._left = {name: prod(buffer.shape) for name, buffer in program.buffers.items()}
        for tensor in program.inputs:
            self._left[tensor.name] = 0
        for buffer in program.buffers.values():
            self._masks[buffer.name] = np.zeros(buffer.shape, np.bool_)
            for part in buffer.parts:
                sizes = program.buffers[part.tensor].shape
                self.write(buffer.name, tuple(range(a, a + size) for a, size in zip(part.first, sizes, strict=True)))

    def write(self, buffer: str, indices: Sequence[Sequence[int] | NDArray[Any]]) -> bool:
        """Note elements as written; whether none of them was."""
        at = np.ix_(*(np.asarray(each) for each in indices))
        mask = self._masks[buffer]
        is_first = not mask[at].any()
        mask[at] = True
        self._left[buffer] = int(mask.size - np.count_nonzero(mask))
        return is_first

    def unwritten_channels(self, buffer: str, region: tuple[slice, ...]) -> NDArray[Any]:
        """The channels of which some elements of a region are not written."""
        n, _, y, x = region
        return np.flatnonzero(~self._masks[buffer][n, :, y, x].all(axis=(0, 2, 3)))

    def has(self, buffer: str, region: tuple[slice, ...] = ()) -> bool:
        """Whether a region of a buffer is written; all of it, if none is said."""
        return self._left[buffer] == 0 or bool(self._masks[buffer][region].all())


def _order(program: NestProgram) -> Iterator[RuleViolation]:
    written = _WrittenElements(program)
    for number, nest in enumerate(program.nests):
        copied: list[int] = []
        for name, access in nest.reads.items():
            if access.tensor in program.buffers:
                region = _region(nest, access, program.buffers[access.tensor].shape)
                if written.has(access.tensor, region) or _is_gap(nest, name, written, region, program):
                    continue
                copied = _copied_gaps(nest, name, written, region)
                if not copied:
                    fact = f"{name} reads elements of {access.tensor} that no nest before it writes"
                    yield nest_fault(number, nest, fact, "a writer before")
        trips = {loop.name: loop.trip for loop in nest.loops}
        indices = [indices_of(index, trips) for index in nest.result.index]
        indices[CHANNEL] = np.delete(indices[CHANNEL], copied)
        if not written.write(nest.result.tensor, indices):
            yield nest_fault(
                number, nest, f"it writes elements of {nest.result.tensor} that have their values", "each once"
            )
    for tensor in program.outputs:
        if not written.has(tensor.name):
            yield RuleViolation(None, f"output {tensor.name!r}", "no nest writes some of its elements", "all written")


def _is_gap(nest: Nest, read: str, written: _WrittenElements, region: tuple[slice, ...], program: NestProgram) -> bool:
    """Whether all weights are 0 of the channels of a read that are not written: gaps between others."""
    sums = [products_of(node.args[0]) for node in walk(nest.expr) if node.op is Op.SUM]
    if len(sums) != 1 or sums[0] is None or sums[0].numbers:
        return False
    factors = {arg.name for arg in sums[0].main.args}
    if read not in factors or len(factors) != 2 or sum(node.name == read for node in walk(nest.expr)) > 1:
        return False
    weights, channels = nest.reads[(factors - {read}).pop()], nest.reads[read].index[CHANNEL]
    if weights.tensor not in program.constants or len(channels.terms) != 1 or channels.terms[0][1] != 1:
        return False
    axis = [loop.name for loop in nest.loops].index(channels.terms[0][0])
    values = gather(weights, nest, program.constants[weights.tensor])
    unwritten = written.unwritten_channels(nest.reads[read].tensor, region) - channels.constant
    gaps = [index for index in unwritten.tolist() if 0 <= index < nest.loops[axis].trip]
    return not values.take([0] if values.shape[axis] == 1 else gaps, axis).any()


def _copied_gaps(nest: Nest, read: str, written: _WrittenElements, region: tuple[slice, ...]) -> list[int]:
    """The iterations over channels in which a copy reads gaps between others: what it writes is a gap again.

    None for a nest that does more than copy, and where all channels are gaps.
    """
    channels, own = nest.reads[read].index[CHANNEL], nest.result.index[CHANNEL]
    if [node.name for node in walk(nest.expr)] != [read] or channels.terms != own.terms:
        return []
    if len(own.terms) != 1 or own.terms[0][1] != 1:
        return []
    trip = next(loop.trip for loop in nest.loops if loop.name == own.terms[0][0])
    unwritten = written.unwritten_channels(nest.reads[read].tensor, region) - channels.constant
    gaps = [index for index in unwritten.tolist() if 0 <= index < trip]
    return gaps if len(gaps) < trip else []


def _region(nest: Nest, access: Access, shape: Sequence[int]) -> tuple[slice, ...]:
    """The elements inside of a tensor among which all are that an access reads."""
    slices = []
    for dimension, (index, size) in enumerate(zip(access.index, shape, strict=True)):
        indices = index_range(nest, access, dimension)
        step = gcd(*(by for _, by in index.terms)) or 1
        first = indices.start if indices.start >= 0 else indices.start % step
        slices.append(slice(first, min(indices.stop, size), step))
    return tuple(slices)


ELEMENT_RULES: Sequence[Rule[NestProgram]] = (
    Rule("reads", "A read stays inside its tensor, unless it says what is outside.", _reads),
    Rule("taps", "A constant of four dimensions is left only along its first two.", _taps),
    Rule("outsides", "What is outside of a tensor is a value of its type.", _outsides),
    Rule(
        "results", "A result stays inside its buffer, which is no input; each iteration has its own element.", _results
    ),
    Rule("order", "Elements are written once, before they are read with a weight other than 0; outputs all.", _order),
)
