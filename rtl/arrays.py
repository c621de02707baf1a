"""The arrays of a matrix engine: one, or as many as its narrowest weights make sums of each column."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Value

from tilewright.isa.language.numeric import FloatType, IntegerType, common_type
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element
from tilewright.isa.templates.systolic import (
    is_transposing,
    sums_of_a_column,
    systolic_activations,
    systolic_weights,
)
from tilewright.rtl.float_codes import steps
from tilewright.rtl.systolic import SystolicArray


def systolic_arrays(machine: Machine, engine: Engine) -> list[SystolicArray]:
    """The arrays of an engine that has instructions: one, or as many as its narrowest weights make sums a column."""
    can_transpose = any(map(is_transposing, machine.formats_of(engine)))
    return [
        SystolicArray(engine.array.rows, engine.array.cols, *types, can_transpose and not position, engine.pipeline.mac)
        for position, types in enumerate(factor_types(machine, engine))
    ]


def array_names(machine: Machine, engine: Engine) -> list[str]:
    """What the arrays are called in the hardware."""
    return [f"array_{position}" if position else "array" for position in range(len(factor_types(machine, engine)))]


def factor_types(machine: Machine, engine: Engine) -> list[tuple[IntegerType, IntegerType]]:
    """For each array, the types of the activations and of the weights that it multiplies, of any instruction."""
    formats = machine.formats_of(engine)
    activations = plain_type(systolic_activations(formats[0]).element)
    most = max(sums_of_a_column(format, machine.memories) for format in formats)
    kinds = [
        [
            plain_type(systolic_weights(format).element)
            for format in formats
            if sums_of_a_column(format, machine.memories) > position
        ]
        for position in range(most)
    ]
    return [(activations, _common(own)) for own in kinds]


def _common(types: list[IntegerType]) -> IntegerType:
    found = common_type(types)
    assert found is not None  # the loader refuses the others
    return found


def weight_elements(machine: Machine, engine: Engine) -> list[Element]:
    """The elements that words of weights are read as."""
    return list(dict.fromkeys(systolic_weights(format).element for format in machine.formats_of(engine)))


def element_of(word: Value, element: Element, position: int, to: IntegerType) -> Value:
    """An element of a word, as one of the common type of several."""
    kind = plain_type(element)
    bits = word[position * element.bits :][: kind.bits]
    if isinstance(kind, FloatType) and isinstance(to, FloatType) and kind != to:
        magnitude = steps(Cat(bits[: kind.sign_bit], Const(0, 1)), kind)[: to.mantissa_bits + 1]
        return Cat(magnitude, Const(0, to.sign_bit - len(magnitude)), bits[kind.sign_bit])
    return bits.as_signed() if kind.is_signed else bits


def plain_type(element: Element) -> IntegerType:
    assert element.type is not None  # the loader refuses structures at the array
    return element.type
