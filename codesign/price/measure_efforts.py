"""What each effort of mapping makes of one lane and one processing element, as the table of docs/price.md.

python -m tilewright.codesign.price.measure_efforts base16      # a minute
python -m tilewright.codesign.price.measure_efforts base16 --set pipeline.mac=1 --effort fast
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.efforts import EFFORTS
from tilewright.codesign.price.netlist import converted, with_all_inside
from tilewright.codesign.price.parts import ProcessingElement
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.timing_synthesis import TimingSynthesis
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.arrays import systolic_arrays
from tilewright.rtl.datapath import VectorDatapath


def measured(
    machine: Machine, process: Process, efforts: Iterable[str] = EFFORTS
) -> dict[str, dict[str, tuple[float, float]]]:
    """By part and effort: the longest path in ns, and the area in µm²."""
    parts = {}
    for engine in machine.of(Template.VECTOR)[:1]:
        parts["a lane"] = converted(VectorDatapath(machine.with_lanes(1), engine))
    for engine in machine.of(Template.SYSTOLIC)[:1]:
        array = systolic_arrays(machine, engine)[0]
        parts["a processing element"] = converted(ProcessingElement(array, array.rows - 1, False))
    texts = {name: ("top", with_all_inside("top", *part)) for name, part in parts.items()}
    synthesis, areas = TimingSynthesis(process), {cell.name: cell.area_um2 for cell in process.cells}
    found: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in parts}
    for effort in efforts:
        for name, module in synthesis.mapped(texts, dict.fromkeys(texts, effort)).items():
            ends = synthesis.static.ends(module, synthesis.static.arrivals(module, {}))
            area = sum(areas.get(cell["type"], 0.0) for cell in module.cells.values())
            found[name][effort] = max(path.ns for path in ends), area
    return found


def main(arguments: list[str]) -> int:
    """Print a line for each part and effort."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.codesign.price.measure_efforts", description=__doc__)
    parser.add_argument("machine", help="a shipped machine's name, or a .yaml file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of it, otherwise")
    parser.add_argument("--effort", action="append", choices=EFFORTS, help="only this one; may be repeated")
    asked = parser.parse_args(arguments)
    try:
        machine = load_machine(asked.machine, asked.set)
        for name, efforts in measured(machine, load_process(), asked.effort or EFFORTS).items():
            for effort, (ns, um2) in efforts.items():
                print(f"{name}, {effort}: {ns:.2f} ns, {um2:,.0f} µm²", flush=True)
    except (IsaError, PriceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
