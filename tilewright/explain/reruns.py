"""What something else would cost, by making that program and running it in the cycle model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import finished
from tilewright.compiler.search.changes import Cut
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile
from tilewright.errors import InputError
from tilewright.explain.layers import Tiles, tiles_of
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned
from tilewright.profiles.what_if import Changed
from tilewright.values.compiled import Compiled

RUNNERS_UP = 5
"""As many other cuts of a layer are tried."""

KINDS_RANKED = 12
"""They are taken from as many kinds; of those that differ in nothing that shows, only the first."""


@dataclass(frozen=True, slots=True)
class OtherTiles:
    """Another cut of a layer; `cycles` of the whole program, None if it does not fit."""

    tiles: Tiles
    cycles: int | None


def other_tiles(compiled: Compiled, planner: Planner, plan: Plan, position: int) -> list[OtherTiles]:
    """The cuts of other kinds that the analytic model finds best for a layer, each measured in the whole program."""
    nest = plan.shapes[position].cover.nest
    found: list[OtherTiles] = []
    seen = [tiles_of(plan.shapes[position], plan.choices[position])]
    for choice in planner.ranked(position, plan.residency, KINDS_RANKED):
        tiles = tiles_of(plan.shapes[position], choice)
        if len(found) == RUNNERS_UP or any(tiles.is_like(other) for other in seen):
            continue
        seen.append(tiles)
        tiling = Cut({nest.name: choice.as_wanted}).apply(compiled.options.tiling)
        try:
            program = finished(tile(compiled.selection, tiling), compiled.options, compiled.program.machine)
            found.append(OtherTiles(tiles, exact_cycles(program)))
        except CompileError:
            found.append(OtherTiles(tiles, None))
    return found


def what_if(model: Path | bytes, isa: str, overrides: Sequence[str], change: str, options: Options) -> Changed:
    """The cycles of the model, compiled anew for the machine with one more setting."""
    try:
        network = compile_partitioned(model, load_machine(isa, (*overrides, change)), options)
    except (CompileError, IsaError, InputError) as error:
        return Changed(change, None, str(error).splitlines()[0])
    programs = network.programs if isinstance(network, Partitioned) else (network,)
    return Changed(change, sum(map(exact_cycles, programs)), images=network.images)


def usual_changes(machine: Machine, memory: str) -> list[str]:
    """A bus of twice the width, and twice the memory for tensors that stay on chip."""
    wider = [f"dram.bus_bytes={2 * machine.dram.bus_bytes}"]
    if memory not in machine.memories:  # nothing is computed from anything
        return wider
    held = machine.memories[memory]
    size = held.depth * held.word_bytes
    twice = f"kib={size // 512}" if size % 512 == 0 else f"depth={2 * held.depth}"
    return [*wider, f"memories.{memory}.{twice}"]
