"""Types of products, and widths of scales, shifts and biases, read off machines whose files state them."""

from dataclasses import replace

import pytest

from tests.odd_elements import ODD_ELEMENTS
from tilewright.compiler.arithmetic import NumberFormat, arithmetic_of, number_format
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine


@pytest.mark.parametrize("name", ["base16", "tiny8", "rect"])
def test_shipped_machines(name: str) -> None:
    assert number_format(load_machine(name)) == NumberFormat(16, 6, 32, Rounding.EVEN)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("memories.par.element.scale=uint12", NumberFormat(12, 6, 32, Rounding.EVEN)),
        ("memories.par.element.shift=uint5", NumberFormat(16, 5, 32, Rounding.EVEN)),
        ("memories.par.element.bias=int24", NumberFormat(16, 6, 24, Rounding.EVEN)),
        ("instructions.add.imm.b_scale=uint10", NumberFormat(10, 6, 32, Rounding.EVEN)),
        ("instructions.add.imm.b_scale=int13", NumberFormat(12, 6, 32, Rounding.EVEN)),
        ("instructions.mul.imm.scale=uint11", NumberFormat(11, 6, 32, Rounding.EVEN)),
        ("rounding=away", NumberFormat(16, 6, 32, Rounding.AWAY)),
    ],
)
def test_the_narrowest_counts(override: str, expected: NumberFormat) -> None:
    assert number_format(load_machine("base16", [override])) == expected


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

    assert number_format(load_machine_text(text, "m.yaml")) == number_format(load_machine("base16"))


def types_of(machine: Machine) -> tuple[str, str, str]:
    found = arithmetic_of(machine)
    return str(found.activation), str(found.weight), str(found.sum)


@pytest.mark.parametrize("name", shipped_machines())
def test_shipped_machines_multiply_bytes(name: str) -> None:
    assert types_of(load_machine(name)) == ("int8", "int8", "int32")


def test_types_are_those_of_the_product() -> None:
    assert types_of(load_machine_text(ODD_ELEMENTS, "odd.yaml")) == ("uint5", "int8", "int20")


def test_without_a_product_memories_say_it() -> None:
    machine = load_machine_text(ODD_ELEMENTS, "odd.yaml")
    formats = {name: of for name, of in machine.formats.items() if of.engine.template is not Template.SYSTOLIC}

    assert types_of(replace(machine, formats=formats)) == ("uint5", "uint5", "int20")
