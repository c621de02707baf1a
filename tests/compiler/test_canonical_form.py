"""A canonical form has all that is told of a value, and no names."""

from tilewright.compiler.canonical_form import CanonicalForm


def form(*names: str) -> CanonicalForm:
    """That of a value that is nothing but names."""
    return CanonicalForm.of(lambda numbers: tuple([numbers[name] for name in names]))


def test_names_have_numbers_in_the_order_in_which_they_are_met() -> None:
    assert form("b", "a", "b").told == (0, 1, 0)
    assert form("b", "a", "b").names == ("b", "a")


def test_other_names_are_the_same_form() -> None:
    one, other = form("b", "a", "b"), form("x", "y", "x")
    assert one == other and hash(one) == hash(other)
    assert {one: "found"}[other] == "found"


def test_one_name_twice_is_not_two_names() -> None:
    assert form("a", "a") != form("a", "b")


def test_names_are_given_back() -> None:
    assert form("x", "y", "x").names_from(form("b", "a", "b")) == {"b": "x", "a": "y"}
