"""The JSON in a binary comes back as it was, and any wrong value in it is named."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.binary.description import describe, read_description
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.stored_types import DTYPES, INTEGERS

PROGRAM = assemble(
    """
    .metadata model digits
    .input x shape(1, 3, 8, 8) dtype=float32 scale=0.25 zero_point=-7 offset=64
    .output y shape(1, 10) dtype=uint8 scale=2
    .output z shape(1, 3, 4, 4) dtype=float32 integers=uint16 scales(box(1,1,4,4) values(1,2,3) zero_points(0,9,9))
    conv: nodes(a, b) macs=7
    """,
    load_machine("base16"),
)


PARTS = "of [1, 3, 4, 4]: expected as many dimensions, and a scale and a zero point for each of"


def test_comes_back_as_it_was() -> None:
    read = read_description(describe(PROGRAM))
    assert (read.inputs, read.outputs, read.layers) == (PROGRAM.inputs, PROGRAM.outputs, PROGRAM.layers)
    assert read.metadata == {"model": "digits"}


def changed(change: Callable[[dict[str, Any]], None]) -> str:
    """The refusal of a description after one change."""
    content = json.loads(describe(PROGRAM))
    change(content)
    with pytest.raises(IsaError) as error:
        read_description(json.dumps(content).encode())
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("shape", 3, "inputs[0].shape: expected a list, not 3"),
        ("shape", [1, -3], "inputs[0].shape[1]: expected an integer from 1 to 1099511627775, not -3"),
        ("stored", [1, 2, 3], "inputs[0].stored: expected 4 sizes [N, C, H, W], not 3"),
        ("dtype", "int5", f"inputs[0].dtype: expected {', '.join(DTYPES)}, not 'int5'"),
        ("integers", "int5", f"inputs[0].integers: expected {', '.join(INTEGERS)}, not 'int5'"),
        ("integers", "uint4", "inputs[0].zero_point: expected an integer from 0 to 15, not -7"),
        ("scale", -1, "inputs[0].scale: expected a positive number, not -1"),
        ("scale", "1", "inputs[0].scale: expected a positive number, not '1'"),
        ("zero_point", 200, "inputs[0].zero_point: expected an integer from -128 to 127, not 200"),
        ("zero_point", True, "inputs[0].zero_point: expected an integer from -128 to 127, not True"),
        ("offset", -1, f"inputs[0].offset: expected an integer from 0 to {(1 << 63) - 1}, not -1"),
        ("name", None, "inputs[0].name: expected a text, not None"),
    ],
)
def test_names_the_wrong_value_of_a_tensor(key: str, value: object, message: str) -> None:
    assert changed(lambda content: content["inputs"][0].update({key: value})) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("box", [1, 1, 2, 4], f"outputs[1]: boxes [1, 1, 2, 4] {PARTS} 6 boxes, got 3 and 3"),
        ("box", [1, 1, 4], f"outputs[1]: boxes [1, 1, 4] {PARTS} 0 boxes, got 3 and 3"),
        ("values", [1, 0, 3], "outputs[1].scales.values[1]: expected a positive number, not 0"),
        ("zero_points", [0, 1, 65536], "outputs[1]: z: zero points of uint16 are from 0 to 65535"),
    ],
)
def test_names_the_wrong_value_of_scales(key: str, value: object, message: str) -> None:
    assert changed(lambda content: content["outputs"][1]["scales"].update({key: value})) == message


def test_a_tensor_with_scales_of_parts_has_none_of_its_own() -> None:
    assert changed(lambda content: content["outputs"][1].update(scale=2)) == (
        "outputs[1]: z: a tensor with a scale for each box has scale 1 and zero point 0 itself"
    )


def test_names_a_key_that_does_not_belong() -> None:
    assert changed(lambda content: content["layers"][0].update(size=3)) == (
        "layers[0]: expected the keys name, first_instruction, nodes, macs, "
        "not first_instruction, macs, name, nodes, size"
    )


def test_names_metadata_that_is_not_text() -> None:
    assert changed(lambda content: content["metadata"].update(model=3)) == "metadata.model: expected a text, not 3"


def test_names_a_text_that_no_file_can_hold() -> None:
    for metadata in ({"model": "a\ud800"}, {"a\ud800": "model"}):
        assert "has half of a surrogate pair" in changed(lambda content, m=metadata: content.update(metadata=m))


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_refuses_what_is_not_json(text: bytes) -> None:
    with pytest.raises(IsaError, match="^the description is not JSON: "):
        read_description(text)
