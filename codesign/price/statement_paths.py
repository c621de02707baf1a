"""Registers of the vector datapath in the words of a machine file: which operator, of which instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.templates.datapath_schedule import bind, schedule

REGISTER = re.compile(r"lane\d+_([a-z_]+?)_(\d+)(?:_[a-z_]+|_\d+)*(?:\[\d+\])?$")
"""As rtl/datapath.py names the registers of an operator, and those that delay its value."""


def operator_of(register: str) -> str:
    """`mul` for a register of a product; empty for what is no operator."""
    match = REGISTER.search(register)
    return match[1] if match else ""


def statement_of(register: str, formats: Sequence[InstructionFormat]) -> str:
    """`(a + p.bias) * p.scale of requantize` for a register of that product; empty for what is no operator.

    `formats` are those of the datapath's engine.
    """
    match = REGISTER.search(register)
    units = bind(schedule(formats))
    if match is None or int(match[2]) >= len(units) or units[int(match[2])].op.name.lower() != match[1]:
        return ""
    operations = units[int(match[2])].operations
    names = list(dict.fromkeys(formats[each.format].mnemonic for each in operations))
    return f"{operations[0].expr} of {', '.join(names)}"
