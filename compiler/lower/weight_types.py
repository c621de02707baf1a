"""Whether the machine's weights can have the values that a file's have: as they are, or as a few terms of each."""

from __future__ import annotations

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.lower.network import LoweringNetwork
from tilewright.isa.language.numeric import FloatType, parse_integer_type
from tilewright.isa.program.small_floats import SMALL_FLOATS, small_float_of
from tilewright.isa.program.stored_types import DEFAULT_TYPE


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
