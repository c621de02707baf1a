"""What the analytic model assumes of the nests around the one whose tiles it compares."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a nest costs or saves besides its own work, by what is computed before, beside and after it.

    `tile_cycles`: of each tile, because its instructions start one after the other. `traffic`: of a cycle of loading
    that other engines hide. `exposed_weights`: the share of the time for loading the first weights that no nest before
    hides. `is_beside`: whether others wait for the first tile of a nest without products. `is_uneven`: whether
    tiles at the ends of loops, where they are smaller or reach beyond a tensor, load less: nests that run beside each
    other get along better with even ones. `most_arrays`: so many arrays share its tiles at the most; None: all.
    """

    tile_cycles: float
    traffic: float
    exposed_weights: float
    is_beside: bool
    is_uneven: bool
    most_arrays: int | None = None

    def arrays(self, machine: Machine) -> int:
        """How many arrays compute tiles of a nest."""
        return 1 + len(machine.first_twins(self.most_arrays))


IN_A_NETWORK = Surroundings(tile_cycles=7.5, traffic=0.05, exposed_weights=0.5, is_beside=True, is_uneven=False)
"""Tiles are chosen with these: others use the bus as well, and of two equal tilings the one that loads less wins."""

ALONE = Surroundings(tile_cycles=0, traffic=0, exposed_weights=1, is_beside=False, is_uneven=True)
"""Nothing is before, beside or after: what the model expects can be compared with the exact one."""
