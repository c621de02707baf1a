"""Instructions that a node on the host lacked, put to the test as any others: bits, hardware and proofs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder
from tests.tilewright.command_line import Command

LESS = "extends: vector16\ninstructions: {max_lanes: null, sum_exponentials: null}\n"

SPACE = """
base: less.yaml
overlays: {found: found.yaml}
networks: {softmax: softmax.onnx}
objectives: [cycles, kge]
effort: 0
"""


def sum_and_softmax() -> bytes:
    """A sum, which any machine does, and a softmax, which vector16 does with two instructions that LESS lacks."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (1, 40, 3, 3)), 0.1, 3, name="x.q")
    doubled = builder.quantize(builder.node("Add", [x, x], name="twice"), 0.2, 5, name="d.q")
    shares = builder.node("Softmax", [doubled], name="softmax", axis=1)
    builder.output(builder.quantize(shares, 1 / 256, -128, name="y.q"))
    return builder.build("softmax").SerializeToString()


@pytest.mark.long
def test_what_the_host_did_is_verified_to_every_degree(tilewright: Command, tmp_path: Path) -> None:
    """The file that `specialise` writes, as an overlay of a space; its network uses both instructions."""
    (tmp_path / "softmax.onnx").write_bytes(sum_and_softmax())
    (tmp_path / "less.yaml").write_text(LESS)
    (tmp_path / "space.yaml").write_text(SPACE)
    quick = ("--no-control", "--no-removals", "--no-clock", "--host-cycles", 100_000, "--area", "+30%")
    words = ("specialise", tmp_path / "softmax.onnx", "--isa", tmp_path / "less.yaml", *quick)
    found = tilewright(*words, "-o", tmp_path / "found.yaml", "--json", tmp_path / "found.json")
    assert found.code == 0
    answer = json.loads((tmp_path / "found.json").read_text())
    assert answer["chosen"] == ["max_lanes", "sum_lookup_lanes"]
    assert answer["networks"][0]["uses"] == ["max_lanes", "sum_lookup_lanes"]

    assert tilewright("explore", "run", tmp_path / "space.yaml", "-o", tmp_path / "study").code == 0
    degrees = ("--degree", "bits", "--degree", "rtl", "--degree", "proof")
    words = ("explore", "verify", tmp_path / "study", "+found", *degrees)
    ended = tilewright(*words, "--json", tmp_path / "verified.json")

    assert ended.code == 0
    verdicts = json.loads((tmp_path / "verified.json").read_text())
    assert {(each["degree"], each["outcome"]) for each in verdicts} == {
        ("bits", "holds"), ("rtl", "holds"), ("proof", "holds")
    }  # fmt: skip
