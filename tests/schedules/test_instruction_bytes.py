"""What is compared with the bytes of instructions that have their own lengths."""

from tests.schedules.instruction_bytes import bytes_of_one_length
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.files.loader import load_machine

TEXT = "fill y=act[0] value=1\nfill y=act[1] value=1 wait(vec=1)\n"


def test_one_length_is_that_of_the_longest_in_whole_beats() -> None:
    """The longest instruction is add: 358 bits in base16, on a bus of 16 bytes; 358 in wide32, on one of 32."""
    assert bytes_of_one_length(assemble(TEXT, load_machine("base16"))) == 2 * 48
    assert bytes_of_one_length(assemble(TEXT, load_machine("wide32"))) == 2 * 64
