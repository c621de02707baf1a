"""However an image arrives, the host orders its elements: the same cycles, and what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import random_inputs, run_onnx
from tests.formats.images import Image
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes

INTEGERS = ("int8", "uint8")

FORMS = [
    *(Image(steps, dtype) for dtype in INTEGERS for steps in ("DT", "TD", "FD", "DF", "FTD", "FDT", "DFT")),
    *(Image(steps, "float32") for steps in ("QD", "TQD", "QTD", "QDT", "FQD", "FTQD", "FQTD", "QFTD", "QDFT")),
    *(Image(steps, dtype, 1) for dtype in INTEGERS for steps in ("D", "DT", "TD", "DR", "RD", "FTD", "DFT")),
    *(Image(steps, "float32", 1) for steps in ("TQD", "QTD", "QDT", "RQD", "QRD", "QDR", "FTQD")),
]

PREPARED = [Image(steps, dtype) for dtype in INTEGERS for steps in ("CSQTD", "CTSQD", "TCSQD", "CSTQD", "CSQDT")]
"""Images that are prepared in float before they are quantised."""


def name_of(image: Image) -> str:
    return f"{image.steps}-{image.dtype}-{image.channels}"


def inferred(image: Image) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(image.model(), strict_mode=True)


def require_same(program: tilewright.Program, image: Image) -> None:
    """Assert that a program gives what ONNX Runtime computes, but for a few values that are one step apart."""
    inputs = random_inputs(inferred(image), np.random.default_rng(2))
    apart = np.abs(program.run(inputs).outputs["result"] - run_onnx(inferred(image), inputs)["result"]) / 0.03
    assert apart.max() < 1.01
    assert (apart > 0.5).mean() < 0.01


@pytest.fixture(scope="module")
def plain() -> dict[int, int]:
    """The cycles of the network on an image of so many channels that is already as the machine takes it."""
    return {
        channels: tilewright.compile(inferred(Image("D", "int8", channels)), "base16").profile()["cycles"]
        for channels in (1, 3)
    }


@pytest.mark.parametrize("image", FORMS, ids=name_of)
def test_takes_the_cycles_of_the_plain_form(image: Image, plain: dict[int, int]) -> None:
    program = tilewright.compile(inferred(image), "base16", host=False)
    assert program.profile()["cycles"] == plain[image.channels]
    require_same(program, image)


@pytest.mark.parametrize("image", PREPARED, ids=name_of)
def test_the_host_prepares_an_image(image: Image, plain: dict[int, int]) -> None:
    program = tilewright.compile(inferred(image), "base16")
    assert program.profile()["cycles"] == plain[image.channels]
    assert {node.op_type for node in program.host_nodes} <= {"Cast", "Sub", "Transpose"}
    require_same(program, image)


def test_the_first_layer_of_a_larger_image_takes_few_cycles() -> None:
    """The array alone needs 4,608: 48 × 48 results of two vectors each."""
    program = tilewright.compile(inferred(Image("TD", "int8", size=96)), "base16", host=False)
    assert program.profile()["cycles"] <= 6000


def test_texts_and_binaries_keep_the_view() -> None:
    program = tilewright.compile(inferred(Image("FTD", "uint8")), "base16", host=False).binary
    (image,) = program.inputs
    assert (image.view, image.axes) == ((1, 12, 12, 3), (0, 3, 1, 2))
    assert from_bytes(to_bytes(program), "image").inputs == program.inputs
    assert assemble(disassemble(program), program.machine).inputs == program.inputs
