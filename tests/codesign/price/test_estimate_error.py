"""Comparisons of prices are kept in a file, so that the page can show all that were ever made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.estimate_error import PriceComparison, keep, kept_comparisons, kept_page
from tilewright.isa.files.loader import shipped_machines


def comparison(machine: str, first: float, second: float) -> PriceComparison:
    return PriceComparison(machine, (first, second), first / second - 1, "array", -0.0125, "0.70")


def test_a_machine_compared_again_takes_the_place_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "errors.json"
    for each in (comparison("tiny8", 100.0, 200.0), comparison("base16", 3.0, 3.0), comparison("tiny8", 101.0, 100.0)):
        keep(path, each)
    assert kept_comparisons(path) == {
        "base16": comparison("base16", 3.0, 3.0),
        "tiny8": comparison("tiny8", 101.0, 100.0),
    }


def test_the_page_names_the_machines_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "errors.json"
    for name in shipped_machines():
        if name not in ("dw16", "wide32"):
            keep(path, comparison(name, 101.0, 100.0))
    lines = kept_page(path).splitlines()
    assert lines[2] == "| `base16` | 101.0 | 100.0 | +1.00% | array: -1.25% |"
    assert lines[-1] == "Not compared: `dw16`, `wide32`."


def test_a_file_of_something_else_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "errors.json"
    path.write_text('[{"machine": "tiny8"}]')
    with pytest.raises(PriceError, match="expected a list of comparisons as --keep writes it, not this: 'kge'"):
        kept_comparisons(path)
