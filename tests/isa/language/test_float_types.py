"""Floating types: codes and numbers against ml_dtypes, which nobody here wrote, and what statements may say of them."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.float_machine import FLOATS
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.files.machine_file import MachineFileError
from tilewright.isa.language.expressions import Scope
from tilewright.isa.language.numeric import (
    FLOAT_TYPES,
    FloatType,
    IntegerType,
    Rounding,
    common_type,
    nearest_code,
    parse_type,
    steps,
)
from tilewright.isa.language.statement import parse_statement
from tilewright.simulator.float_codes import code_steps

PEERS = {"e4m3": ml_dtypes.float8_e4m3fn, "e2m1": ml_dtypes.float4_e2m1fn}
TYPES = list(FLOAT_TYPES.values())


def peer_numbers(of: FloatType) -> NDArray[np.float64]:
    """The number of each code, NaN included."""
    return np.arange(of.count, dtype=np.uint8).view(PEERS[of.name]).astype(np.float64)


def peer_nearest(numbers: NDArray[np.float64], to: FloatType) -> NDArray[np.float64]:
    """The nearest numbers; those of ml_dtypes beyond the greatest are NaN, so it is asked for none of these."""
    most = float(ml_dtypes.finfo(PEERS[to.name]).max)
    return np.clip(numbers, -most, most).astype(np.float32).astype(PEERS[to.name]).astype(np.float64)


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_every_code_stands_for_its_number_and_nan_for_zero(of: FloatType) -> None:
    numbers = peer_numbers(of)

    assert (steps(np.arange(of.count), of) * 2.0**of.step_exponent == np.nan_to_num(numbers, nan=0.0)).all()
    assert np.isnan(numbers).sum() == (2 if of.name == "e4m3" else 0)
    assert [code_steps(code, of) for code in range(of.count)] == steps(np.arange(of.count), of).tolist()


@pytest.mark.parametrize("of", TYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_nearest_is_ml_dtypes_for_all_numbers_between_and_beyond(of: FloatType, n: int) -> None:
    """Every multiple of a step's 2**n-th part, so every tie: ml_dtypes rounds by float32, which holds these exactly."""
    most = (of.values.high << n) + 100
    x = np.arange(-most, most + 1)[:: max(1, most >> 19)]
    ties = (steps(np.arange(of.greatest), of) + steps(np.arange(1, of.greatest + 1), of)) << n >> 1
    x = np.concatenate([x, ties, -ties, ties + 1, ties - 1])

    found = steps(nearest_code(x, np.int64(n), of), of) * 2.0**of.step_exponent

    assert (found == peer_nearest(x * 2.0 ** (of.step_exponent - n), of)).all()


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_nearest_to_a_number_of_the_type_is_its_code_and_zero_has_no_sign(of: FloatType) -> None:
    codes = np.array([code for code in range(of.count) if code % (1 << of.sign_bit) <= of.greatest])
    expected = np.where(codes == 1 << of.sign_bit, 0, codes)

    assert (nearest_code(steps(codes, of) << 40, np.int64(40), of) == expected).all()


def test_nearest_is_not_nearest_of_nearest_step() -> None:
    """17.25 steps of e4m3 lie nearer to 18 than to 16; 17, the nearest step, is as near to 16, which is even."""
    e4m3 = FLOAT_TYPES["e4m3"]

    found = [int(steps(nearest_code(np.array([x]), np.int64(n), e4m3), e4m3)[0]) for x, n in ((69, 2), (17, 0))]

    assert found == [18, 16]


def test_the_widest_numbers_do_not_overflow() -> None:
    e4m3 = FLOAT_TYPES["e4m3"]
    x = np.array([(1 << 62) - 1, -(1 << 62)])

    assert nearest_code(x, np.int64(0), e4m3).tolist() == [0x7E, 0xFE]
    assert nearest_code(x, np.int64(63), e4m3).tolist() == [0, 0]  # just below a half, and a half, which is a tie


def test_elements_of_one_array_have_a_type_in_common() -> None:
    e4m3, e2m1, int8, int4 = *TYPES, IntegerType(8, True), IntegerType(4, True)

    assert common_type([e4m3, e2m1]) == e4m3
    assert common_type([int8, int4]) == int8
    assert common_type([e4m3, int4]) is None


