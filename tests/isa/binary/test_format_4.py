"""Files of format 4, in which all instructions have one length, are read as the programs that they hold."""

from pathlib import Path

import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.binary.elf import from_bytes, load
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.binary.partitioned_elf import any_to_bytes, load_any, partitioned_from_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned

HERE = Path(__file__).parent
PROGRAM, PARTS = HERE / "format_4.elf", HERE / "format_4_parts.elf"

TEXT = """
.metadata model "of before"
.workspace 4096
.inputs 64
.outputs 128
.input x shape(1, 3) dtype=float32 scale=0.1 zero_point=3
.output y shape(1, 20) dtype=uint8 scale=0.5 zero_point=-128 offset=64
.int8 1, 2, 3
first: nodes(/conv1/Conv) macs=100
  fill y=act[0; k=1] loops(k=9) value=-7
  load_act d=inputs[0] y=act[3] wait(vec=1)
  copy a=act[0; k=1] y=act[9; k=-1] loops(k=3) wait(load=1)
second:
  add a=act[3] b=act[4] y=act[5] a_scale=9 b_scale=11 shift=3 zero=-4 low=-128 high=127 wait(vec=2)
  store_act y=act[5] d=outputs[64] wait(vec=3)
"""


def test_a_program_is_what_was_saved() -> None:
    """On the machine of the file, whose statements name their types in full."""
    assert load(PROGRAM) == assemble(TEXT, load(PROGRAM).machine)


def test_a_network_in_parts_is_what_was_saved() -> None:
    network = load_any(PARTS)
    assert isinstance(network, Partitioned)
    program, host = network.segments
    assert isinstance(program, NpuSegment) and isinstance(host, HostSegment)
    assert [one.mnemonic for one in program.program.instructions] == ["load_act", "store_act"]
    assert host.onnx == b"not read here"


@pytest.mark.parametrize("path", [PROGRAM, PARTS], ids=["program", "parts"])
def test_what_is_saved_again_is_of_the_format_of_now(path: Path, tmp_path: Path) -> None:
    binary = load_any(path)
    (tmp_path / "again.npu").write_bytes(any_to_bytes(binary))
    assert load_any(tmp_path / "again.npu") == binary
    assert len(any_to_bytes(binary)) < path.stat().st_size


def test_its_instructions_were_longer() -> None:
    """Five of 48 bytes then; now 24, 40, 28, 48 and 40."""
    program = load(PROGRAM)
    assert len(program.text) == 24 + 40 + 28 + 48 + 40
    assert len(PROGRAM.read_bytes()) - len(to_bytes(program)) == 5 * 48 - 192  # sections begin at multiples of 16


@pytest.mark.parametrize("position", [100, 200, 9000])
def test_finds_a_flipped_byte(position: int) -> None:
    damaged = bytearray(PROGRAM.read_bytes())
    damaged[position] ^= 1
    with pytest.raises(IsaError, match=r"^net\.npu: damaged: wrong checksum of "):
        from_bytes(bytes(damaged), "net.npu")


def test_finds_a_flipped_byte_of_a_network_in_parts() -> None:
    damaged = bytearray(PARTS.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(IsaError, match=r"^net\.npu: damaged: wrong checksum of "):
        partitioned_from_bytes(bytes(damaged), "net.npu")
