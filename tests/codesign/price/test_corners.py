"""A corner has the same cells and macros with delays of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import load_timing
from tilewright.codesign.price.corners import TYPICAL, at_corner
from tilewright.codesign.price.process import load_process


def test_the_shipped_corners_are_slower_and_faster() -> None:
    process = load_process()
    assert at_corner(process, TYPICAL) is process
    slow, fast = (at_corner(process, name) for name in ("slow", "fast"))
    late = {name: [macro.clock_to_output_ns or 0 for macro in of.macros] for name, of in (("s", slow), ("f", fast))}
    typical = [macro.clock_to_output_ns or 0 for macro in process.macros]
    assert all(f < t < s for f, t, s in zip(late["f"], typical, late["s"], strict=True))
    [inverter] = [cell.name for cell in process.cells if cell.name.endswith("inv_1")]
    delays = [load_timing(of).arcs_to(inverter, "Y")[0].delay(0.05, 0.01) for of in (fast, process, slow)]
    assert delays == sorted(delays) and len(set(delays)) == 3
    assert "1.08 V" in slow.corner and slow.cells == process.cells


def test_an_unknown_corner_is_refused() -> None:
    with pytest.raises(PriceError, match=r"^SG13G2 has no corner hot; it has: typical, slow, fast$"):
        at_corner(load_process(), "hot")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("one,5\n", r"srams.csv: no row for "),
        ("one,0\n", r"srams.csv:2: clock_to_output_ns is 0; expected more than 0$"),
        ("one,late\n", r"srams.csv:2: clock_to_output_ns is 'late'; expected a number$"),
    ],
)
def test_a_missing_or_wrong_delay_is_refused(rows: str, message: str, toy_folder: Path) -> None:
    (toy_folder / "hot").mkdir()
    text = (toy_folder / "process.yaml").read_text()
    (toy_folder / "process.yaml").write_text(f"{text}corners: {{hot: hot}}\n")
    (toy_folder / "hot" / "srams.csv").write_text(f"macro,clock_to_output_ns\n{rows}")
    head, *macros = (toy_folder / "srams.csv").read_text().splitlines()
    lines = [f"{head},clock_to_output_ns", *(f"{macro},3" for macro in macros)]
    (toy_folder / "srams.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(PriceError, match=message):
        at_corner(load_process(toy_folder), "hot")
