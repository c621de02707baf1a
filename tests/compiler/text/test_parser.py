"""Printing and parsing are each other's inverse, and faults name their line."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.compiler.errors import CompileError
from tilewright.compiler.text.mlir import MlirBlock, MlirOperation
from tilewright.compiler.text.parser import parse_operation
from tilewright.compiler.text.printer import print_operation

attributes = st.recursive(
    st.integers(1 - (1 << 63), (1 << 63) - 1) | st.booleans() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
types = st.sampled_from(
    [
        "i8",
        "tensor<1x3xf32>",
        "memref<8xi8>",
        "tensor<2x!quant.uniform<i8:f32:0, {0.5:0, 1.0e-3:-1}>>",
        "tensor<2x2x!quant.uniform<u4:f32:{0:1, 1:2}, {{0.5:0}, {1.0e-3:1}}>>",
    ]
)

ONNX_OWN = ("int4", "uint4", "int2", "uint2", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
"""Types that numpy does not have by itself."""


@settings(suppress_health_check=[HealthCheck.too_slow])  # drawing text waits for the machine, not for a fault
@given(
    st.lists(st.tuples(st.text(max_size=6), types), max_size=3),
    st.lists(st.tuples(st.text(max_size=6), types), max_size=2),
    st.dictionaries(st.text(), attributes, max_size=3),
    st.booleans(),
)
def test_parses_what_it_prints(
    operands: list[tuple[str, str]], results: list[tuple[str, str]], values: dict[str, Any], has_region: bool
) -> None:
    def parts(pairs: list[tuple[str, str]], part: int) -> tuple[str, ...]:
        return tuple(pair[part] for pair in pairs)

    inside = MlirOperation("a.inner", result_types=())
    region = MlirBlock(tuple(operands), (inside, inside)) if has_region else None
    operation = MlirOperation(
        "a.b", parts(operands, 0), parts(results, 0), values, parts(operands, 1), parts(results, 1), region
    )
    assert parse_operation(print_operation(operation)) == operation


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint16", "float32", "float64", "bool", *ONNX_OWN]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_tensors_keep_their_bits(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(3).integers(0, 2, size=shape).astype(getattr(ml_dtypes, dtype, dtype))
    read = parse_operation(print_operation(MlirOperation("a.b", attributes={"value": array}))).attributes["value"]
    assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_reads_comments_and_typed_numbers() -> None:
    text = '// a comment\n"a.b"() {size = 3 : i64,  // another\n weight = 2.5 : f32} : () -> ()'
    assert parse_operation(text).attributes == {"size": 3, "weight": 2.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"a.b"(', "line 1: expected a value, got 'the end'"),
        ('"a.b"()\n  {x 1} : () -> ()', "line 2: expected '=', got '1} : () -> ()'"),
        ('"a.b"() : () -> () "c.d"', "line 1: expected the end of the text, got '\"c.d\"'"),
        (
            '"a.b"(%x) : () -> ()',
            "line 1: expected before it, a type for each of 1 operands and 0 results, got 'the end'",
        ),
        ('"a.b"() {x = } : () -> ()', "line 1: expected an attribute, got '} : () -> ()'"),
        ('"a.b"() : () -> tensor<3x', "line 1: expected a type with its brackets closed, got 'tensor<3x'"),
        ('"a.b"() {x = @} : () -> ()', "line 1: expected a token, got ' @} : () -> ()'"),
        (
            '"a.b"() {x = dense<"0x0"> : tensor<2xi8>} : () -> ()',
            "line 1: expected 2 bytes of hexadecimal digits for this type, got 'tensor<2xi8>} : () -'",
        ),
        ('"a.b"()\n {x = "\\FF"} : () -> ()', "line 2: expected a string in UTF-8, got '\"\\\\FF\"} : () -> ()'"),
        (
            '"a.b"(%$d800$) : (i1) -> ()',
            "line 1: expected a value whose name is of characters, got '%$d800$) : (i1)",
        ),
        ('"a.b"(%$110000$) : (i1) -> ()', "line 1: expected a value whose name is of characters, got '%$110000$"),
        ('"a.b"() {x = -0x1E} : () -> ()', "line 1: expected ',', got 'x1E} : () -> ()'"),
        (
            '"a.b"() {x = 0x12 : f64} : () -> ()',
            "line 1: expected 16 hexadecimal digits for this type, got '0x12 : f64} : () -> '",
        ),
        ('"a.b"() {x = dense<"0x00"> : tensor<1xi7>} : () -> ()', "unknown element 'i7': expected one of"),
    ],
)
def test_faults_name_their_place(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse_operation(text)
    assert str(caught.value).startswith(message)
