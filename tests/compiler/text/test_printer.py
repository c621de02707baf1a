"""Operations print in MLIR's generic form."""

import math

from tilewright.compiler.text.mlir import MlirOperation
from tilewright.compiler.text.parser import parse_operation
from tilewright.compiler.text.printer import print_operation


def test_prints_the_generic_form() -> None:
    operation = MlirOperation(
        "graph.conv", ("x", "/w"), ("y",), {"pads": (1, 2), "alpha": 1e-5, "name": 'a"b'}, ("i8", "i8"), ("i32",)
    )
    assert print_operation(operation) == (
        '%y = "graph.conv"(%x, %$2f$w) {pads = [1, 2], alpha = 1.0e-05, name = "a\\22b"} : (i8, i8) -> i32'
    )


def test_infinities_are_bit_patterns() -> None:
    text = print_operation(MlirOperation("a.b", attributes={"high": math.inf}))
    assert text == '"a.b"() {high = 0x7FF0000000000000 : f64} : () -> ()'
    assert parse_operation(text).attributes["high"] == math.inf