def scope(destination: str) -> Scope:
    int32 = IntegerType(32, True)
    return Scope(
        sources={"a": {"": FLOAT_TYPES["e4m3"]}, "f": {"": FLOAT_TYPES["e2m1"]}, "c": {"": int32}},
        immediates={},
        destination="y",
        destination_type=FLOAT_TYPES.get(destination, int32),
        reduce_trips=1,
        dot_length=16,
        rounding=Rounding.EVEN,
        types={"act": FLOAT_TYPES["e4m3"], "acc": int32},
    )


@pytest.mark.parametrize(
    ("destination", "text", "meaning"),
    [
        ("e4m3", "y = a", "a"),
        ("e4m3", "y = max(a, 0)", "nearest(max(a, 0), 0, e4m3)"),
        ("e4m3", "y = nearest(c, 4, act)", "nearest(c, 4, e4m3)"),
        ("e4m3", "y = clamp(nearest(c, 4, act), -8, 16)", "nearest(min(max(nearest(c, 4, e4m3), -8), 16), 0, e4m3)"),
        ("int32", "y = a", "a"),
        ("int32", "y = a * f", "a * f"),
    ],
)
def test_a_number_of_the_type_needs_no_rounding(destination: str, text: str, meaning: str) -> None:
    assert str(parse_statement(text, scope(destination)).expr) == meaning


def test_operands_count_in_steps() -> None:
    assert parse_statement("y = f * 3 - 1", scope("int32")).expr.range.low == -37


@pytest.mark.parametrize(
    ("destination", "text", "fault"),
    [
        (
            "e4m3",
            "y = a + a",
            "the value is in [-458752, 458752] and y holds numbers of e4m3; say nearest(…, n, e4m3), the nearest to "
            "the value / 2^n",
        ),
        (
            "e4m3",
            "y = max(a, 17)",
            "the value is in [17, 229376] and y holds numbers of e4m3; say nearest(…, n, e4m3), the nearest to the "
            "value / 2^n",
        ),
        ("int32", "y = wrap(c, act)", "wrap: expected a type of integers, and `act` is e4m3; say nearest(…, n, e4m3)"),
        (
            "e4m3",
            "y = nearest(c, 2, acc)",
            "nearest: expected a floating type, e4m3 or e2m1, not `acc`, which is int32",
        ),
        ("e4m3", "y = nearest(c, 2, 3)", "nearest: expected a floating type, e4m3 or e2m1, not `3`"),
        ("e4m3", "y = nearest(c, -1, act)", "nearest: the shift count -1 is in [-1, -1]; expected 0 to 63"),
    ],
)
def test_says_what_a_statement_of_floats_lacks(destination: str, text: str, fault: str) -> None:
    with pytest.raises(IsaError) as error:
        parse_statement(text, scope(destination))
    assert str(error.value) == fault


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [("wgt: {element: e4m3}", "wgt: {element: int8}", "int8"), ("as e2m1", "as int4", "int4")],
)
def test_an_array_multiplies_numbers_of_one_kind(before: str, after: str, holds: str) -> None:
    with pytest.raises(MachineFileError) as error:
        load_machine_text(FLOATS.replace(before, after), "m.yaml")
    fault = (
        f"a holds e4m3 and w {holds}; the array multiplies integers by integers, and floating numbers by floating ones"
    )
    assert any(complaint.endswith(fault) for complaint in error.value.complaints), error.value


def test_e4m3_has_the_numbers_of_e5m2_that_its_error_says() -> None:
    """Times 2^-7; the first that it has not is the next one below."""
    with pytest.raises(IsaError) as error:
        parse_type("e5m2")
    said = re.search(r"from its greatest down to 1 / ([0-9,]+) of that$", str(error.value))
    assert said is not None
    ratio = int(said[1].replace(",", ""))
    numbers = np.arange(1, 0x7C, dtype=np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float32)
    held = (numbers / 128).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * 128 == numbers
    assert held[numbers >= numbers.max() / ratio].all()
    assert not held[numbers < numbers.max() / ratio][-1]
