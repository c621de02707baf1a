"""Widths with which a machine normalises rows, read off its statements."""

from collections.abc import Sequence

from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.lower.normalize_format import NormalizeFormat, normalize_format
from tilewright.compiler.lower.reciprocal_root import TOLERANCE, reciprocal_root
from tilewright.compiler.lower.softmax_format import softmax_format
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import parse_integer_type


def widths(name: str, changes: Sequence[str] = ()) -> NormalizeFormat:
    machine = load_machine(name, changes)
    arithmetic = arithmetic_of(machine)
    return normalize_format(machine, softmax_format(machine, arithmetic), arithmetic)


def test_sequence16_states_all_of_them() -> None:
    found = widths("sequence16")
    assert (found.fraction, found.exponent) == (7, 15)
    types = (found.deviation, found.square_shift, found.mean_scale, found.magnitude, found.count)
    assert types == tuple(map(parse_integer_type, ("int16", "uint5", "uint16", "uint31", "uint6")))


def test_what_no_statement_has_is_as_wide_as_activations_and_accumulators_suggest() -> None:
    assert widths("base16") == widths("sequence16")


def test_a_machine_of_other_widths_normalises_with_those() -> None:
    leading = "y = wrap(wrap(a + epsilon, uint29) << (((clz(wrap(a + epsilon, uint29)) - 35) >> 1) << 1), int32)"
    found = widths("sequence16", [f"instructions.leading.do='{leading}'"])
    assert found.magnitude == parse_integer_type("uint29")
    root = reciprocal_root(found)
    assert root.first == 29 - 8
    assert len(root.steps) == 1 and TOLERANCE / found.result.count == 2**-13
