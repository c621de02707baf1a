"""tilewright_registers.h and .c: the machine's registers, from the table of which the hardware is made."""

from __future__ import annotations

from tilewright.bundle.c_text import string
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import FAULT_CAUSES
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES


def registers_header(machine: Machine) -> str:
    """The header: offsets, bits, and what a fault's code means."""
    from tilewright.rtl.registers import BITS, ID, register_map  # loads Amaranth

    lines = [
        f"/* Registers of the machine {machine.name}, hash {machine.hash}. */",
        "#ifndef TILEWRIGHT_REGISTERS_H",
        "#define TILEWRIGHT_REGISTERS_H",
        "",
        "#include <stdint.h>",
        "",
        *(f"/* {each.about} */\n#define {_macro(each.name)} {each.offset:#x}U" for each in register_map(machine)),
        "",
        f"#define TILEWRIGHT_ID_VALUE {ID:#010x}U",
        *(f"#define TILEWRIGHT_{bit.register.upper()}_{bit.name.upper()} {1 << bit.number}U" for bit in BITS),
        "",
        *(f"#define TILEWRIGHT_FAULT_{code.name} {code.value}U" for code in FAULT_CAUSES),
        f"#define TILEWRIGHT_FAULTS {max(FAULT_CAUSES) + 1}U",
        "",
        *(f"#define TILEWRIGHT_REGION_{name.upper()} {number}U" for number, name in enumerate(REGIONS)),
        f"#define TILEWRIGHT_REGIONS {len(REGIONS)}U",
        f"#define TILEWRIGHT_REGION_ALIGNMENT {REGION_ALIGNMENT_BYTES}U",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "extern const uint32_t tilewright_region_base[TILEWRIGHT_REGIONS];",
        "extern const uint32_t tilewright_region_limit[TILEWRIGHT_REGIONS];",
        "extern const char *const tilewright_fault_text[TILEWRIGHT_FAULTS];",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def registers_source() -> str:
    """The tables that the header declares."""
    bases, limits = (
        ", ".join(f"TILEWRIGHT_REGISTER_{region.upper()}_{end}" for region in REGIONS) for end in ("BASE", "LIMIT")
    )
    texts = {int(code): text for code, text in FAULT_CAUSES.items()}
    causes = ",\n    ".join(string(texts.get(code, "unknown")) for code in range(max(texts) + 1))
    return (
        '#include "tilewright_registers.h"\n\n'
        f"const uint32_t tilewright_region_base[TILEWRIGHT_REGIONS] = {{{bases}}};\n"
        f"const uint32_t tilewright_region_limit[TILEWRIGHT_REGIONS] = {{{limits}}};\n"
        f"const char *const tilewright_fault_text[TILEWRIGHT_FAULTS] = {{\n    {causes},\n}};\n"
    )


def _macro(name: str) -> str:
    return f"TILEWRIGHT_REGISTER_{name.replace('.', '_').upper()}"
