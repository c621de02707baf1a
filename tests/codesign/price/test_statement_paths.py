"""Registers of the datapath are said in the words of the machine file."""

from __future__ import annotations

import pytest

from tilewright.codesign.price.statement_paths import statement_of
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Template
from tilewright.isa.templates.datapath_schedule import bind, schedule

MACHINE = load_machine("tiny8", ["lanes=1"])
FORMATS = MACHINE.formats_of(Template.VECTOR)


def unit_of(op: Op) -> int:
    units = bind(schedule(FORMATS))
    return next(position for position, unit in enumerate(units) if unit.op is op)


@pytest.mark.parametrize("suffix", ["", "[3]", "_2[0]", "_low[32]", "_address"])
def test_a_register_of_a_product_names_its_instruction(suffix: str) -> None:
    found = statement_of(f"vec.datapath.lane0_mul_{unit_of(Op.MUL)}{suffix}", FORMATS)
    assert "*" in found and " of " in found
    assert any(name in found for name in MACHINE.formats)


@pytest.mark.parametrize("register", ["load.packer.window", "lane0_mul_9999", "lane0_add_"])
def test_what_is_no_operator_has_no_statement(register: str) -> None:
    assert statement_of(register, FORMATS) == ""
