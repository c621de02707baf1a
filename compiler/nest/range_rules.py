"""Rules of nest programs about values: the ranges of an expression hold whatever the inputs are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.element_rules import leaving, nest_fault
from tilewright.compiler.nest.interpreter import gather
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.compiler.nest.products import Products, products_of
from tilewright.compiler.rules import Fault, Rule
from tilewright.isa.language.expressions import first_index, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op

Values = NDArray[Any]


def _hull(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(each.low for each in intervals), max(each.high for each in intervals))


def tensor_values(program: NestProgram) -> Mapping[str, Interval]:
    """The values that each tensor can have."""
    found = {name: Interval(int(each.min()), int(each.max())) for name, each in program.constants.items()}
    given = {tensor.name for tensor in program.inputs}
    for name, buffer in program.buffers.items():
        writers = program.writers.get(name, ())
        known = name not in given and not buffer.parts and writers
        found[name] = _hull([nest.expr.range for nest in writers]) if known else buffer.type.interval
    return found


def _ranges(program: NestProgram) -> Iterator[Fault]:
    values = tensor_values(program)
    for number, nest in enumerate(program.nests):
        for node in dict.fromkeys(walk(nest.expr)):
            if node.op in (Op.SOURCE, Op.LUT):
                known = _values_of(nest, nest.reads[node.name], values, program)
                if not node.range.contains(known):
                    fact = f"the range of {node.name} is {node.range}"
                    yield nest_fault(
                        number, nest, fact, f"one that holds {known}, the values of {nest.reads[node.name].tensor}"
                    )


def _values_of(nest: Nest, access: Access, values: Mapping[str, Interval], program: NestProgram) -> Interval:
    """The values that a read can give."""
    tensor = access.tensor
    shape = program.constants[tensor].shape if tensor in program.constants else program.buffers[tensor].shape
    if access.outside is None or leaving(nest, access, shape) is None:
        return values[tensor]
    return _hull([values[tensor], Interval(access.outside, access.outside)])


def _sums(program: NestProgram) -> Iterator[Fault]:
    for number, nest in enumerate(program.nests):
        count = prod(loop.trip for loop in nest.loops if loop.is_reduce)
        for node in dict.fromkeys(walk(nest.expr)):
            if node.op is not Op.SUM:
                continue
            products, term = products_of(node.args[0]), node.args[0].range
            least = _bound(nest, products, program, count) if products is not None else None
            most = Interval(min(count * term.low, term.low), max(count * term.high, term.high))
            if least is not None and not node.range.contains(least):
                yield nest_fault(number, nest, f"the range of sum is {node.range}", f"one that holds {least}")
            elif not _meet(node.range, most):
                yield nest_fault(number, nest, f"the range of sum is {node.range}", f"one that meets {most}")


def _meet(a: Interval, b: Interval) -> bool:
    return a.low <= b.high and b.low <= a.high and a.low <= a.high


def _bound(nest: Nest, products: Products, program: NestProgram, count: int) -> Interval | None:
    """The least and the greatest sum of products, of which one factor at least is constant; else None."""
    a, b = products.main.args
    if nest.reads[b.name].tensor not in program.constants:
        a, b = b, a
    if nest.reads[b.name].tensor not in program.constants:
        return None
    numbers: dict[str, int] = {}
    for read, number in products.numbers:
        numbers[read] = numbers.get(read, 0) + number
    weights = gather(nest.reads[b.name], nest, program.constants[nest.reads[b.name].tensor])
    factors = weights + numbers.get(a.name, 0)
    rest = weights * numbers.get(b.name, 0)
    axes = tuple(position for position, loop in enumerate(nest.loops) if loop.is_reduce)
    times = count // prod(factors.shape[axis] for axis in axes)
    low = np.minimum(factors * a.range.low, factors * a.range.high) + rest
    high = np.maximum(factors * a.range.low, factors * a.range.high) + rest
    return Interval(int(low.sum(axis=axes).min()) * times, int(high.sum(axis=axes).max()) * times)


def _results(program: NestProgram) -> Iterator[Fault]:
    for number, nest in enumerate(program.nests):
        element = program.buffers[nest.result.tensor].type
        if not element.interval.contains(nest.expr.range):
            fact = f"its values are {nest.expr.range}"
            yield nest_fault(number, nest, fact, f"those of {nest.result.tensor}, {element}: {element.interval}")


def _tables(program: NestProgram) -> Iterator[Fault]:
    for number, nest in enumerate(program.nests):
        for node in dict.fromkeys(walk(nest.expr)):
            if node.op is Op.LUT:
                entries = program.constants[nest.reads[node.name].tensor].shape[-1]
                first, index = first_index(node.args[0], entries), node.args[0].range
                if index.low < first or index.high >= first + entries:
                    fact = f"the table {node.name} has entries for {first} to {first + entries - 1}"
                    yield nest_fault(number, nest, fact, f"one for each of {index}")


RANGE_RULES: Sequence[Rule[NestProgram]] = (
    Rule("ranges", "The range of a read holds all values of its tensor, and what is outside.", _ranges),
    Rule("sums", "The range of a sum of products with constants holds every such sum.", _sums),
    Rule("values", "The values of an expression are of its buffer's type.", _results),
    Rule("tables", "A table has an entry for each value that is looked up.", _tables),
)
