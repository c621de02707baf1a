"""Any name is a value of MLIR's."""

from hypothesis import given
from hypothesis import strategies as st

from tilewright.compiler.text.mlir import value_id, value_name


@given(st.text(max_size=12))
def test_any_name_is_a_value(name: str) -> None:
    identifier = value_id(name)
    assert value_name(identifier) == name
    assert all(character.isascii() and (character.isalnum() or character in "_.-$") for character in identifier[1:])
