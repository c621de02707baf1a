"""Computes zero points in a product of two computed tensors once for each channel, not once for each pixel.

`(x - z) * w` is `x * w` plus `-z * w`, and the second term is the same for all pixels. One vector that holds -z
everywhere computes it, where each pixel would need one, and an instruction `y = wrap(a + b, int32)` adds it to the
sums. On a machine without such an instruction the term is one more product for each pixel, with the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.arithmetic import Arithmetic, arithmetic_of, vector_blocks
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import fresh_name
from tilewright.compiler.nest.expressions import source, with_node
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.nest.space import NestSpace, Products, choosing_loops, coefficient, nest_space, products_of
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.compiler.templates.systolic import weight_tiles
from tilewright.isa.language.expressions import Expr, const, make, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine

START_CYCLES = 500
"""The cost of one more nest, in addition to loading its matrix once more."""


def column_sums(program: NestProgram, machine: Machine, session: Session | None = None) -> NestProgram:
    """The same program with these terms in nests of their own, where that is faster and instructions compute it."""
    session = session or Session()
    for nest in program.nests:
        apart = _apart(nest, program, machine, session)
        program = program if apart is None else apart
    return program


def _apart(nest: Nest, program: NestProgram, machine: Machine, session: Session) -> NestProgram | None:
    """The program with a nest's column sums in a separate nest; None if that is impossible or not faster."""
    total = next((node for node in walk(nest.expr) if node.op is Op.SUM), None)
    products = None if total is None else products_of(total.args[0])
    if total is None or products is None or not products.numbers:
        return None
    try:
        space = nest_space(nest, machine.lanes)
    except CompileError:
        return None  # `select` says why no instruction computes this nest
    matrix = _matrix(nest, products, space)
    numbers = [number for read, number in products.numbers if matrix is not None and read == matrix.name]
    if matrix is None or not numbers or not _pays(nest.reads[matrix.name], len(numbers), space, machine):
        return None
    arithmetic = arithmetic_of(machine)
    sums, buffer, vector = _columns(nest, matrix, numbers, space, arithmetic)
    name = fresh_name(f"{nest.name}.columns", program.buffers, program.constants)
    sums = replace(sums, result=replace(sums.result, tensor=name))
    constants = {**program.constants, sums.reads["e"].tensor: vector}
    types = {**program.constant_types, sums.reads["e"].tensor: arithmetic.activation}
    rest = _with_columns(nest, total, products, matrix, sums.expr.range, replace(sums.result, tensor=name))
    nests = tuple(made for old in program.nests for made in ((sums, rest) if old is nest else (old,)))
    buffers = {**program.buffers, name: replace(buffer, name=name)}
    made = replace(program, nests=nests, buffers=buffers, constants=constants, constant_types=types)
    selector = Selector(machine, made, session)
    if any(selector.cover_if_possible(each) is None for each in (sums, rest)):
        return None
    return made


def _matrix(nest: Nest, products: Products, space: NestSpace) -> Expr | None:
    """The factor of the product that is the matrix: its index moves with the result's channels."""
    for factor in products.main.args:
        if any(coefficient(index, space.lane) for index in nest.reads[factor.name].index):
            return factor
    return None


def _pays(matrix: Access, numbers: int, space: NestSpace, machine: Machine) -> bool:
    """Whether the saved products take longer than the extra additions and one more load of the matrix."""
    if vector_blocks(machine) > 1 or not choosing_loops(matrix, space) <= {space.batch}:
        return False
    results, summed = space.trips[space.lane], prod(space.trips[loop] for loop in space.reduce)
    tiles = weight_tiles(machine, results, summed)
    again = START_CYCLES + tiles * machine.array.rows * space.trips[space.batch]
    return numbers * space.pixels * tiles > space.pixels * weight_tiles(machine, results) + again


def _columns(
    nest: Nest, matrix: Expr, numbers: list[int], space: NestSpace, arithmetic: Arithmetic
) -> tuple[Nest, Buffer, NDArray[Any]]:
    """The nest that sums a matrix's columns times the numbers; its buffer; the vector that holds the first number."""
    access, (summed,) = nest.reads[matrix.name], space.reduce
    chosen = choosing_loops(access, space)
    trips = {loop.name: loop.trip if loop.name in {*chosen, space.lane, summed} else 1 for loop in nest.loops}
    shape = (space.trips[space.batch] if chosen else 1, space.trips[space.lane], 1, 1)
    still = Affine(())
    result = Access("", (Affine(((space.batch, 1),) if chosen else ()), Affine(((space.lane, 1),)), still, still))
    vector = np.full((1, space.trips[summed], 1, 1), numbers[0], arithmetic.activation.dtype)
    reads = {"e": Access(f"{nest.name}.zeros", (still, Affine(((summed, 1),)), still, still)), "w": access}
    leaf = source("w", matrix.range)
    terms = make(Op.MUL, source("e", Interval(numbers[0], numbers[0])), leaf)
    for number in numbers[1:]:
        terms = make(Op.ADD, terms, make(Op.MUL, leaf, const(number)))
    expr = Expr(Op.SUM, _times(terms.range, space.trips[summed]), (terms,))
    loops = tuple(NestLoop(loop.name, trips[loop.name], loop.is_reduce) for loop in nest.loops)
    sums = Nest(f"{nest.name}.columns", nest.nodes, loops, reads, result, expr, 0)
    return sums, Buffer("", shape, arithmetic.sum), vector


def _with_columns(nest: Nest, total: Expr, products: Products, matrix: Expr, columns: Interval, result: Access) -> Nest:
    """The nest without the terms that are the same for all pixels; it reads and adds their sum."""
    terms = products.main
    leaves = {arg.name: arg for arg in products.main.args}
    for read, number in products.numbers:
        if read != matrix.name:
            terms = make(Op.ADD, terms, make(Op.MUL, leaves[read], const(number)))
    count = prod(loop.trip for loop in nest.loops if loop.is_reduce)
    left = Expr(Op.SUM, _times(terms.range, count), (terms,))
    whole = make(Op.ADD, left, source("columns", columns))
    return replace(nest, reads={**nest.reads, "columns": result}, expr=with_node(nest.expr, total, whole))


def _times(interval: Interval, count: int) -> Interval:
    return Interval(interval.low * count, interval.high * count)
