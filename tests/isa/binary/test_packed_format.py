"""Files of machines whose elements share bytes have a number of their own: before, each element had a byte."""

from pathlib import Path

import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.binary.elf import from_bytes, load
from tilewright.isa.binary.elf_writer import FORMAT, HEADER, PACKED_FORMAT, to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

BEFORE = Path(__file__).parent / "format_5.elf"
"""Of tiny8 with weights of int4, in a byte each."""


@pytest.mark.parametrize(("element", "number"), [("int4", PACKED_FORMAT), ("int8", FORMAT), ("int5", FORMAT)])
def test_only_what_shares_bytes_has_another_number(element: str, number: int) -> None:
    program = assemble(
        ".inputs 64\n  load_wgt d=inputs[0]\n", load_machine("tiny8", [f"memories.wgt.element={element}"])
    )
    image = to_bytes(program)
    assert HEADER.unpack_from(image)[7] == number
    assert from_bytes(image, "net.npu") == program


def test_refuses_a_file_in_which_each_element_has_a_byte() -> None:
    with pytest.raises(IsaError) as refused:
        load(BEFORE)
    fact = "format 5 has a byte for each element, and some of tiny8[memories.wgt.element=int4] share bytes now"
    assert str(refused.value) == f"{BEFORE}: {fact}; compile the program again"
