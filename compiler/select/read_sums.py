"""Leaves a product's sums to the nest that reads it, where an instruction requantises them there.

A convolution's result is rounded because its reader wants activations: the requantisation is the last thing that its
own nest does. If the reader's instruction can do it, the nest ends with the sums, and the reader has the requantisation
in its expression. Bits do not change: every rounding and every limit stays, in another nest.

Example, the block of a residual network, with an instruction that reads two accumulators:

    shortcut = requantize(sum(x * v))                         shortcut.sums = sum(x * v)
    y = add(requantize(sum(h * w)), shortcut)            →    y = add(requantize(sum(h * w)), requantize(shortcut.sums))

and in the same way a largest of windows, `max_over(requantize(sums))`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import fresh_name, numbered_name
from tilewright.compiler.nest.expressions import source
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestProgram
from tilewright.compiler.nest.space import NestSpace, products_of, summed_loop
from tilewright.compiler.select.bindings import TensorRead
from tilewright.compiler.select.cover import Cover, is_bare_product, is_whole_result, takes_each_once
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import REDUCTIONS, Op
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights

SHARE = 4
"""The smallest tile of the sums takes at most one part of so many of each memory: the rest is the reader's."""


@dataclass(frozen=True)
class SumCandidate:
    """A nest and its one reader, apart and with the sums left to the reader."""

    nest: Nest
    reader: Nest
    apart: tuple[Cover, Cover]
    joined: tuple[Cover, Cover]
    program: NestProgram  # with the sums left to the reader
    obstacle: str  # why that is not done; empty if it is

    @property
    def is_taken(self) -> bool:
        return not self.obstacle


def read_sums(program: NestProgram, machine: Machine, session: Session | None = None) -> NestProgram:
    """The same program, with sums left to readers where this streams fewer words and tiles of both fit."""
    for candidate in candidates(program, machine, session or Session()):
        program = candidate.program if candidate.is_taken else program
    return program


def candidates(program: NestProgram, machine: Machine, session: Session) -> Iterator[SumCandidate]:
    """The nests whose readers' instructions can take their sums, each in the program with those before it taken."""
    for name in [nest.name for nest in program.nests]:
        nest = next(nest for nest in program.nests if nest.name == name)
        found = _candidate(nest, program, machine, session)
        if found is not None:
            yield found
            program = found.program if found.is_taken else program


def words_of(covers: tuple[Cover, Cover]) -> Mapping[Engine, int]:
    """The words that each engine streams for two nests."""
    engines = dict.fromkeys(engine for cover in covers for engine in cover.words)
    return {engine: sum(cover.words.get(engine, 0) for cover in covers) for engine in engines}


def _total(covers: tuple[Cover, Cover]) -> int:
    return sum(words_of(covers).values())


def _candidate(nest: Nest, program: NestProgram, machine: Machine, session: Session) -> SumCandidate | None:
    total = _only_product(nest, machine)
    reader = _reader(nest, program)
    if total is None or reader is None or not is_whole_result(nest) or not _has_only_constants(nest, total, program):
        return None
    made, sums, taking = _joined(nest, reader, total, program, machine)
    apart = _covers(Selector(machine, program, session), nest, reader)
    joined = _covers(Selector(machine, made, session), sums, taking)
    if apart is None or joined is None or _total(joined) >= _total(apart):
        return None
    if not is_bare_product(joined[0]) or not takes_each_once(joined[1], sums.result.tensor, joined[0]):
        return None
    return SumCandidate(nest, reader, apart, joined, made, _obstacle(joined, machine))


def _covers(selector: Selector, nest: Nest, reader: Nest) -> tuple[Cover, Cover] | None:
    """The cheapest covers of two nests; None if one has none, or if no memory is home to its result."""
    try:
        first, second = selector.cover_if_possible(nest), selector.cover_if_possible(reader)
    except CompileError:
        return None
    return None if first is None or second is None else (first, second)


def _only_product(nest: Nest, machine: Machine) -> Expr | None:
    """The sum of products in a nest, if that is its one reduction and the values are accumulators."""
    reductions = [node for node in walk(nest.expr) if node.op in REDUCTIONS]
    total = reductions[0] if reductions and all(node == reductions[0] for node in reductions) else None
    if total is None or total.op is not Op.SUM or products_of(total.args[0]) is None or total is nest.expr:
        return None
    return total if arithmetic_of(machine).sum.interval.contains(total.range) else None


def _has_only_constants(nest: Nest, total: Expr, program: NestProgram) -> bool:
    """Whether all that a nest reads outside its sum are constants."""
    inside = {leaf.name for leaf in walk(total) if leaf.op is Op.SOURCE}
    return all(access.tensor in program.constants for name, access in nest.reads.items() if name not in inside)


def _reader(nest: Nest, program: NestProgram) -> Nest | None:
    """The one nest that reads a nest's result, by one read and not to sum it; None if others read or write it."""
    tensor = nest.result.tensor
    if tensor in {output.name for output in program.outputs}:
        return None
    readers = program.readers.get(tensor, ())
    if len(program.writers.get(tensor, ())) != 1 or len(readers) != 1:
        return None
    sums = [node for node in walk(readers[0].expr) if node.op is Op.SUM]
    summed = {readers[0].reads[leaf.name].tensor for node in sums for leaf in walk(node) if leaf.op is Op.SOURCE}
    return None if tensor in summed else readers[0]


