"""Nests by numpy against nests by plain Python loops, iteration after iteration."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.compiler.nest.interpreter import run_nest
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestLoop
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import Interval, round_shift
from tilewright.isa.language.operations import Op

WIDE = Interval(-(1 << 20), 1 << 20)


def read(name: str) -> Expr:
    return Expr(Op.SOURCE, WIDE, name=name)


def affine(constant: int = 0, **terms: int) -> Affine:
    return Affine(tuple(terms.items()), constant)


def scalar_value(expr: Expr, leaves: Mapping[str, int], reduced: int) -> int:
    """An expression outside (or inside) a reduction, whose value is given."""
    args = [reduced if arg.op in (Op.SUM, Op.MAX_OVER) else scalar_value(arg, leaves, reduced) for arg in expr.args]
    match expr.op:
        case Op.CONST:
            return expr.value
        case Op.SOURCE:
            return leaves[expr.name]
        case Op.ADD:
            return args[0] + args[1]
        case Op.SUB:
            return args[0] - args[1]
        case Op.MUL:
            return args[0] * args[1]
        case Op.MIN:
            return min(args)
        case Op.MAX:
            return max(args)
        case Op.ROUND_SHIFT:
            return int(round_shift(args[0], args[1], expr.rounding))
    raise AssertionError(expr.op)


def element(access: Access, index: Mapping[str, int], tensor: NDArray[np.int64]) -> int:
    place = tuple(affine.constant + sum(index[loop] * step for loop, step in affine.terms) for affine in access.index)
    if all(0 <= position < size for position, size in zip(place, tensor.shape, strict=True)):
        return int(tensor[place])
    assert access.outside is not None
    return access.outside


def run_by_loops(nest: Nest, tensors: Mapping[str, NDArray[np.int64]], result: NDArray[np.int64]) -> None:
    outer = [loop for loop in nest.loops if not loop.is_reduce]
    inner = [loop for loop in nest.loops if loop.is_reduce]
    reduction = next((n for n in _walk(nest.expr) if n.op in (Op.SUM, Op.MAX_OVER)), None)
    for outside in itertools.product(*(range(loop.trip) for loop in outer)):
        values = []
        for inside in itertools.product(*(range(loop.trip) for loop in inner)):
            index = dict(zip((loop.name for loop in (*outer, *inner)), (*outside, *inside), strict=True))
            leaves = {name: element(a, index, tensors[a.tensor]) for name, a in nest.reads.items()}
            if reduction is not None:
                values.append(scalar_value(reduction.args[0], leaves, 0))
        total = 0 if reduction is None else (sum(values) if reduction.op is Op.SUM else max(values))
        value = total if reduction is nest.expr else scalar_value(nest.expr, leaves, total)
        place = tuple(
            affine.constant + sum(index[loop] * step for loop, step in affine.terms) for affine in nest.result.index
        )
        result[place] = value


def _walk(expr: Expr) -> list[Expr]:
    return [node for arg in expr.args for node in _walk(arg)] + [expr]


def nest(loops: str, reads: dict[str, Access], result: Access, expr: Expr) -> Nest:
    """Loops as `o5 y4 i3*`, the star for a reduction."""
    parsed = tuple(NestLoop(part[0], int(part[1:].rstrip("*")), part.endswith("*")) for part in loops.split())
    return Nest("test", (), parsed, reads, result, expr, 0)


def products(a: str, b: str) -> Expr:
    return Expr(Op.SUM, Interval(-(1 << 40), 1 << 40), (make(Op.MUL, read(a), read(b)),))


PLAIN = Access("y", (affine(n=1), affine(o=1), affine(y=1), affine(x=1)))
CONV = {
    "x": Access("x", (affine(n=1), affine(i=1), affine(-1, y=2, r=1), affine(-2, x=1, s=3)), outside=7),
    "w": Access("w", (affine(o=1), affine(i=1), affine(r=1), affine(s=1))),
    "b": Access("b", (affine(o=1),)),
}
LOOPS = "n2 o5 y3 x4 i3* r2* s2*"
CASES = {
    "convolution": nest(LOOPS, CONV, PLAIN, products("x", "w")),
    "with_bias_and_rounding": nest(
        LOOPS, CONV, PLAIN, make(Op.ROUND_SHIFT, make(Op.ADD, products("x", "w"), read("b")), const(5))
    ),
    "same_weight_for_each_tap": nest(
        LOOPS, {**CONV, "w": Access("w", (affine(o=1), affine(i=1), affine(), affine(1)))}, PLAIN, products("x", "w")
    ),
    "reduce_loop_that_nobody_reads": nest(
        "n2 o5 y3 x4 i3* r2* s2* q3*", CONV, PLAIN, make(Op.ADD, products("x", "w"), const(1))
    ),
    "maximum": nest(
        "n2 o3 y3 x4 r2* s2*",
        {"x": Access("x", (affine(n=1), affine(o=1), affine(-1, y=2, r=1), affine(-2, x=1, s=3)), outside=-128)},
        PLAIN,
        make(Op.MAX_OVER, read("x")),
    ),
    "broadcast_add": nest(
        "n2 o3 y6 x5",
        {
            "a": Access("x", (affine(n=1), affine(o=1), affine(y=1), affine(x=1))),
            "b": Access("x", (affine(n=1), affine(o=1), affine(), affine(2))),
        },
        PLAIN,
        make(Op.SUB, read("a"), read("b")),
    ),
    "part_of_a_buffer": nest(
        "n2 o5 y2 x2 i3* r2* s2*",
        CONV,
        Access("y", (affine(n=1), affine(o=1), affine(1, y=1), affine(2, x=2))),
        products("x", "w"),
    ),
    "sum_of_one_read": nest(LOOPS, {"x": CONV["x"]}, PLAIN, Expr(Op.SUM, WIDE, (make(Op.SUB, read("x"), const(3)),))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("largest", [128, 1 << 28])
def test_computes_what_the_loops_say(name: str, largest: int) -> None:
    rng = np.random.default_rng(4)
    shapes: dict[str, Any] = {"x": (2, 3, 6, 5), "w": (5, 3, 2, 2), "b": (5,)}
    tensors = {key: rng.integers(-largest, largest, size=shape) for key, shape in shapes.items()}
    computed, expected = (np.full((2, 5, 6, 6), -1, np.int64) for _ in range(2))
    run_nest(CASES[name], tensors, computed)
    run_by_loops(CASES[name], tensors, expected)
    assert np.array_equal(computed, expected)
