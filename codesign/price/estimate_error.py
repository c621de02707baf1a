"""How far estimated prices are from exact ones, and fitted ones from estimated ones, as the tables of docs/price.md.

python -m tilewright.codesign.price.estimate_error tiny8 base16    # an exact price takes minutes
python -m tilewright.codesign.price.estimate_error tiny8 --fit array.rows=16 --fit engines.vec.queue=5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.price import Price, price_machine
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

COUNTED_SHARE = 0.02
"""Of the logic: the error of a smaller unit is not worth a line."""


def error_table(pairs: Sequence[tuple[Price, Price]], kinds: tuple[str, str] = ("estimated", "exact")) -> str:
    """A line for each machine, of its price of either kind, in Markdown."""
    lines = [
        f"| machine | {kinds[0]} kGE | {kinds[1]} kGE | error | worst unit above 2 % |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for estimate, exact in pairs:
        name, error = worst_unit(estimate, exact)
        total = estimate.logic_um2 / exact.logic_um2 - 1
        kilogates = [f"{price.gates(price.logic_um2) / 1000:,.1f}" for price in (estimate, exact)]
        lines.append(f"| `{exact.machine.name}` | {' | '.join(kilogates)} | {total:+.2%} | {name}: {error:+.2%} |")
    return "\n".join(lines)


def worst_unit(estimate: Price, exact: Price) -> tuple[str, float]:
    """The unit with the largest error, and that error, of those that are worth counting."""
    errors = {
        unit.name: estimate.unit(unit.name).area_um2 / unit.area_um2 - 1
        for unit in exact.units
        if exact.share(unit) >= COUNTED_SHARE
    }
    return max(errors.items(), key=lambda error: abs(error[1]))


def main(arguments: list[str]) -> int:
    """Print the table of the machines that are named."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.codesign.price.estimate_error", description=__doc__)
    parser.add_argument("machines", nargs="+", help="shipped machines or YAML files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of all of them")
    parser.add_argument("--fit", action="append", default=[], metavar="KEY=VALUE", help="a size: fitted, not exact")
    options = parser.parse_args(arguments)
    try:
        settings = tuple(options.set)
        if options.fit:
            pairs = [_fitted(name, settings, size) for name in options.machines for size in options.fit]
            print(error_table(pairs, ("fitted", "estimated")))
        else:
            machines = [load_machine(name, settings) for name in options.machines]
            print(error_table([(price_machine(each), price_machine(each, exact=True)) for each in machines]))
    except (IsaError, PriceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _fitted(name: str, settings: tuple[str, ...], size: str) -> tuple[Price, Price]:
    """The price of a machine with another size, fitted and estimated."""
    machine = load_machine(name, (*settings, size))
    return price_machine(machine, like=load_machine(name, settings)), price_machine(machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
