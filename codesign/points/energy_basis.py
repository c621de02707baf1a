"""What energies on chip rest on, in words."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codesign.points.evaluate import NetworkFigures


def energy_basis(outcomes: Sequence[NetworkFigures], mark: str = "") -> str:
    """Which memories' energy is estimated, with what that may make of a sum, and which is unknown; begins with `; `."""
    estimated = dict.fromkeys(name for of in outcomes for name in of.estimated)
    unknown = dict.fromkeys(name for of in outcomes for name in of.unmeasured)
    shares = [of.estimated_error_mj / of.on_chip_mj for of in outcomes if of.on_chip_mj]
    found = ""
    if estimated:
        found = f"; {mark}{' ' if mark else ''}that of {', '.join(estimated)} is estimated from other macros"
        found += f", which may be {100 * max(shares, default=0.0):.1f} % of the sum"
    if unknown:
        found += f"; not known where {', '.join(unknown)} is accessed, which the process does not measure"
    return found
