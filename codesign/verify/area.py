"""The area of a machine, with all of its logic synthesised."""

from __future__ import annotations

from tilewright.codesign.errors import PriceError
from tilewright.codesign.explore.space import Point, Space
from tilewright.codesign.explore.study import Entry
from tilewright.codesign.explore.totals import machine_figures
from tilewright.codesign.points.priced import exact_price_of
from tilewright.codesign.verify.verdict import Verdict, fails, holds, not_done
from tilewright.isa.machine.machine import Machine


def verify_area(space: Space, point: Point, entry: Entry, machine: Machine) -> Verdict:
    """Synthesise all logic; fails when a constraint that the study's figures meet is not met by the exact ones."""
    try:
        exact = machine_figures(exact_price_of(machine, space.target_mhz(point)).figures)
    except PriceError as error:
        return not_done(str(error))
    known = {name: value for name, value in exact.items() if name != "clock_mhz"}
    names = {**space.names(point), **entry.figures, **known}
    text = f"{exact['logic_mm2']:.3g} mm² of logic, {_share(entry, exact['logic_mm2'] or 0.0)} the study's figure"
    for constraint in space.constraints:
        if constraint.figures & known.keys() and not constraint.is_met(names):
            return fails(f"{text}: `{constraint.expression.text}` is not met")
    return holds(text)


def _share(entry: Entry, exact: float) -> str:
    """How far the exact logic is from what the study has: `2.1 % above`."""
    estimated = entry.figures.get("logic_mm2") or exact
    share = 100 * (exact / estimated - 1)
    return f"{abs(share):.1f} % {'above' if share > 0 else 'below'}"
