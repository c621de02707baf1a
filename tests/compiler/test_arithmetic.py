"""Types of products, and widths of scales, shifts and biases, read off machines whose files state them.

Real factors as multiplier and shift are as near as the width allows, which exact fractions tell.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.compiler.machines import without
from tests.odd_elements import ODD_ELEMENTS
from tilewright.compiler.arithmetic import NumberFormat, arithmetic_of, longest_buffer, normalized, with_common_shift
from tilewright.compiler.errors import CompileError
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.language.numeric import IntegerType, Rounding, parse_integer_type
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory, integer_element

USUAL = NumberFormat(16, 6, 32, Rounding.EVEN)


def widths_of(machine: Machine) -> tuple[NumberFormat, NumberFormat]:
    """Those with which sums become activations, and activations others."""
    found = arithmetic_of(machine)
    of_sums, of_activations = (found.requantization(of, found.activation) for of in (found.sum, found.activation))
    return of_sums, of_activations


OF_SIXTEEN_BITS = ("base16-a16", "mixed16")

OTHERS = (*OF_SIXTEEN_BITS, "sequence16-a16", "llm16-a16", "mx16")
"""The last has activations of floating numbers."""

OF_BYTES = tuple(name for name in shipped_machines() if name not in OTHERS)
"""Shipped machines that compute with integers of eight bits."""


@pytest.mark.parametrize("name", OF_BYTES)
def test_shipped_machines(name: str) -> None:
    assert widths_of(load_machine(name)) == (USUAL, USUAL)


@pytest.mark.parametrize(
    ("override", "of_sums", "of_activations"),
    [
        ("memories.par.element.scale=uint12", replace(USUAL, scale_bits=12), USUAL),
        ("memories.par.element.shift=uint5", replace(USUAL, shift_bits=5), USUAL),
        ("memories.par.element.bias=int24", replace(USUAL, bias_bits=24), USUAL),
        ("instructions.add.imm.b_scale=uint10", USUAL, replace(USUAL, scale_bits=10)),
        ("instructions.add.imm.b_scale=int13", USUAL, replace(USUAL, scale_bits=12)),
        ("instructions.mul.imm.scale=uint11", USUAL, replace(USUAL, scale_bits=11)),
        ("rounding=away", *[replace(USUAL, rounding=Rounding.AWAY)] * 2),
    ],
)
def test_the_narrowest_counts(override: str, of_sums: NumberFormat, of_activations: NumberFormat) -> None:
    assert widths_of(load_machine("base16", [override])) == (of_sums, of_activations)


def test_types_that_no_instruction_requantises_have_the_narrowest_of_all() -> None:
    machine = load_machine("base16", ["memories.par.element.scale=uint12", "instructions.mul.imm.scale=uint11"])
    found = arithmetic_of(machine)

    assert found.requantization(found.activation, found.sum) == replace(USUAL, scale_bits=11)


WIDE = """
extends: base16
memories: {mid: {element: int16, width: lanes, depth: 64, banks: 1}}
engines:
  vec: {reads: [act, acc, par, lut, mid], writes: [act, acc, mid]}
instructions:
  to_wide:
    {engine: vec, loops: {i: 4}, from: {a: acc, p: par}, to: {y: mid}, imm: {scale: uint24, low: int16, high: int16},
     do: "y = clamp(round_shift((a + p.bias) * scale, p.shift), low, high)"}
  from_wide:
    {engine: vec, loops: {i: 4}, from: {a: mid}, to: {y: act}, imm: {scale: uint9, shift: uint5, low: int8, high: int8},
     do: "y = clamp(round_shift(a * scale, shift), low, high)"}
