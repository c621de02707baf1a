"""Binaries come back as they were, and whatever happens to one is found: any byte, any cut, any other machine."""

import os
import random
import shutil
import subprocess
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.fuzz.limits import limits
from tests.isa.random_instructions import random_instruction
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.binary import elf_writer
from tilewright.isa.binary.elf import from_bytes, load, save
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.program.budgets import UNBOUNDED, Budgets, OverBudget, parse_budgets
from tilewright.isa.program.program import Layer, Program, Tensor

BASE16 = load_machine("base16")


def small_program() -> Program:
    """Two layers, an input, an output, some weights."""
    text = """
    .metadata model "two layers"
    .workspace 4096
    .inputs 64
    .outputs 128
    .input x shape(1, 3) dtype=float32 scale=0.1 zero_point=3
    .output y shape(1, 20) dtype=uint8 scale=0.5 zero_point=-128 offset=64
    .int8 1, 2, 3
    conv1: nodes(/conv1/Conv, "a b") macs=100
      load_act d=inputs[0] y=act[0]
    pool:
      store_act y=act[0] d=outputs[64] wait(load=1)
    """
    return assemble(text, BASE16)


IMAGE = to_bytes(small_program())


def refusal(image: bytes) -> str:
    with pytest.raises(IsaError) as error:
        from_bytes(image, "net.npu")
    return str(error.value)


def with_digest(image: bytes) -> bytes:
    """The image with the right checksum of the whole file, as one who forges it would write."""
    end = elf_writer.FILE_DIGEST_OFFSET + elf_writer.DIGEST_BYTES
    return (
        image[: elf_writer.FILE_DIGEST_OFFSET]
        + elf_writer.file_digest(image, elf_writer.FILE_DIGEST_OFFSET)
        + image[end:]
    )


def section(name: str) -> tuple[int, int]:
    """File offset and size of a section of IMAGE."""
    found = ELFFile(BytesIO(IMAGE)).get_section_by_name(name)
    return found["sh_offset"], found["sh_size"]


@pytest.mark.parametrize("name", shipped_machines())
def test_loads_what_it_saves(tmp_path: Path, name: str) -> None:
    machine, rng = load_machine(name), random.Random(name)
    instructions = tuple(random_instruction(rng, machine) for _ in range(20))
    layers = (Layer("first", 0, ("n1",), 5), Layer("zweite Lage é", 7, (), 0))
    made = Program(machine, instructions, rng.randbytes(100), 1 << 20, (), (), layers, tuple([0, 1] * 10))
    save(made, tmp_path / "net.npu")
    assert load(tmp_path / "net.npu", budgets=UNBOUNDED) == made
    assert load(tmp_path / "net.npu", machine, UNBOUNDED) == made


def test_loads_a_machine_with_overrides() -> None:
    machine = load_machine("base16", ["memories.act.kib=128"])
    made = replace(small_program(), machine=machine, instructions=())
    made = replace(made, layers=(), provenance=())
    assert from_bytes(to_bytes(made), "net.npu").machine == machine


def test_gives_the_same_bytes_each_time() -> None:
    assert to_bytes(small_program()) == IMAGE
    assert to_bytes(from_bytes(IMAGE, "net.npu")) == IMAGE


def test_loads_an_empty_program() -> None:
    empty = Program(BASE16, (), b"", 0, (), ())
    assert from_bytes(to_bytes(empty), "net.npu") == empty


def test_names_the_first_instruction_of_each_layer(tmp_path: Path) -> None:
    save(small_program(), tmp_path / "net.npu")
    with (tmp_path / "net.npu").open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".symtab").iter_symbols())[1:]
        assert [(s.name, s["st_value"], s["st_size"], s["st_info"]["type"]) for s in symbols] == [
            ("conv1", 0, 40, "STT_FUNC"),  # load_act has 297 bits, as store_act: ten words
            ("pool", 40, 40, "STT_FUNC"),
        ]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs binutils")
