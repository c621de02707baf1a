"""The clocks of a machine and of its units by the seed of their placement, as the tables of docs/price.md.

python -m tilewright.codesign.price.fpga_seeds tiny8 --seeds 1 2 3      # estimated before routing, five minutes each
python -m tilewright.codesign.price.fpga_seeds tiny8 --route            # placed and routed, seven to ten minutes each
python -m tilewright.codesign.price.fpga_seeds tiny8 --by-unit          # of each unit alone, 15 minutes
python -m tilewright.codesign.price.fpga_seeds tiny8 --option=--placer-heap-timingweight --option=10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.fpga import estimated_clock_of, routed_clock_of
from tilewright.codesign.price.fpga_family import FAMILIES
from tilewright.codesign.price.fpga_units import clocks_by_unit
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tilewright.codesign.price.fpga_seeds")
    parser.add_argument("machine", help="a shipped machine's name, or a .yaml file")
    parser.add_argument("--fpga", default="ecp5", help=f"one of: {', '.join(FAMILIES)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--route", action="store_true", help="route each placement, as `tilewright price --place` does")
    way.add_argument("--by-unit", action="store_true", help="place each unit alone")
    parser.add_argument("--option", action="append", default=[], help="of nextpnr; replaces ours of that name")
    given = parser.parse_args(arguments)
    try:
        machine, clocks = load_machine(given.machine), []
        if given.by_unit:
            for unit, found in clocks_by_unit(machine, given.fpga, given.seeds, given.option):
                print(f"{unit}: {', '.join(f'{mhz:.1f}' for mhz in found)} MHz", flush=True)
            return 0
        for seed in given.seeds:
            clock_of = routed_clock_of if given.route else estimated_clock_of
            clocks.append(clock_of(machine, given.fpga, seed, given.option))
            print(f"seed {seed}: {clocks[-1]:.1f} MHz", flush=True)
    except (IsaError, PriceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"mean: {sum(clocks) / len(clocks):.1f} MHz {'routed' if given.route else 'before routing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
