"""Kinds of FPGAs: how Yosys maps to one, what its cells are called, and how nextpnr is asked for a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.codesign.errors import PriceError

LONGEST_PATH_PS = 5900
"""The path that Yosys's mapper (`abc9`) aims at, in its own count of gates and wires, which is below a placed one.

It makes shorter paths small instead of short. `tiny8` had 18,202 LUTs with 5500 and 17,943 with this.
"""

EMPTY_ROW = 3
"""Every so many rows of a device, one stays empty: cells fill tiles wholly, and there wires run out (docs/price.md)."""

FULLEST = 0.75
"""The share of the other rows that LUTs may fill; HeAP, nextpnr's usual placer, has the same limit for a region."""


@dataclass(frozen=True, slots=True)
class Device:
    """A member of a family: how nextpnr is asked for it, and what nextpnr calls its places."""

    name: str
    options: tuple[str, ...]
    grades: tuple[str, ...]  # of speed that it is sold in, the slowest first, as nextpnr's option calls them
    sites: Mapping[str, str]  # a pin of the module around the machine → a pin of the package
    columns: Sequence[int]  # of tiles with LUTs
    rows: Sequence[int]
    places: tuple[str, ...]  # for LUTs, in each of these tiles
    place_kind: str  # what nextpnr's report calls them

    def empty_places(self, taken: int) -> list[str]:
        """The places for LUTs in the rows that stay empty; none where a machine that takes so many needs them."""
        rows = self.rows[::EMPTY_ROW]
        left = (len(self.rows) - len(rows)) * len(self.columns) * len(self.places)
        if taken > FULLEST * left:
            return []
        return [f"X{column}/Y{row}/{place}" for row in rows for column in self.columns for place in self.places]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of FPGA: how Yosys maps to it, what its cells are called, and a device."""

    name: str
    synthesise: str  # the command of Yosys
    cells: Mapping[str, str]  # a key of the report → the cell that it counts
    places: Mapping[str, int]  # a key of the report → the places for LUTs that its cell takes
    device: Device


FAMILIES: Mapping[str, Family] = {
    "ecp5": Family(
        name="ecp5",
        synthesise=f"scratchpad -set abc9.D {LONGEST_PATH_PS}; synth_ecp5",
        cells={
            "lut4": "LUT4",
            "flip_flops": "TRELLIS_FF",
            "carry_cells": "CCU2C",
            "dsps": "MULT18X18D",
            "block_rams": "DP16KD",
            "distributed_rams": "TRELLIS_DPR16X4",
        },
        places={"lut4": 1, "carry_cells": 2, "distributed_rams": 4},
        device=Device(
            name="LFE5U-85F, CABGA756",
            options=("--85k", "--package", "CABGA756"),
            grades=("6", "8"),
            # In the middle of the left and of the right edge.
            sites={"clk": "R6", "from_pin": "P5", "rst": "R27", "to_pin": "P28"},
            columns=range(2, 125),
            rows=[row for row in range(2, 94) if row % 12 != 10],  # the others are block RAMs and multipliers
            places=tuple(f"SLICE{slice}.K{lut}" for slice in "ABCD" for lut in "01"),
            place_kind="TRELLIS_COMB",
        ),
    )
}


def family_of(name: str) -> Family:
    """A family by its name; raises PriceError for one that is not known."""
    if name not in FAMILIES:
        raise PriceError(f"--fpga is {name!r}; expected one of: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def cells_of(family: Family, module: Mapping[str, Any]) -> Mapping[str, int]:
    """The cells of a synthesised module, by key of `Family.cells`."""
    counts = Counter(cell["type"] for cell in module["cells"].values())
    return {key: counts[cell] for key, cell in family.cells.items()}


def places_of(family: Family, cells: Mapping[str, int]) -> int:
    """The places for LUTs that cells take, counted as `cells_of` does."""
    return sum(count * family.places.get(key, 0) for key, count in cells.items())
