"""Modules mapped to the cells of a process by Yosys: each distinct one once, kept in the cache for ever after."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price import clock_gates
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
    """What some logic takes, without what stands in it as a part of its own.

    With clock gating: of the flip-flops, those behind gates, and how many of these one event clocks at most.
    """

    area_um2: float = 0.0
    flip_flops: float = 0.0
    gated: float = 0.0
    clocked: float = 0.0
    clock_gates: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, count: float) -> Cost:
        return Cost(*(each * count for each in astuple(self)))


class Synthesis:
    """Maps modules to a process. A result is used again only for the same netlist, script, tool and library.

    With `gates_clocks`, flip-flops with enables get clock gates; a process without one raises PriceError.
    """

    def __init__(self, process: Process, gates_clocks: bool = False) -> None:
        self.process = process
        self.library = liberty(process)
        self.gate = process.clock_gate if gates_clocks else None
        if gates_clocks and self.gate is None:
            wanted = "clock_gate: {cell, area_um2, closed_pj, open_pj}"
            raise PriceError(
                f"{process.name} has no clock gate, and clock_gating needs one: add {wanted} to process.yaml"
            )
        self.script = clock_gates.SCRIPT if self.gate else SCRIPT
        self.files = {"resets.v": clock_gates.RESETS} if self.gate else {}
        try:
            self.version = yosys_version()
        except YosysError as error:
            raise PriceError(str(error)) from error
        self.script_hash = hashlib.sha256(self.script.encode()).hexdigest()[:16]
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
        parts = (
            module.text,
            self.script,
            self.version,
            self.library,
            *([repr(self.gate), *self.files.values()] if self.gate else []),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _place(self, key: str) -> Path:
        return cache_folder() / "price" / key[:2] / f"{key}.json"

    def _is_known(self, key: str) -> bool:
        if key not in self._known and self._place(key).exists():
            self._known[key] = Cost(**json.loads(self._place(key).read_text()))
        return key in self._known

    def _synthesise(self, module: Module) -> Cost:
        try:
            out = run_script({"unit.il": module.text, "cells.lib": self.library, **self.files}, self.script)
        except YosysError as error:
            raise PriceError(f"{self.process.name}: {error}") from error
        modules = json.loads(out)["modules"]
        cost = self._cost(modules.get(f"\\{UNIT}", {}), module) if self.gate is None else self._gated(modules, module)
        self._keep(self._key(module), cost)
        return cost

    def _cost(self, counts: Mapping[str, object], module: Module) -> Cost:
        cells = counts.get("num_cells_by_type", {})
        assert isinstance(cells, dict)
        self._require_mapped(cells, module)
        flip_flops = sum(count for cell, count in cells.items() if cell in self.process.flip_flops)
        return Cost(float(str(counts.get("area", 0.0))), flip_flops)

    def _gated(self, modules: Mapping[str, Mapping[str, Any]], module: Module) -> Cost:
        """The cost of a module with its clock gates; an event may clock all that is behind any of them."""
        assert self.gate is not None
        found = clock_gates.gated(modules.get(UNIT, {"cells": {}}), self.process.flip_flops)
        self._require_mapped(found.cells, module)
        areas = {cell.name: cell.area_um2 for cell in self.process.cells}
        area = sum(areas.get(cell, 0.0) * count for cell, count in found.cells.items())
        flip_flops = sum(count for cell, count in found.cells.items() if cell in self.process.flip_flops)
        area += found.gates * self.gate.area_um2
        return Cost(area, flip_flops, found.flip_flops, found.flip_flops, found.gates)

    def _require_mapped(self, cells: Mapping[str, int], module: Module) -> None:
        unmapped = sorted(cell for cell in cells if cell.startswith("$"))
        if unmapped:
            raise PriceError(f"{self.process.name} has no cell for {', '.join(unmapped)}, which {module.path} needs")

    def _keep(self, key: str, cost: Cost) -> None:
        text = json.dumps(asdict(cost))

        def make(folder: Path) -> Path:
            (folder / "cost").write_text(text)
            return folder / "cost"

        kept(self._place(key), make)
