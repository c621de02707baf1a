"""What the types of a product ask of a machine: weights that it holds, and results that are sums as they are, exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.lower.network import LoweringNetwork, affine
from tilewright.compiler.nest.expressions import source
from tilewright.compiler.nest.nest import Access
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import FloatType, IntegerType, Interval, parse_integer_type
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.memory import storage_bits
from tilewright.isa.program.small_floats import SMALL_FLOATS, small_float_of
from tilewright.isa.program.stored_types import DEFAULT_TYPE, ENDS, STORED_TYPES


def require_few_bits(operator: Operator, network: LoweringNetwork) -> None:
    """Raise CompileError for weights of another kind than the machine's, which would be sums of hundreds of terms."""
    name, held = operator.inputs[1], network.arithmetic.weight
    dtype = network.graph.tensors[name].dtype
    values = network.graph.constants[name].astype(np.int64)
    if isinstance(held, FloatType):
        if small_float_of(held).holds(values):
            return
        fact = f"its weights are {dtype}, and not all of them are numbers of {held}, which those of the machine are"
        raise CompileError(operator, fact, expected=f"weights of {small_float_of(held).name}")
    if parse_integer_type(dtype).bits <= max(held.bits, DEFAULT_TYPE.values.bits):
        return
    floats = next((each for each in SMALL_FLOATS.values() if each.holds(values)), None)
    if floats is None:
        raise CompileError(operator, f"its weights are {dtype}, and those of the machine are {held}")
    raise CompileError(
        operator,
        f"its weights take {floats.name}, and those of the machine are {held}",
        expected=f"a memory of {floats.short} for weights",
        remedy="take a machine that has one, or integer weights",
    )


def is_sum(tensor: str, network: LoweringNetwork) -> bool:
    """Whether a tensor holds sums as they are: of a type that takes as many bits as they take in memory, or fewer."""
    sums, dtype = network.arithmetic.sum, network.graph.tensors[tensor].dtype
    if dtype == str(IntegerType(storage_bits(sums.bits), sums.is_signed)):
        return True
    return dtype in ENDS and network.stored(dtype).element == sums


def integer_sum(
    name: str, operator: Operator, total: Expr, bias: NDArray[np.int64], bounds: NDArray[np.int64],
    factors: NDArray[np.float64], network: LoweringNetwork,
) -> tuple[Expr, dict[str, Access]]:  # fmt: skip
    """`total + bias`, or `total` where every bias is 0; and the reads that the bias needs.

    `bounds` are the least and greatest total of each channel, [2, O]; `factors` say how many steps of the result a sum
    of 1 is. Raises CompileError for results that the type may not hold: ONNX does not say what they would be.
    """
    result_type = network.graph.tensors[operator.outputs[0]]
    held = network.arithmetic.sum
    if held.bits > STORED_TYPES[result_type.dtype].values.bits:
        held = STORED_TYPES[result_type.dtype].values
    limits = held.interval
    if not np.all(factors == 1) or (operator.attributes["low"], operator.attributes["high"]) != result_type.limits:
        raise CompileError(operator, f"its sums are rescaled or limited as {held}", expected="them as they are")
    results = bounds + bias
    whole = Interval(int(min(results.min(), bounds.min())), int(max(results.max(), bounds.max())))
    if not limits.contains(whole):
        raise CompileError(
            operator,
            f"its sums may reach {whole.low} to {whole.high}",
            expected=f"{limits.low} to {limits.high}, all that {held} holds",
        )
    if not bias.any():
        return total, {}
    constant = network.add_constant(f"{name}.bias", bias, network.arithmetic.sum)
    leaf = source("bias", network.values(constant))
    exact = Interval(int(results.min()), int(results.max()))
    return Expr(Op.ADD, exact, (total, leaf)), {"bias": Access(constant, (affine(("o", 1)),))}
