"""`profile --what-if`: what it prints is in the document, and it refuses what is no ideal part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.document import blocks, with_outputs
from tests.tilewright.command_line import Command
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.profiles.what_if import Bound, WhatIf, choices_of, print_what_if


@pytest.fixture
def program(tilewright: Command, repository: Path, tmp_path: Path) -> Path:
    path = tmp_path / "net.npu"
    model = repository / "programs/digits/digits_int8.onnx"
    assert tilewright("compile", model, "--isa", "base16", "-o", path).code == 0
    return path


def test_prints_what_the_document_shows(
    tilewright: Command, program: Path, repository: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    document = repository / "docs/profile.md"
    shown = next(block for block in blocks(document.read_text()) if block.language == "text")
    ended = tilewright("profile", program, "--what-if", "all", "--what-if", "bus=inf,latency=0")
    assert ended.code == 0, ended.err
    if update_golden:
        document.write_text(with_outputs(document.read_text(), {shown: ended.out}))
    else:
        assert ended.out == shown.text


def test_of_a_batch_it_says_what_each_image_takes(capsys: pytest.CaptureFixture[str]) -> None:
    print_what_if(WhatIf(2000, 1900, (Bound("bus=inf", 1600, 0.2),)), "net.npu", "base16", 4)
    assert capsys.readouterr().out.startswith("net.npu on base16: 2,000 cycles for 4 images, 500 each.\n")


def test_json_has_the_bounds(tilewright: Command, program: Path) -> None:
    found = json.loads(tilewright("profile", program, "--what-if", "bus=inf", "--json", "-").out)
    [bound] = found["what_if"]["bounds"]
    assert bound["parts"] == "bus=inf"
    assert bound["cycles"] <= found["what_if"]["apart"] <= found["what_if"]["cycles"] == found["cycles"]
    assert bound["fewer"] == 1 - bound["cycles"] / found["cycles"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            "buss=inf",
            "--what-if buss=inf: base16 has no such part (did you mean 'bus'?); it has: bus=inf, latency=0, "
            "load=inf, array=inf, vec=inf, store=inf",
        ),
        (
            "bus=16",
            "--what-if bus=16: expected bus=inf, a part that takes no time; "
            "compile for a machine with --set to try one that does",
        ),
        ("bus", "--what-if bus: expected bus=inf"),
    ],
)
def test_refuses_what_is_no_ideal_part(question: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        choices_of(load_machine("base16"), ["all", question])
    assert message in str(caught.value)


def test_a_layer_by_itself_has_no_bounds(tilewright: Command) -> None:
    ended = tilewright("profile", "net.npu", "--what-if", "bus=inf", "--layer", "conv1")
    assert ended.code == 2 and "--what-if is about one whole program" in ended.err