"""


def test_each_pair_of_types_has_widths_of_its_own() -> None:
    machine = load_machine_text(WIDE, "wide.yaml")
    found, wide = arithmetic_of(machine), parse_integer_type("int16")

    assert widths_of(machine) == (USUAL, USUAL)
    assert found.requantization(found.sum, wide) == replace(USUAL, scale_bits=24)
    assert found.requantization(wide, found.activation) == NumberFormat(9, 5, 32, Rounding.EVEN)


@pytest.mark.parametrize("name", OF_BYTES)
def test_a_table_of_activations_has_an_entry_for_each(name: str) -> None:
    found = arithmetic_of(load_machine(name))

    assert found.entries(found.activation) == 256


def test_a_machine_without_lookups_of_a_type_has_no_entries_for_it() -> None:
    assert arithmetic_of(load_machine("base16")).entries(parse_integer_type("uint8")) == 0
    assert arithmetic_of(load_machine("vector16")).entries(parse_integer_type("uint8")) == 256
    assert arithmetic_of(without(load_machine("base16"), "lookup")).entries(parse_integer_type("int8")) == 0


UNARY = "engine: vec, loops: {i: 4}, from: {a: act}, to: {y: act}"


@pytest.mark.parametrize(
    "added",
    [
        # rounds, but requantises nothing
        "imm: {zero: int8, slope: uint8, shift: uint3}, "
        'do: "y = sat(where(a < zero, round_shift((a - zero) * slope, shift), a - zero) + zero, int8)"',
        # requantises one value, as rescale does with more bits
        "imm: {a_zero: int8, scale: uint8, shift: uint4, zero: int8, low: int8, high: int8}, "
        'do: "y = clamp(round_shift((a - a_zero) * scale, shift) + zero, low, high)"',
    ],
)
def test_an_instruction_that_nothing_needs_changes_no_width(added: str) -> None:
    text = f"extends: base16\ninstructions: {{extra: {{{UNARY}, {added}}}}}\n"

    assert widths_of(load_machine_text(text, "m.yaml")) == (USUAL, USUAL)


def types_of(machine: Machine) -> tuple[str, str, str]:
    found = arithmetic_of(machine)
    return str(found.activation), str(found.weight), str(found.sum)


@pytest.mark.parametrize("name", OF_SIXTEEN_BITS)
def test_a_machine_of_sixteen_bits(name: str) -> None:
    machine = load_machine(name)
    assert widths_of(machine) == (NumberFormat(24, 6, 32, Rounding.EVEN), NumberFormat(26, 6, 40, Rounding.EVEN))
    assert types_of(machine) == ("int16", "int8", "int40")
    assert arithmetic_of(machine).entries(parse_integer_type("int16")) == 0


@pytest.mark.parametrize("name", OF_BYTES)
def test_shipped_machines_multiply_bytes_but_for_one(name: str) -> None:
    narrow = {"w4-only": ("int8", "int4", "int24")}
    assert types_of(load_machine(name)) == narrow.get(name, ("int8", "int8", "int32"))


def test_types_are_those_of_the_product() -> None:
    assert types_of(load_machine_text(ODD_ELEMENTS, "odd.yaml")) == ("uint5", "int8", "int20")


def test_without_a_product_memories_say_it() -> None:
    machine = load_machine_text(ODD_ELEMENTS, "odd.yaml")
    formats = {name: of for name, of in machine.formats.items() if of.engine.template is not Template.SYSTOLIC}

    assert types_of(replace(machine, formats=formats)) == ("uint5", "uint5", "int20")


NUMBER = NumberFormat(16, 6, 32, Rounding.EVEN)


def test_scales_are_normalized_and_nearest() -> None:
    factors = np.exp(np.random.default_rng(1).uniform(-20, 5, size=2000))
    scales, shifts = normalized(factors, NUMBER, "test")
    assert scales.min() >= 1 << 15 and scales.max() < 1 << 16
    for factor, scale, shift in zip(factors, scales, shifts, strict=True):
        error = abs(Fraction(factor) - Fraction(int(scale), 1 << int(shift)))
        assert error <= Fraction(1, 2) / (1 << int(shift))


@pytest.mark.parametrize(
    ("factor", "scale", "shift"),
    [
        (1.0, 1 << 15, 15),
        (0.5, 1 << 15, 16),
        (0.3, 39322, 17),  # 0.3 · 2**17 = 39321.6
        (1 - 2**-20, 1 << 15, 15),  # rounds up to the next power of two
        (65535.0, 65535, 0),
        (0.0, 0, 0),
        (2.0**-60, 4, 62),  # the shift is at its end
        (2.0**-80, 0, 62),
    ],
)
def test_by_hand(factor: float, scale: int, shift: int) -> None:
    scales, shifts = normalized(np.array([factor]), NUMBER, "test")
    assert (int(scales[0]), int(shifts[0])) == (scale, shift)


def test_a_factor_that_is_too_large_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        normalized(np.array([0.5, 70000.0]), NUMBER, "node 'conv' (conv)")
    assert str(caught.value) == (
        "node 'conv' (conv): the scales give the factor 70000; expected 0 to 65535: the result's scale is far too small"
    )


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_a_factor_that_is_no_number_is_refused(factor: float) -> None:
    message = f"^test: the scales give the factor {factor}; expected scales that are finite$"
    with pytest.raises(CompileError, match=message):
        normalized(np.array([0.5, factor]), NUMBER, "test")
    with pytest.raises(CompileError, match=message):
        with_common_shift(0.5, factor, NUMBER, "test")


def test_two_factors_share_the_shift_of_the_larger() -> None:
    assert with_common_shift(0.5, 0.75, NUMBER, "test") == (32768, 49152, 16)
    assert with_common_shift(4.0, 0.001, NUMBER, "test") == (32768, 8, 13)  # 0.001 · 2**13 = 8.192


def memory(depth: int, banks: int) -> Memory:
    return Memory("m", integer_element(IntegerType(8, True)), 4, depth, banks)


def test_groups_that_divide_a_bank_may_fill_the_memory() -> None:
    assert longest_buffer(memory(64, 4), 4) == 64


def test_groups_that_do_not_divide_a_bank_stay_within_one() -> None:
    # A bank of 15 words can begin one or two words before a multiple of 3, so 13 words are sure: 12 in whole groups.
    assert longest_buffer(memory(30, 2), 3) == 30
    assert longest_buffer(memory(32, 2), 3) == 12
