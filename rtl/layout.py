"""The bits of an encoded instruction as an Amaranth layout, made from its format, so that nobody slices by hand."""

from __future__ import annotations

from amaranth.hdl import Shape, ValueLike, signed, unsigned
from amaranth.lib import data

from isa.encoding import InstructionFormat
from isa.numeric import IntegerType, Interval


def integer_shape(of: IntegerType | Interval) -> Shape:
    """The narrowest shape that holds every value of a type or an interval."""
    return signed(of.bits) if of.is_signed else unsigned(of.bits)


def instruction_layout(of: InstructionFormat, bits: int) -> data.FlexibleLayout:
    """A layout of `bits` bits in which every field of the format stands by its name, such as `trip.k` or `a.base`.

    A field holds what is stored: of a trip count, one less, which is the last index of its loop.
    """
    fields = {field.name: data.Field(integer_shape(field.type), field.low_bit) for field in of.fields}
    return data.FlexibleLayout(bits, fields)


def instruction_view(of: InstructionFormat, bits: ValueLike) -> data.View:
    """An instruction's encoded bits with its fields by name: `instruction_view(mma, bits)["a.base"]`.

    Strides come signed. The fields `opcode` and `wait.<engine>` are at the same place in every format of a machine.
    """
    return data.View(instruction_layout(of, len(bits)), bits)
