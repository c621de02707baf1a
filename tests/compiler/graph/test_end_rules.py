"""Transpositions that are not the host's are refused."""

from __future__ import annotations

import pytest

from tilewright.compiler.levels import GRAPH
from tilewright.compiler.rules import BrokenRule
from tilewright.isa.files.loader import load_machine

Q, F = "tensor<1x2x3x3x!quant.uniform<i8:f32, 1.0:0>>", "tensor<1x2x3x3xf32>"

INPUT = f"""  %q = "graph.quantize"(%x) {{low = -128, high = 127, name = "q", nodes = []}} : ({F}) -> {Q}
  %t = "graph.transpose"(%q) {{axes = [0, 1, 3, 2], name = "t", nodes = []}} : ({Q}) -> {Q}
"""
SUM = """  %s = "graph.add"({}) {{low = -128, high = 127, name = "s", nodes = []}} : ({}, {}) -> {}
"""
RESULT = f"""  %y = "graph.dequantize"({{}}) {{{{name = "y", nodes = []}}}} : ({Q}) -> {F}
"""


def network(inside: str) -> str:
    return f""""graph.network"() ({{
^bb0(%x: {F}):
{inside}  "graph.return"(%y) {{outputs = ["y"]}} : ({F}) -> ()
}}) {{name = "n", opset = 17}} : () -> ()"""


def added(a: str, b: str) -> str:
    return SUM.format(f"{a}, {b}", Q, Q, Q)


def test_what_the_host_has_turned_is_not_read_unturned_too() -> None:
    """Both would be one buffer, in one order: the sum of a tensor and itself."""
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(network(INPUT + added("%t", "%q") + RESULT.format("%s")), load_machine("tiny8"))
    assert str(refused.value) == (
        "line 4: transpose 't': rule ends: it lies between operators that compute, or other readers of 'q' too; "
        "expected one at an input that has no other reader, or at outputs"
    )


def test_nothing_is_turned_between_operators() -> None:
    turned = INPUT.replace("(%q) {axes", "(%s) {axes").splitlines(keepends=True)
    between = turned[0] + added("%q", "%q") + turned[1]
    again = added("%t", "%t").replace("%s =", "%r =").replace('"s"', '"r"')
    with pytest.raises(BrokenRule) as refused:
        GRAPH.read(network(between + again + RESULT.format("%r")), load_machine("tiny8"))
    assert refused.value.rule == "ends"


@pytest.mark.parametrize(
    "inside",
    [
        INPUT + added("%t", "%t") + RESULT.format("%s"),
        INPUT.splitlines(keepends=True)[0]
        + added("%q", "%q")
        + INPUT.splitlines(keepends=True)[1].replace("(%q)", "(%s)")
        + RESULT.format("%t"),
    ],
    ids=["behind an input", "before an output"],
)
def test_the_host_turns_at_the_ends(inside: str) -> None:
    GRAPH.read(network(inside), load_machine("tiny8"))
