"""The tables of a Liberty file come out as its numbers; what is no Liberty file is refused."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.liberty_import import main, parse

LIBRARY = """
/* a library of two cells */
library (small) {
  time_unit : "1ns";
  cell (inv) {
    pin (A) { direction : "input"; capacitance : 0.002; }
    pin (Y) {
      direction : "output"; function : "!A";
      timing () {
        related_pin : "A"; timing_sense : negative_unate;
        cell_rise (t) { index_1 ("0.1, 0.2"); index_2 ("0.01, 0.02"); values ("1, 2", \\
          "3, 4"); }
        rise_transition (t) { index_1 ("0.1, 0.2"); index_2 ("0.01, 0.02"); values ("5, 6", "7, 8"); }
      }
      timing () { related_pin : "A"; timing_type : hold_rising; rise_constraint (t) { values ("9"); } }
      internal_power () { related_pin : "A"; rise_power (t) { values ("0.1, 0.2", "0.3, 0.4"); } }
    }
  }
  cell (unwanted) { pin (A) { direction : "input"; } }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cells.csv").write_text("cell,area_um2,inputs,outputs,state\ninv,1,A,Y=!A,\n")
    return tmp_path


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["library.lib", "library.lib.gz"])
def test_writes_the_tables_of_the_cells_that_count(name: str, folder: Path) -> None:
    data = LIBRARY.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert main([str(folder / name), str(folder)]) == 0
    [arc] = rows(folder / "arcs.csv")
    assert (arc["cell"], arc["from"], arc["to"], arc["kind"], arc["edge"]) == ("inv", "A", "Y", "combinational", "rise")
    assert (arc["slews_ns"], arc["loads_pf"]) == ("0.1 0.2", "0.01 0.02")
    assert (arc["delay_ns"], arc["transition_ns"]) == ("1 2 3 4", "5 6 7 8")
    input_pin, output_pin = rows(folder / "pins.csv")
    assert (input_pin["pin"], input_pin["capacitance_pf"], input_pin["rise_pj"]) == ("A", "0.002", "0")
    assert (output_pin["pin"], output_pin["rise_pj"], output_pin["fall_pj"]) == ("Y", "0.4", "0")


@pytest.mark.parametrize("text", ["", "library (x) { cell (y) {", "library (x) { } }", "library x", "a (1);"])
def test_what_is_no_liberty_file_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match="^this is no Liberty file: "):
        parse(text)


def test_a_missing_file_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder / "absent.lib"), str(folder)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
