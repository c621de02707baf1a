"""tilewright_registers.py and NAME_program.py: registers and a program's regions, for the driver in Python."""

from __future__ import annotations

from pprint import pformat

from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import FAULT_CAUSES
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES, Program

WIDTH = 110


def registers_python(machine: Machine) -> str:
    """Constants by name, from the table of which the hardware is made."""
    from tilewright.rtl.registers import BITS, ID, register_map  # loads Amaranth

    bits: dict[str, dict[str, int]] = {}
    for bit in BITS:
        bits.setdefault(bit.register, {})[bit.name] = 1 << bit.number
    facts = {
        "ID": ID,
        "REGISTERS": {register.name: register.offset for register in register_map(machine)},
        "BITS": bits,
        "FAULTS": {int(code): text for code, text in FAULT_CAUSES.items()},
        "REGIONS": tuple(REGIONS),
        "REGION_ALIGNMENT": REGION_ALIGNMENT_BYTES,
    }
    head = f'"""Registers of the machine {machine.name}, hash {machine.hash}: offsets, bits, faults."""\n\n'
    return head + _assigned(facts)


def program_python(program: Program) -> str:
    """What `Machine.load` takes of a program."""
    facts = {"ISA_HASH": int(program.machine.hash[:8], 16), "REGION_BYTES": dict(program.limits)}
    return f'"""Regions of a program for the machine {program.machine.name}."""\n\n{_assigned(facts)}'


def _assigned(facts: dict[str, object]) -> str:
    return "\n".join(f"{name} = {pformat(value, width=WIDTH, sort_dicts=False)}\n" for name, value in facts.items())
