"""Operators without weights as nests: maxima, sums, products, lookups and rescales of elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import FACTOR, REAL, Operator
from tilewright.compiler.lower.network import (
    SPACE,
    LoweringNetwork,
    affine,
    identity_index,
    kernel_of,
    result_loops,
    target_of,
    whole,
    window_access,
)
from tilewright.compiler.lower.polynomials import (
    READS,
    PolynomialFormat,
    Polynomials,
    computed,
    expression,
    fitted,
)
from tilewright.compiler.nest.expressions import added, clamp, multiplied, rescaled
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.expressions import Expr, make
from tilewright.isa.language.operations import Op


def lower_max_pool(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """`max_over(x)` over the taps; padding never wins."""
    x, y = operator.inputs[0], operator.outputs[0]
    result = network.shape(y)
    r, s = kernel_of(operator, network)
    a = network.activation("a")
    reads = {"a": window_access(x, "o", operator, whole(result), network, outside=a.range.low)}
    expr = make(Op.MAX_OVER, a)
    access = Access(network.buffer_of[y], identity_index())
    return [Nest(operator.name, operator.nodes, result_loops(result, r=r, s=s), reads, access, expr, 0)]


def lower_add(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """Both operands centred, scaled with one shift, added, rounded once; a difference has a negative second scale."""
    (a_scale, a_zero), (b_scale, b_zero) = (network.quantization(name) for name in operator.inputs)
    y_scale, _ = network.quantization(operator.outputs[0])
    factor = operator.attributes.get(FACTOR, 1.0)
    a, b, shift = network.common_multipliers(a_scale * factor / y_scale, b_scale * factor / y_scale, operator)
    target = target_of(operator, network)
    b = -b if operator.kind == "sub" else b
    number = network.from_activations
    expr = added(network.activation("a"), a_zero, a, network.activation("b"), b_zero, b, shift, target, number)
    return [_elementwise(operator, expr, network)]


def lower_mul(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """The product of both operands centred, scaled and rounded once."""
    (a_scale, a_zero), (b_scale, b_zero) = (network.quantization(name) for name in operator.inputs)
    y_scale, _ = network.quantization(operator.outputs[0])
    factor = operator.attributes.get(FACTOR, 1.0)
    number, target = network.from_activations, target_of(operator, network)
    scales, shifts = network.multipliers(np.array([a_scale * b_scale * factor / y_scale]), number, operator)
    a, b = network.activation("a"), network.activation("b")
    expr = multiplied(a, a_zero, b, b_zero, int(scales[0]), int(shifts[0]), target, number)
    return [_elementwise(operator, expr, network)]


def lower_extreme(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """The larger or smaller of two, each brought to the result's scale first: rounding keeps the order of values."""
    y_scale, y_zero = network.quantization(operator.outputs[0])
    everything = network.unlimited(y_zero)
    sides = []
    for leaf, name in zip(("a", "b"), operator.inputs, strict=True):
        side, (scale, zero) = network.activation(leaf), network.quantization(name)
        if (scale, zero) == (y_scale, y_zero):
            sides.append(side)
            continue
        scales, shifts = network.multipliers(np.array([scale / y_scale]), network.from_activations, operator)
        sides.append(rescaled(side, zero, int(scales[0]), int(shifts[0]), everything, network.from_activations))
    expr = make(Op.MAX if operator.kind == "maximum" else Op.MIN, *sides)
    target = target_of(operator, network)
    if target != everything:
        expr = clamp(expr, target.low, target.high)
    return [_elementwise(operator, expr, network)]


