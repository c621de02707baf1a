"""Modules mapped to the cells of a process by Yosys: each distinct one once, kept in the cache for ever after."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.liberty import liberty
from tilewright.codesign.price.netlist import UNIT, Bill, Module
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.side_by_side import side_by_side
from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.rtl.yosys import YosysError, run_script, yosys_version

SCRIPT = """\
read_rtlil unit.il
synth -booth
dfflibmap -liberty cells.lib
opt
abc -liberty cells.lib
opt_clean
tee -q -o out stat -liberty cells.lib -json
"""
"""Products are Booth multipliers; area is all that `abc` works for.

Each module has a run of its own. Yosys numbers what it makes from the start of a run, and what `abc` finds follows from
these numbers: after other modules it would find up to 1 % more or less, so a price would tell what was priced before.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some logic takes, without what stands in it as a part of its own."""

    area_um2: float = 0.0
    flip_flops: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.area_um2 + other.area_um2, self.flip_flops + other.flip_flops)

    def __mul__(self, count: float) -> Cost:
        return Cost(self.area_um2 * count, self.flip_flops * count)


class Synthesis:
    """Maps modules to a process. A result is used again only for the same netlist, script, tool and library."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.library = liberty(process)
        try:
            self.version = yosys_version()
        except YosysError as error:
            raise PriceError(str(error)) from error
        self.script_hash = hashlib.sha256(SCRIPT.encode()).hexdigest()[:16]
        self._known: dict[str, Cost] = {}

    def costs(self, modules: Sequence[Module]) -> list[Cost]:
        """The cost of each module. Raises PriceError for a missing tool, or logic without cells in the library."""
        wanted = {self._key(module): module for module in modules}
        missing = [key for key in wanted if not self._is_known(key)]
        largest_first = sorted(missing, key=lambda key: -len(wanted[key].text))  # none is begun when all else is done
        costs = side_by_side(self._synthesise, [wanted[key] for key in largest_first])
        self._known |= zip(largest_first, costs, strict=True)
        return [self._known[self._key(module)] for module in modules]

    def costs_of(self, bills: Mapping[str, Bill[Module]]) -> dict[str, Cost]:
        """The cost of each bill; all their modules are synthesised side by side."""
        modules = [module for bill in bills.values() for _, module in bill]
        of_module = dict(zip(map(self._key, modules), self.costs(modules), strict=True))
        return {
            name: sum((of_module[self._key(module)] * count for count, module in bill), Cost())
            for name, bill in bills.items()
        }

    def cost(self, bill: Bill[Module]) -> Cost:
        return self.costs_of({"": bill})[""]

    def _key(self, module: Module) -> str:
        parts = (module.text, SCRIPT, self.version, self.library)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _place(self, key: str) -> Path:
        return cache_folder() / "price" / key[:2] / f"{key}.json"

    def _is_known(self, key: str) -> bool:
        if key not in self._known and self._place(key).exists():
            self._known[key] = Cost(**json.loads(self._place(key).read_text()))
        return key in self._known

    def _synthesise(self, module: Module) -> Cost:
        try:
            out = run_script({"unit.il": module.text, "cells.lib": self.library}, SCRIPT)
        except YosysError as error:
            raise PriceError(f"{self.process.name}: {error}") from error
        cost = self._cost(json.loads(out)["modules"].get(f"\\{UNIT}", {}), module)
        self._keep(self._key(module), cost)
        return cost

    def _cost(self, counts: Mapping[str, object], module: Module) -> Cost:
        cells = counts.get("num_cells_by_type", {})
        assert isinstance(cells, dict)
        unmapped = sorted(cell for cell in cells if cell.startswith("$"))
        if unmapped:
            raise PriceError(f"{self.process.name} has no cell for {', '.join(unmapped)}, which {module.path} needs")
        flip_flops = sum(count for cell, count in cells.items() if cell in self.process.flip_flops)
        return Cost(float(str(counts.get("area", 0.0))), flip_flops)

    def _keep(self, key: str, cost: Cost) -> None:
        text = json.dumps({"area_um2": cost.area_um2, "flip_flops": cost.flip_flops})

        def make(folder: Path) -> Path:
            (folder / "cost").write_text(text)
            return folder / "cost"

        kept(self._place(key), make)
