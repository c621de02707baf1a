"""Networks in parts come back as they were, and whatever happens to their file is found."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.binary.elf_writer import DIGEST_BYTES, file_digest
from tilewright.isa.binary.partitioned_elf import (
    DIGEST_OFFSET,
    load_any,
    partitioned_from_bytes,
    partitioned_to_bytes,
    save_any,
)
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NetworkValue, NpuSegment, Partitioned

BASE16 = load_machine("base16")

TEXT = """
.inputs 64
.outputs 64
.input x shape(1, 3) dtype=int8 scale=0.1 zero_point=3
.output y shape(1, 3) dtype=int8 scale=0.5 zero_point=0
copy:
  load_act d=inputs[0] y=act[0]
  store_act y=act[0] d=outputs[0] wait(load=1)
"""


def small_network() -> Partitioned:
    """A program, then a host's part."""
    node = HostNode("cumsum", "CumSum", "no lowering", 6)
    segments = (NpuSegment(assemble(TEXT, BASE16)), HostSegment(b"not read here", ("y",), ("z",), (node,)))
    values = (NetworkValue("x", "int8", (1, 3)),), (NetworkValue("z", "int64", (1, None)),)
    return Partitioned(BASE16, segments, *values, {"model": "small"})


IMAGE = partitioned_to_bytes(small_network())


def refusal(image: bytes) -> str:
    with pytest.raises(IsaError) as error:
        partitioned_from_bytes(image, "net.npu")
    return str(error.value)


def with_digest(image: bytes) -> bytes:
    """The image with the right checksum of the whole file, as one who forges it would write."""
    end = DIGEST_OFFSET + DIGEST_BYTES
    return image[:DIGEST_OFFSET] + file_digest(image, DIGEST_OFFSET) + image[end:]


def test_loads_what_it_saves(tmp_path: Path) -> None:
    save_any(small_network(), tmp_path / "net.npu")
    assert load_any(tmp_path / "net.npu") == small_network()
    assert load_any(tmp_path / "net.npu", BASE16) == small_network()


def test_saves_and_loads_a_program_too(tmp_path: Path) -> None:
    program = assemble(TEXT, BASE16)
    save_any(program, tmp_path / "net.npu")
    assert load_any(tmp_path / "net.npu") == program


def test_loads_what_has_no_program() -> None:
    host = replace(small_network(), segments=small_network().segments[1:])
    assert partitioned_from_bytes(partitioned_to_bytes(host), "net.npu") == host


def test_refuses_every_flipped_byte() -> None:
    rng = random.Random(1)
    for position in range(0, len(IMAGE), 7):
        damaged = bytearray(IMAGE)
        damaged[position] ^= rng.randint(1, 255)
        assert refusal(bytes(damaged)).startswith("net.npu: ")


def test_names_the_damaged_section() -> None:
    damaged = bytearray(IMAGE)
    damaged[IMAGE.index(b"not read here")] ^= 1
    assert refusal(bytes(damaged)) == (
        "net.npu: damaged: wrong checksum of section .host.1; copy or compile the network again"
    )


def test_refuses_every_cut(tmp_path: Path) -> None:
    for length in (*range(0, 200), *range(200, len(IMAGE), 97)):
        (tmp_path / "net.npu").write_bytes(IMAGE[:length])
        with pytest.raises(IsaError, match=r"net\.npu: "):
            load_any(tmp_path / "net.npu")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"section": ".host.1"', b'"section": ".host.9"', "segments[1].section: section .host.9 is missing"),
        (b'"op_type"', b'"op_kind"', "segments[1].host_nodes[0]: expected the keys name, op_type, reason,"),
        (b'"kind": "host"', b'"kind": "HOST"', "segments[1].kind: expected npu or host, not 'HOST'"),
        (b'"dtype": "int64"', b'"dtype": "int65"', "outputs[0].dtype: 'int65' is no element type; expected"),
        (b'"segments": [', b'"segments": (', "the description of the segments is not JSON"),
        (b'"inputs": [\n    "y"', b'"inputs": [\n    "x"', "headers do not agree with the content"),
    ],
)
def test_refuses_a_forged_description(old: bytes, new: bytes, message: str) -> None:
    assert IMAGE.count(old) == 1 and len(old) == len(new)
    refused = refusal(with_digest(IMAGE.replace(old, new)))
    assert message in refused


def test_refuses_another_machine() -> None:
    with pytest.raises(IsaError, match=r"^net\.npu: built for base16 "):
        partitioned_from_bytes(IMAGE, "net.npu", load_machine("tiny8"))


def test_gives_the_same_bytes_each_time() -> None:
    assert partitioned_to_bytes(partitioned_from_bytes(IMAGE, "net.npu")) == IMAGE
