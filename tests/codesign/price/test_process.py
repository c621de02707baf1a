"""A process is read whole or refused with one error that says where the fault is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.liberty import liberty
from tilewright.codesign.price.process import Process, load_process


def test_reads_cells_macros_and_facts(toy: Process) -> None:
    assert [cell.name for cell in toy.cells] == ["inverter", "buffer", "nand", "register"]
    assert toy.gate.area_um2 == 2
    assert toy.flip_flops == {"register"}
    assert [(macro.ports, macro.words, macro.bits) for macro in toy.macros][:2] == [(2, 64, 8), (2, 64, 32)]


def test_the_shipped_process_says_where_its_figures_come_from() -> None:
    process = load_process()
    assert "IHP-Open-PDK" in process.source and process.licence.startswith("Apache-2.0")
    assert process.gate.area_um2 == 7.2576
    assert len(process.macros) == 28


def test_the_shipped_process_claims_no_energy_of_two_ports() -> None:
    energies = {(macro.ports > 1, macro.read_pj is None, macro.write_pj is None) for macro in load_process().macros}
    assert energies == {(False, False, False), (True, True, True)}


def test_writes_a_liberty_file(toy: Process) -> None:
    text = liberty(toy)
    assert "cell (nand) {\n    area : 2.0;" in text
    assert 'ff (IQ,IQN) { clocked_on : "C"; next_state : "D"; }' in text
    assert "pin (C) { direction : input; clock : true; }" in text


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("cells.csv", "nand,2", "nand,", "cells.csv:4: area_um2 is empty; every row needs its figure"),
        ("cells.csv", "nand,2", "nand,0", "cells.csv:4: area_um2 is 0; expected more than 0"),
        ("cells.csv", "nand,2", "nand,two", "cells.csv:4: area_um2 is 'two'; expected a number"),
        (
            "cells.csv",
            "area_um2",
            "area",
            "cells.csv: no column area_um2; expected cell, area_um2, inputs, outputs, state",
        ),
        (
            *("cells.csv", 'Q=IQ,"ff(IQ,IQN) clocked_on=C next_state=D"', "Q=D,"),
            "cells.csv: no cell is a flip-flop; a machine cannot be built without one",
        ),
        ("cells.csv", "Y=A,", "Y=!A,", "cells.csv: no cell is a buffer; a machine cannot be built without one"),
        ("cells.csv", "Y=!A,", "Y=A,", "cells.csv: no cell is an inverter; a machine cannot be built without one"),
        (
            *("cells.csv", ',"ff(IQ,IQN) clocked_on=C next_state=D"', ","),
            "cells.csv:5: Q is 'IQ', which is no function of its cell's pins: IQ is no pin of its cell",
        ),
        (
            *("cells.csv", "Y=!(A*B)", "Y=!(A*B"),
            "cells.csv:4: Y is '!(A*B', which is no function of its cell's pins: it ends too early",
        ),
        ("cells.csv", "nand,2", "nand,nan", "cells.csv:4: area_um2 is 'nan'; expected a finite number"),
        ("cells.csv", "nand,2", "nand,1e300", "cells.csv:4: area_um2 is 1e300; expected 1e-09 to 1e+12"),
        ("cells.csv", "buffer,", "inverter,", "cells.csv: inverter is there 2 times; expected once"),
        ("cells.csv", "nand,2", '"na{nd",2', "cells.csv:4: cell is 'na{nd'; expected letters, digits and _"),
        (
            "process.yaml",
            "byte: 100",
            "byte: [100]",
            "process.yaml: Expected `float`, got `array` - at `$.dram_pj_per_byte`",
        ),
        ("srams.csv", "8,1000", "8,", "srams.csv:2: area_um2 is empty; every row needs its figure"),
        ("srams.csv", "500,2,3", "500,2,", "srams.csv:5: write_pj is empty; every row needs its figure"),
        ("srams.csv", "small,2,64", "small,2,6.5", "srams.csv:2: words is '6.5'; expected a whole number"),
        ("process.yaml", "gate: nand", "gate: nor", "process.yaml: gate is 'nor', which cells.csv does not have"),
        ("process.yaml", "licence: Apache-2.0\n", "", "process.yaml: missing: licence"),
    ],
)
def test_refuses_a_fault(toy_folder: Path, file: str, old: str, new: str, message: str) -> None:
    text = (toy_folder / file).read_text()
    assert old in text
    (toy_folder / file).write_text(text.replace(old, new, 1))
    with pytest.raises(PriceError, match=re.escape(f"{toy_folder}/{message}") + "$"):
        load_process(toy_folder)


def test_refuses_a_folder_without_its_files(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="process.yaml: No such file or directory; a process has process.yaml, cells"):
        load_process(tmp_path)
