"""Values of operations on numpy arrays of integers, as their rows have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op, combining

Array = NDArray[Any]


def array_value(node: Expr, *args: Array) -> Array:
    """The value of an operation of one lane, from its arguments' values on arrays that broadcast.

    Exact if the arrays' type holds the node's range, or is int64 where the operation needs that; a comparison's value
    is of numpy's bool.
    """
    function = node.op.facts.array
    assert function is not None, node.op
    value: Array = function(*args) if node.setting is None else function(*args, node.setting)
    return value


def reduce_array(reduction: Op, values: Array, axes: int | tuple[int, ...]) -> Array:
    """The value of a reduction along axes, which stay with length 1; of the arrays' type."""
    function = combining(reduction).facts.array
    assert isinstance(function, np.ufunc), reduction
    value: Array = function.reduce(values, axis=axes, keepdims=True, dtype=values.dtype)
    return value


def repeated(reduction: Op, value: Array, times: int) -> Array:
    """What a reduction makes of one value that it sees so many times."""
    if combining(reduction).facts.is_idempotent:
        return value
    assert combining(reduction) is Op.ADD, reduction
    return value * times