def test_readelf_reads_it_without_warnings(tmp_path: Path) -> None:
    save(small_program(), tmp_path / "net.npu")
    ran = subprocess.run(["readelf", "-aW", tmp_path / "net.npu"], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert "arning" not in ran.stdout and "rror" not in ran.stdout
    assert "conv1" in ran.stdout and ".bss.workspace" in ran.stdout


def test_refuses_every_flipped_byte() -> None:
    rng = random.Random(1)
    for position in range(len(IMAGE)):
        damaged = bytearray(IMAGE)
        damaged[position] ^= rng.randint(1, 255)
        assert refusal(bytes(damaged)).startswith("net.npu: ")


@pytest.mark.slow
def test_refuses_every_flipped_bit() -> None:
    for position in range(8 * len(IMAGE)):
        damaged = bytearray(IMAGE)
        damaged[position // 8] ^= 1 << position % 8
        refusal(bytes(damaged))


def test_refuses_every_truncation() -> None:
    for length in range(len(IMAGE)):
        text = refusal(IMAGE[:length])
        assert "truncated" in text or length == 0


@pytest.mark.parametrize("name", [".text", ".rodata", ".note.tilewright", ".symtab", ".strtab"])
def test_says_which_section_is_damaged(name: str) -> None:
    offset, _ = section(name)
    damaged = bytearray(IMAGE)
    damaged[offset] ^= 1
    assert refusal(bytes(damaged)) == (
        f"net.npu: damaged: wrong checksum of section {name}; copy or compile the program again"
    )


def test_says_that_headers_are_damaged() -> None:
    damaged = bytearray(IMAGE)
    damaged[elf_writer.HEADER.size] ^= 1
    assert refusal(bytes(damaged)) == (
        "net.npu: damaged: wrong checksum of the headers; copy or compile the program again"
    )


def test_says_how_many_bytes_are_missing() -> None:
    assert refusal(IMAGE[:-5]) == f"net.npu: truncated: {len(IMAGE)} bytes expected, {len(IMAGE) - 5} came"
    assert refusal(IMAGE[:40]) == "net.npu: truncated: an ELF header has 64 bytes, 40 came"


def test_refuses_bytes_after_the_end() -> None:
    assert refusal(IMAGE + b"x") == (
        f"net.npu: damaged: {len(IMAGE)} bytes expected by its header, {len(IMAGE) + 1} came"
    )


def test_refuses_what_is_not_elf() -> None:
    assert refusal(b"PK\3\4" + bytes(100)) == "net.npu: not an ELF file: it does not begin with \\x7fELF"


def test_refuses_an_elf_file_of_another_kind() -> None:
    other = bytearray(IMAGE)
    other[18:20] = (62).to_bytes(2, "little")
    assert refusal(bytes(other)) == ("net.npu: not a Tilewright program: an ELF file for machine 0x3e, expected 0x5754")


def test_refuses_another_format() -> None:
    other = bytearray(IMAGE)
    other[48] += 2
    assert refusal(bytes(other)) == "net.npu: format 7, this version reads 4, 5 and 6; compile the program again"


def test_refuses_another_machine() -> None:
    tiny8 = load_machine("tiny8")
    with pytest.raises(IsaError) as error:
        from_bytes(IMAGE, "net.npu", tiny8)
    assert str(error.value) == (
        f"net.npu: built for base16 (hash {BASE16.hash[:12]}), given tiny8 (hash {tiny8.hash[:12]}); compile it for "
        "the machine that will run it"
    )


def test_refuses_a_forged_opcode() -> None:
    offset, _ = section(".text")
    forged = bytearray(IMAGE)
    forged[offset] = 0xFF
    assert refusal(with_digest(bytes(forged))).startswith(
        "net.npu: instruction 0: unknown opcode 255; the machine has:"
    )


def test_refuses_forged_machine_text() -> None:
    start = IMAGE.index(b"lanes: 16")
    forged = IMAGE[:start] + b"lanes: 32" + IMAGE[start + 9 :]
    assert refusal(with_digest(forged)) == (
        "net.npu: the machine's text does not have the machine's hash; compile the program again"
    )


def test_refuses_forged_sizes() -> None:
    table = int.from_bytes(IMAGE[40:48], "little")
    size = table + 5 * elf_writer.SECTION.size + 32
    forged = IMAGE[:size] + (1 << 40).to_bytes(8, "little") + IMAGE[size + 8 :]
    assert refusal(with_digest(forged)) == (
        f"net.npu: the workspace region has {1 << 40} bytes; the 32-bit offsets of base16 reach {1 << 32}"
    )


def test_refuses_forged_bytes() -> None:
    rng = random.Random(1)
    for _ in range(300):
        forged = bytearray(IMAGE)
        for _ in range(rng.choice([1, 1, 2, 5])):
            forged[rng.randrange(4, len(IMAGE))] = rng.choice([0, 1, 0x7F, 0xFF, rng.randint(0, 255)])
        image = with_digest(bytes(forged))
        if image != IMAGE:
            assert refusal(image).startswith("net.npu: ")


def test_refuses_a_region_beyond_the_offsets() -> None:
    with pytest.raises(IsaError) as error:
        to_bytes(replace(small_program(), workspace_bytes=(1 << 32) + 1))
    assert str(error.value) == (
        f"the workspace region has {(1 << 32) + 1} bytes; the 32-bit offsets of base16 reach {1 << 32}"
    )


def test_refuses_a_scale_that_is_not_a_number() -> None:
    tensor = Tensor("x", (1,), (1, 1, 1, 1), "float32", float("nan"), 0, 0, 16)
    with pytest.raises(IsaError, match="^the program's description cannot be written as JSON: "):
        to_bytes(replace(small_program(), inputs=(tensor,)))


def test_leaves_nothing_behind_when_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "net.npu").mkdir()
    with pytest.raises(IsaError, match="cannot be written"):
        save(small_program(), tmp_path / "net.npu")
    assert [path.name for path in tmp_path.iterdir()] == ["net.npu"]


def test_keeps_the_old_file_when_it_cannot_make_a_new_one(tmp_path: Path) -> None:
    save(small_program(), tmp_path / "net.npu")
    with pytest.raises(IsaError):
        save(replace(small_program(), workspace_bytes=-1), tmp_path / "net.npu")
    assert (tmp_path / "net.npu").read_bytes() == IMAGE


def test_says_that_a_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IsaError) as error:
        load(tmp_path / "none.npu")
    assert str(error.value) == f"{tmp_path / 'none.npu'}: cannot be read: No such file or directory"


