"""The array's proof holds for the array that ships, and fails for one that is wrong."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module, Value

from tests.odd_elements import ODD_ELEMENTS
from tests.rtl.faults import failed_goals, unseen
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.language.numeric import parse_integer_type
from tilewright.rtl.proof.array import array, reduced_arrays
from tilewright.rtl.systolic import SystolicArray

pytestmark = pytest.mark.slow

INT8 = parse_integer_type("int8")
TYPES = INT8, INT8


@pytest.mark.parametrize(("rows", "cols", "can_transpose"), [(2, 3, False), (3, 1, False), (2, 2, True)])
def test_sums_are_dot_products(rows: int, cols: int, can_transpose: bool) -> None:
    assert failed_goals(array(rows, cols, *TYPES, can_transpose)) == []


def test_sums_are_dot_products_of_registered_products() -> None:
    assert failed_goals(array(2, 3, *TYPES, False, 1)) == []


@pytest.mark.parametrize("types", [("uint5", "int8"), ("int12", "int4"), ("uint4", "uint4")])
def test_sums_of_other_types_are_dot_products(types: tuple[str, str]) -> None:
    assert failed_goals(array(2, 3, *map(parse_integer_type, types), False)) == []


def test_a_machine_is_proved_with_the_types_of_its_own_array() -> None:
    (_, _, *types, _, _), _ = reduced_arrays(load_machine_text(ODD_ELEMENTS, "odd.yaml"))
    assert list(map(str, types)) == ["uint5", "int8"]


@pytest.mark.parametrize("can_transpose", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_goal_sees_a_fault(can_transpose: bool) -> None:
    assert unseen(array(2, 2, *TYPES, can_transpose), [], ["sums"]) == []


def test_sees_vectors_that_come_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystolicArray, "WEIGHT_LEAD", 1)
    failed = failed_goals(array(2, 2, *TYPES, False))
    assert failed and all("lead 1" in goal for goal in failed)


def test_sees_weights_that_change_for_all_columns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SystolicArray.build_tags

    def build_tags(self: SystolicArray, m: Module, tag: Value, count: int, name: str) -> list[Value]:
        tags = right(self, m, tag, count, name)
        return [tags[0]] * count if name == "swap" else tags

    monkeypatch.setattr(SystolicArray, "build_tags", build_tags)
    assert failed_goals(array(2, 2, *TYPES, False))


def test_sees_a_tag_that_comes_for_all_diagonals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SystolicArray.build_tags

    def build_tags(self: SystolicArray, m: Module, tag: Value, count: int, name: str) -> list[Value]:
        tags = right(self, m, tag, count, name)
        return [tags[0]] * count if name == "transposed" else tags

    monkeypatch.setattr(SystolicArray, "build_tags", build_tags)
    claim = "array of 2 × 2, tiles and transposes: dot products"
    assert failed_goals(array(2, 2, *TYPES, True), f"{claim}: lead 2, gap 1, ")
