"""Encoded instructions and words of memories as Amaranth layouts, so that nobody slices bits by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amaranth.hdl import Cat, Const, Shape, Value, ValueLike, signed, unsigned
from amaranth.lib import data

from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.memory import Element, Memory

PLAIN = "value"
"""The name, in layouts, of the one integer of an element that is not a structure."""


def integer_shape(numbers: IntegerType | Interval) -> Shape:
    """The narrowest shape that holds every value of a type or an interval."""
    return signed(numbers.bits) if numbers.is_signed else unsigned(numbers.bits)


def instruction_layout(format: InstructionFormat, bits: int) -> data.FlexibleLayout:
    """A layout of `bits` bits in which every field of the format stands by its name, such as `trip.k` or `a.base`.

    A field holds what is stored: of a trip count, one less, which is the last index of its loop.
    """
    fields = {field.name: data.Field(integer_shape(field.type), field.low_bit) for field in format.fields}
    return data.FlexibleLayout(bits, fields)


def instruction_view(format: InstructionFormat, bits: ValueLike) -> data.View:
    """An instruction's encoded bits with its fields by name: `instruction_view(mma, bits)["a.base"]`.

    Strides come signed. The fields `opcode` and `wait.<engine>` are at the same place in every format of a machine.
    """
    return data.View(instruction_layout(format, len(bits)), bits)


def element_layout(element: Element) -> data.FlexibleLayout:
    """A layout of the bits that an element takes in memory; the field of a plain element is named PLAIN."""
    if element.type is not None:
        return data.FlexibleLayout(element.bits, {PLAIN: data.Field(integer_shape(element.type), 0)})
    fields = {field.name: data.Field(integer_shape(field.type), field.low_bit) for field in element.fields}
    return data.FlexibleLayout(element.bits, fields)


def stored(value: Value, element: Element) -> Value:
    """A value of a plain element's type as its bits in memory: sign-extended if the type is signed, else with zeros."""
    fill = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, fill.replicate(element.bits - len(value)))


def word_layout(memory: Memory, words: int = 1) -> data.ArrayLayout:
    """A layout of consecutive words as their elements, first element lowest."""
    return data.ArrayLayout(element_layout(memory.element), words * memory.width)


def immediate_places(formats: Sequence[InstructionFormat]) -> dict[str, int]:
    """The first bit of each immediate, by name: the lowest place that is free in every format which has it.

    So an immediate has one place in all its formats, and those of formats without common ones lie over each other.
    """
    types = [(name, type_) for format in formats for name, type_ in format.immediates.items()]
    bits = {name: max(type_.bits for other, type_ in types if other == name) for name, _ in types}
    places: dict[str, int] = {}
    for name, size in bits.items():
        together = {other for format in formats if name in format.immediates for other in format.immediates}
        taken = [range(places[other], places[other] + bits[other]) for other in together & places.keys()]
        starts = sorted([0, *(others.stop for others in taken)])
        places[name] = next(
            start for start in starts if all(start + size <= others.start or start >= others.stop for others in taken)
        )
    return places


def immediates_layout(format: InstructionFormat, places: Mapping[str, int]) -> data.FlexibleLayout:
    """A layout of a format's immediates at these places."""
    fields = {name: data.Field(integer_shape(type_), places[name]) for name, type_ in format.immediates.items()}
    return data.FlexibleLayout(max([0, *(field.offset + field.width for field in fields.values())]), fields)