def test_reads_no_further_than_a_wrong_beginning(tmp_path: Path) -> None:
    """What has no end, such as a device of zeros, is refused too: here a pipe whose writer waits."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(writer, bytes(4096))
    with pytest.raises(IsaError, match="not an ELF file"):
        load(tmp_path / "pipe")
    os.close(writer)


# -- what a file asks for ----------------------------------------------------------------------------------------------


def from_a_stranger(text: str) -> bytes:
    """A small file with right checksums, from an assembly text."""
    image = to_bytes(assemble(text, BASE16))
    assert len(image) < 20_000
    return image


ASKS = {
    "iterations": (
        "copy loops(i=1024, j=1024, k=1024) a=act[0] y=act[9]",
        "net.npu: the instructions have 1,073,741,824 iterations; the budget is 1,000,000,000 iterations: if you trust "
        "the program, raise it with --budget iterations=1073741824",
    ),
    "a region": (
        ".workspace 4294967296",
        "net.npu: a run takes 12,290 MiB of memory, the largest part of it for the region workspace; the budget is "
        "1,024 MiB: if you trust the program, raise it with --budget memory=12290M",
    ),
    "an instruction": (
        "copy loops(i=100, j=1000, k=1000) a=act[0; k=1] y=act[5000; k=1]",
        "net.npu: a run takes 7,633 MiB of memory, the largest part of it for an instruction copy; the budget is "
        "1,024 MiB: if you trust the program, raise it with --budget memory=7633M",
    ),
}


@pytest.mark.parametrize("what", ASKS)
def test_refuses_a_small_file_that_asks_for_much(what: str) -> None:
    text, expected = ASKS[what]
    assert refusal(from_a_stranger(text)) == expected


@pytest.mark.parametrize("what", ["iterations", "a region"])
def test_loads_it_with_the_budget_that_the_refusal_names(what: str) -> None:
    text, expected = ASKS[what]
    image = from_a_stranger(text)
    with pytest.raises(OverBudget) as refused:
        from_bytes(image, "net.npu")
    budgets = parse_budgets([expected.rpartition("--budget ")[2]])
    assert getattr(budgets, refused.value.budget) >= refused.value.asked
    assert from_bytes(image, "net.npu", budgets=replace(budgets, memory=UNBOUNDED.memory)) == assemble(text, BASE16)


def test_counts_the_bytes_that_instructions_move() -> None:
    image = from_a_stranger(".inputs 64\nload_act loops(j=1000, k=10) d=inputs[0] y=act[0]")
    with pytest.raises(OverBudget) as refused:
        from_bytes(image, "net.npu", budgets=Budgets(moved=159_999))
    assert str(refused.value) == (
        "net.npu: the instructions move 160,000 bytes between DRAM and the machine; the budget is 159,999 bytes: if "
        "you trust the program, raise it with --budget moved=1M"
    )
    from_bytes(image, "net.npu", budgets=Budgets(moved=160_000))


def test_counts_the_arrays_of_tensors_that_share_a_region() -> None:
    tensors = "".join(
        f".output y{number} shape(1, 16, 1000, 1000) dtype=uint8 scale=1.0 zero_point=0 offset=0\n"
        for number in range(16)
    )
    assert "a run takes" in refusal(from_a_stranger(".outputs 16000000\n" + tensors))


def test_refuses_a_machine_with_more_memory_than_the_budget() -> None:
    machine = load_machine("base16", ["memories.act.kib=65536", "memories.acc.kib=65536", "memories.wgt.kib=65536"])
    image = to_bytes(Program(machine, (), b"", 0, (), ()))
    with pytest.raises(OverBudget, match="of memory, the largest part of it for the memory act; the budget is 256 MiB"):
        from_bytes(image, "net.npu", budgets=Budgets(memory=1 << 28))


def test_refuses_provenance_that_is_not_one_number_for_each_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    for count in (1, 3, 100_000):
        image = to_bytes(replace(small_program(), provenance=(0,) * count))
        assert refusal(image) == (
            f"net.npu: the provenance table has {4 * count} bytes; expected 4 for each of the 2 instructions, or none: "
            "compile the program again"
        )


@pytest.mark.parametrize("name", [".text", ".rodata"])
@pytest.mark.parametrize("change", ["is all zeros", "is compressed"])
def test_takes_no_bytes_of_a_section_that_the_file_does_not_have(name: str, change: str) -> None:
    """A section without content, as .bss is, may be of any size; one that is compressed may unpack to any size."""
    table = int.from_bytes(IMAGE[40:48], "little")
    number = elf_writer.ORDER.index(name) + 1
    at = table + number * elf_writer.SECTION.size
    header = list(elf_writer.SECTION.unpack_from(IMAGE, at))
    if change == "is all zeros":
        header[1], header[5] = elf_writer.NOBITS, 1 << 30
    else:
        header[2] |= 0x800
    image = bytearray(IMAGE)
    elf_writer.SECTION.pack_into(image, at, *header)
    with limits():
        assert refusal(with_digest(bytes(image))).startswith("net.npu: ")
