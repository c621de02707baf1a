"""Widths of a machine's softmax, read off its statements."""

from tests.compiler.machines import without
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.lower.softmax_format import LeadingBits, SoftmaxFormat, TableFormat, softmax_format
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import parse_integer_type
from tilewright.isa.machine.machine import Machine

UINT8, UINT16, INT32 = map(parse_integer_type, ("uint8", "uint16", "int32"))

VECTOR16 = SoftmaxFormat(
    exponentials=TableFormat(UINT16, UINT8),
    low_bits=None,
    mask=UINT16,
    sums=INT32,
    guesses=TableFormat(UINT16, UINT8),
    guess_shift=8,
    leading=LeadingBits(8, UINT16),
    minuend=parse_integer_type("uint26"),
    error=INT32,
    corrected=INT32,
    reciprocal=parse_integer_type("uint24"),
    shift=parse_integer_type("uint6"),
    result=parse_integer_type("int8"),
)


def widths(machine: Machine) -> SoftmaxFormat:
    return softmax_format(machine, arithmetic_of(machine))


def test_vector16_states_all_of_them() -> None:
    found = widths(load_machine("vector16"))
    assert found == VECTOR16
    assert found.unit == 65535
    assert found.largest_reciprocal == 2**24 - 1
    assert (found.error_shift, found.step_shift) == (8, 16)  # 32 bits to 24, 40 bits to 24
    assert found.most_channels == 1 << 14


def test_what_no_statement_has_is_as_wide_as_accumulators_and_activations_suggest() -> None:
    assert widths(load_machine("base16")) == VECTOR16
    assert widths(without(load_machine("vector16"), "normalize", "error")) == VECTOR16


def test_a_reciprocal_is_no_wider_than_any_instruction_takes() -> None:
    statement = "y = wrap(round_shift(a * wrap(b >> 8, uint12), shift), int32)"
    overrides = [f"instructions.correct.do='{statement}'"]
    error = "y = wrap(twice - round_shift(a * wrap(b >> 8, uint12), shift), int32)"
    found = widths(load_machine("vector16", [*overrides, f"instructions.error.do='{error}'"]))
    assert found.leading == LeadingBits(8, parse_integer_type("uint12"))
    assert found.largest_reciprocal == 2**20 - 1