def lower_lookup(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """The entry of a table for each value; all channels have one table, or each has its own."""
    if REAL in operator.attributes and network.polynomials is not None:
        return [_in_pieces(operator, network.polynomials, network)]
    table = operator.attributes["table"].astype(np.int64) - network.offset(operator.outputs[0])
    of = network.polynomials
    if of is not None and table.shape == (1 << of.value.bits >> of.below - 1,):
        return _of_fewer_bits(operator, table, of, network)
    name = network.add_constant(f"{operator.name}.table", np.atleast_2d(table), network.arithmetic.activation)
    looked_up = Expr(Op.LUT, network.values(name), (network.activation("a"),), name="t")
    nest = _elementwise(operator, looked_up, network)
    row = affine(("o", 1)) if table.ndim > 1 else affine()
    return [replace(nest, reads={**nest.reads, "t": Access(name, (row,))})]


def _in_pieces(operator: Operator, of: PolynomialFormat, network: LoweringNetwork) -> Nest:
    """A function as polynomials; raises CompileError where their integers are more than a step from it."""
    offset = network.offset(operator.outputs[0])
    exact = operator.attributes["table"].astype(np.int64) - offset
    reals = operator.attributes[REAL] - offset
    key = exact.tobytes() + reals.tobytes()
    if key not in network.functions:
        network.functions[key] = _polynomials(operator, exact, reals, of, network)
    found, tables = network.functions[key]
    nest = _elementwise(operator, expression(found, of, int(exact.min()), int(exact.max())), network)
    return replace(nest, reads={**nest.reads, **{read: Access(name, (affine(),)) for read, name in tables.items()}})


def _of_fewer_bits(
    operator: Operator, table: NDArray[np.int64], of: PolynomialFormat, network: LoweringNetwork
) -> list[Nest]:
    """A function of values with so few bits that a piece has two of them: exact, as a line through both.

    The values are spread out over those of the machine first. Example: of eight bits in sixteen, -128 becomes -32,768,
    and -127 becomes -32,512.
    """
    apart = of.value.count // table.size
    low = network.graph.tensors[operator.inputs[0]].limits[0] - network.offset(operator.inputs[0])
    centre = low - of.value.interval.low // apart
    everything = network.unlimited(0)
    value = rescaled(network.activation("a"), centre, apart, 0, everything, network.from_activations)
    spread = network.add_buffer(f"{operator.name}.spread", network.shape(operator.inputs[0]))
    first = replace(_elementwise(operator, value, network), name=spread, result=Access(spread, identity_index()))
    pairs = table.reshape(-1, 2).astype(np.float64)
    lines = pairs[:, :1] + (pairs[:, 1:] - pairs[:, :1]) * of.distances / apart
    key = table.tobytes()
    if key not in network.functions:
        found = fitted(lines.ravel(), of)
        if np.any(computed(found, of, int(table.min()), int(table.max()))[::apart] != table):
            raise CompileError(operator, f"its function in {of.pieces} pieces is not exact", expected="a smaller range")
        network.functions[key] = found, _tables(operator, found, of, network)
    found, tables = network.functions[key]
    second = _elementwise(operator, expression(found, of, int(table.min()), int(table.max())), network)
    reads = {read: Access(name, (affine(),)) for read, name in tables.items()}
    return [first, replace(second, reads={"a": replace(second.reads["a"], tensor=spread), **reads})]


def _polynomials(
    operator: Operator,
    exact: NDArray[np.int64],
    reals: NDArray[np.float64],
    of: PolynomialFormat,
    network: LoweringNetwork,
) -> tuple[Polynomials, dict[str, str]]:
    """The polynomials of a function, and the constants of their coefficients, by what the nest reads them as."""
    found = fitted(reals, of)
    apart = np.abs(computed(found, of, int(exact.min()), int(exact.max())) - exact)
    if apart.max() > 1:
        fact = f"its function in {of.pieces} pieces is up to {apart.max()} steps off"
        raise CompileError(operator, fact, expected="1 at most", remedy="take a smoother function, or a smaller range")
    network.remarks[f"function of {operator.name}"] = (
        f"in {of.pieces} pieces: of {apart.size:,} values, {np.count_nonzero(apart):,} give a result one step off"
    )
    return found, _tables(operator, found, of, network)


def _tables(operator: Operator, found: Polynomials, of: PolynomialFormat, network: LoweringNetwork) -> dict[str, str]:
    """The coefficients as constants, by what the nest reads them as."""
    return {
        read: network.add_constant(f"{operator.name}.table_{read}", values[None], type_)
        for read, values, type_ in zip(READS, found.coefficients, of.coefficients, strict=False)
    }


def lower_rescale(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    return [_elementwise(operator, rescaling(operator, network), network)]


def rescaling(operator: Operator, network: LoweringNetwork) -> Expr:
    """The first operand, read as `a`, in the scale and limits of the result."""
    (a_scale, a_zero), (y_scale, _) = (network.quantization(name) for name in (*operator.inputs, *operator.outputs))
    scales, shifts = network.multipliers(np.array([a_scale / y_scale]), network.from_activations, operator)
    target = target_of(operator, network)
    return rescaled(network.activation("a"), a_zero, int(scales[0]), int(shifts[0]), target, network.from_activations)


def _elementwise(operator: Operator, expr: Expr, network: LoweringNetwork) -> Nest:
    """A nest that reads each operand at the indices that it writes; an operand's dimension of 1 is broadcast."""
    y = operator.outputs[0]
    result = network.shape(y)
    reads = {}
    for name, operand in zip(("a", "b"), operator.inputs, strict=False):
        sizes = network.shape(operand)
        index = tuple(
            affine() if size == 1 < trip else affine((loop, 1))
            for loop, size, trip in zip(SPACE, sizes, result, strict=True)
        )
        held = network.buffer_of[operand] if operand in network.buffer_of else network.stored_constant(operand)
        reads[name] = Access(held, index)
    access = Access(network.buffer_of[y], identity_index())
    return Nest(operator.name, operator.nodes, result_loops(result), reads, access, expr, 0)
