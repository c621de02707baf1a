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
from tilewright.compiler.nest.space import Products, products_of
from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.isa.language.expressions import Expr, first_index, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op

Values = NDArray[Any]


def _hull(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(each.low for each in intervals), max(each.high for each in intervals))


def _ranges(program: NestProgram) -> Iterator[RuleViolation]:
    values: dict[str, Interval] = {}
    for name, array in program.constants.items():
        values[name] = Interval(int(array.min()), int(array.max()))
    for tensor in program.inputs:
        values[tensor.name] = program.buffers[tensor.name].type.values
    for buffer in program.buffers.values():
        if buffer.parts:
            values[buffer.name] = buffer.type.values
    for number, nest in enumerate(program.nests):
        known = {name: _values_of(nest, access, values, program) for name, access in nest.reads.items()}
        for node in _counting(nest.expr):
            if not node.range.contains(known[node.name]):
                fact, read = f"the range of {node.name} is {node.range}", nest.reads[node.name].tensor
                yield nest_fault(number, nest, fact, f"one that holds {known[node.name]}, as {read} has")
        result, written = nest.result.tensor, _inferred(nest.expr, known, {})
        values[result] = _hull([values[result], written]) if result in values else written


def _counting(expr: Expr) -> Sequence[Expr]:
    """The reads whose values count, and not only whether they are 0, as the conditions of `where` do."""
    used = [expr, *(arg for node in walk(expr) for arg in node.args[node.op is Op.WHERE :])]
    return [node for node in dict.fromkeys(used) if node.op in (Op.SOURCE, Op.LUT)]


def _inferred(node: Expr, known: Mapping[str, Interval], found: dict[int, Interval]) -> Interval:
    """The values of an expression, from those of its reads; those of reductions are as it says."""
    if id(node) not in found:
        if node.op in (Op.SOURCE, Op.LUT):
            found[id(node)] = known[node.name]
        elif node.op.facts.range is None or node.op in REDUCTIONS or node.op in ACROSS_LANES or not node.args:
            found[id(node)] = node.range
        else:
            setting = () if node.setting is None else (node.setting,)
            found[id(node)] = node.op.facts.range(*(_inferred(arg, known, found) for arg in node.args), *setting)
    return found[id(node)]


def _values_of(nest: Nest, access: Access, values: Mapping[str, Interval], program: NestProgram) -> Interval:
    """The values that a read can give."""
    tensor = access.tensor
    shape = program.constants[tensor].shape if tensor in program.constants else program.buffers[tensor].shape
    inside = values.get(tensor, Interval(0, 0))  # nothing is written where all weights are 0
    if access.outside is None or leaving(nest, access, shape) is None:
        return inside
    return _hull([inside, Interval(access.outside, access.outside)])


def _sums(program: NestProgram) -> Iterator[RuleViolation]:
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


def _results(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        element = program.buffers[nest.result.tensor].type
        if not element.values.contains(nest.expr.range):
            fact = f"its values are {nest.expr.range}"
            yield nest_fault(number, nest, fact, f"those of {nest.result.tensor}, {element}: {element.values}")


def _tables(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        for node in dict.fromkeys(walk(nest.expr)):
            if node.op is Op.LUT:
                entries = program.constants[nest.reads[node.name].tensor].shape[-1]
                first, index = first_index(node.args[0], entries), node.args[0].range
                if index.low < first or index.high >= first + entries:
                    fact = f"the table {node.name} has entries for {first} to {first + entries - 1}"
                    yield nest_fault(number, nest, fact, f"one for each of {index}")


RANGE_RULES: Sequence[Rule[NestProgram]] = (
    Rule(
        "ranges",
        "The range of a read, but of a condition, holds all values of its tensor, and what is outside.",
        _ranges,
    ),
    Rule("sums", "The range of a sum of products with constants holds every such sum.", _sums),
    Rule("values", "The values of an expression are of its buffer's type.", _results),
    Rule("tables", "A table has an entry for each value that is looked up.", _tables),
)
