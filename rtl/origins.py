"""Which class of ours each module of a netlist is, and where that stands: for whoever reads the Verilog."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from amaranth.hdl import Fragment

from tilewright.isa.machine.machine import Machine
from tilewright.isa.rare_collection import rare_collection
from tilewright.rtl.npu import Npu
from tilewright.rtl.verilog import TOP


def origins(machine: Machine, prefix: str = "") -> dict[str, str]:
    """A line for each module by its name: `Bursts (rtl/runs.py, line 46): Cuts the DRAM side of an instruction …`.

    Modules that nobody here wrote, such as those of Amaranth's memories, have none.
    """
    with rare_collection():
        top = Fragment.get(Npu(machine), None)
        return dict(_lines(top, f"{prefix}{TOP}"))


def _lines(fragment: Fragment, name: str) -> Iterator[tuple[str, str]]:
    for origin in fragment.origins or ():
        kind = type(origin)
        if kind.__module__.startswith("tilewright."):
            yield re.sub(r"\W+", "_", name), _line(kind)
            break
    for number, (part, own, _) in enumerate(fragment.subfragments):
        yield from _lines(part, f"{name}.{own or f'U${number}'}")


def _line(kind: type) -> str:
    file, (_, number) = inspect.getsourcefile(kind), inspect.getsourcelines(kind)
    assert file is not None
    shown = Path(file).resolve().relative_to(Path(__file__).resolve().parents[1]).as_posix()
    about = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    return f"{kind.__name__} ({shown}, line {number}): {about}".rstrip(": ")