# -- rewriting ---------------------------------------------------------------------------------------------------------


def _joined(
    nest: Nest, reader: Nest, total: Expr, program: NestProgram, machine: Machine
) -> tuple[NestProgram, Nest, Nest]:
    """The program with sums and a reader that takes them, one right before the other; and these two nests."""
    name = fresh_name(f"{nest.name}.sums", program.buffers, program.constants)
    inside = {leaf.name for leaf in walk(total) if leaf.op in (Op.SOURCE, Op.LUT)}
    own = {read: access for read, access in nest.reads.items() if read in inside}
    sums = replace(nest, reads=own, result=replace(nest.result, tensor=name), expr=total)
    taking = _taking(nest, reader, total, name)
    nests: list[Nest] = []
    for old in program.nests:
        if old is reader:
            nests += [sums, taking]
        elif old is not nest:
            nests.append(old)
    old_buffer = program.buffers[nest.result.tensor]
    buffers = {key: buffer for key, buffer in program.buffers.items() if key != old_buffer.name}
    buffers[name] = Buffer(name, old_buffer.shape, arithmetic_of(machine).sum)
    return replace(program, nests=tuple(nests), buffers=buffers), sums, taking


def _taking(nest: Nest, reader: Nest, total: Expr, sums: str) -> Nest:
    """The reader with the rest of a nest's expression in place of its result."""
    (link,) = (name for name, access in reader.reads.items() if access.tensor == nest.result.tensor)
    taken = reader.reads[link]
    moved = {
        index.terms[0][0]: taken.index[dimension] for dimension, index in enumerate(nest.result.index) if index.terms
    }
    reads = {name: access for name, access in reader.reads.items() if name != link}
    leaf = numbered_name(f"{link}_sums", reads)
    reads[leaf] = replace(taken, tensor=sums)
    rest = _with_node(nest.expr, total, source(leaf, total.range))
    renamed: dict[str, str] = {}
    for name in dict.fromkeys(node.name for node in walk(rest) if node.op in (Op.SOURCE, Op.LUT) and node.name != leaf):
        renamed[name] = numbered_name(name, reads)
        reads[renamed[name]] = _moved(nest.reads[name], moved)
    rest = _with_names(rest, renamed)
    return replace(reader, reads=reads, expr=_with_read(reader.expr, link, rest))


def _with_node(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with another node in place of every one that equals `old`."""
    if expr == old:
        return new
    return replace(expr, args=tuple(_with_node(arg, old, new) for arg in expr.args))


def _with_names(expr: Expr, names: Mapping[str, str]) -> Expr:
    name = names.get(expr.name, expr.name) if expr.op in (Op.SOURCE, Op.LUT) else expr.name
    return replace(expr, name=name, args=tuple(_with_names(arg, names) for arg in expr.args))


def _with_read(expr: Expr, read: str, value: Expr) -> Expr:
    """The expression with a value in place of a read."""
    if expr.op is Op.SOURCE and expr.name == read:
        return value
    return replace(expr, args=tuple(_with_read(arg, read, value) for arg in expr.args))


def _moved(access: Access, loops: Mapping[str, Affine]) -> Access:
    """An access of a nest, with what its reader has in place of the nest's loops."""

    def placed(index: Affine) -> Affine:
        terms = [(loop, step * by) for outer, step in index.terms for loop, by in loops[outer].terms]
        return Affine(tuple(terms), index.constant + sum(step * loops[outer].constant for outer, step in index.terms))

    return replace(access, index=tuple(map(placed, access.index)))


# -- what is in the way ------------------------------------------------------------------------------------------------


def _obstacle(joined: tuple[Cover, Cover], machine: Machine) -> str:
    """Why tiles of both nests cannot be side by side; empty if they can."""
    sums, taking = joined
    if tensor := _padded_differently(sums.nest, taking.nest):
        return f"both read {tensor}, with different values around it"
    dot, tensor = sums.steps[0].format, sums.nest.result.tensor
    access = next(access for access in taking.nest.reads.values() if access.tensor == tensor)
    weights, accumulators = systolic_weights(dot), dot.destination
    needs = {
        weights.memory: _taps(sums) * weights.block,
        accumulators.memory: _window(access, taking.space) * accumulators.block,
    }
    for memory, needed in needs.items():
        depth = machine.memories[memory].depth
        if needed > depth // SHARE:
            return f"the sums' smallest tile needs {needed} words of {memory}, more than a quarter of {depth}"
    return ""


def _padded_differently(one: Nest, other: Nest) -> str:
    """A tensor around which two nests want different values; empty if there is none."""
    outside = {access.tensor: access.outside for access in one.reads.values() if access.outside is not None}
    for access in other.reads.values():
        if access.outside is not None and outside.get(access.tensor, access.outside) != access.outside:
            return access.tensor
    return ""


def _taps(sums: Cover) -> int:
    """The taps of a product: iterations of its reduce loops but the one over vectors of channels."""
    read = sums.steps[0].inputs[systolic_activations(sums.steps[0].format).name]
    assert isinstance(read, TensorRead)
    summed = summed_loop(sums.nest.reads[read.read])
    return prod(sums.space.trips[loop] for loop in sums.space.reduce if loop != summed)


def _window(access: Access, space: NestSpace) -> int:
    """The pixels that one result reads."""
    loops = {loop for index in access.index for loop, _ in index.terms if loop in space.reduce}
    return prod(space.trips[loop] for loop in loops)
