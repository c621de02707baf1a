"""tilewright.svd: the registers for debuggers and code generators, as CMSIS-SVD 1.3 describes a device.

https://open-cmsis-pack.github.io/svd-spec/main/elem_device.html
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tilewright.isa.machine.machine import Machine

BASE = 0
"""Where the registers begin: a board's own file of its devices says where that is."""


def registers_svd(machine: Machine) -> str:
    """The file. A register of 64 bits is two of 32, `NAME_LOW` and `NAME_HIGH`, as they are read."""
    from tilewright.rtl.registers import WORD_BYTES, bits_of, register_map  # loads Amaranth

    device = Element("device", {"schemaVersion": "1.3"})
    _texts(device, name="TILEWRIGHT", version="1.0", description=f"The Tilewright machine {machine.name}")
    _texts(device, addressUnitBits="8", width=str(8 * WORD_BYTES), size=str(8 * WORD_BYTES), access="read-only")
    peripheral = SubElement(SubElement(device, "peripherals"), "peripheral")
    _texts(peripheral, name="NPU", description=f"hash {machine.hash}", baseAddress=f"{BASE:#x}")
    last = register_map(machine)[-1]
    block = SubElement(peripheral, "addressBlock")
    _texts(block, offset="0x0", size=f"{last.offset + last.words * WORD_BYTES:#x}", usage="registers")
    registers = SubElement(peripheral, "registers")
    for of in register_map(machine):
        for word, name in enumerate(_words(of.name, of.words)):
            register = SubElement(registers, "register")
            _texts(register, name=name, description=of.about, addressOffset=f"{of.offset + word * WORD_BYTES:#x}")
            _texts(register, access="read-write" if of.is_writable else "read-only")
            if bits := bits_of(of.name):
                fields = SubElement(register, "fields")
                for field, bit in bits.items():
                    _texts(SubElement(fields, "field"), name=field.upper(), bitOffset=str(bit), bitWidth="1")
    indent(device)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(device, encoding="unicode")}\n'


def _words(name: str, words: int) -> Iterator[str]:
    plain = name.replace(".", "_").upper()
    return iter([plain] if words == 1 else [f"{plain}_LOW", f"{plain}_HIGH"])


def _texts(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = text
