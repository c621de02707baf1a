"""How far estimated prices are from exact ones, and fitted ones from estimated ones, as the tables of docs/price.md.

python -m tilewright.codesign.price.estimate_error tiny8 base16    # an exact price takes minutes
python -m tilewright.codesign.price.estimate_error tiny8 --keep docs/price_errors.json  # prints earlier ones too
python -m tilewright.codesign.price.estimate_error tiny8 --fit array.rows=16 --fit engines.vec.queue=5
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.price import Price, price_machine
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.machine import Machine

COUNTED_SHARE = 0.02
"""Of the logic: the error of a smaller unit is not worth a line."""


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """The logic of a machine by two prices, and the unit in which they are furthest apart."""

    machine: str
    kge: tuple[float, float]
    error: float
    worst_unit: str
    worst_error: float
    yosys: str


def compared(first: Price, second: Price) -> PriceComparison:
    kge = [price.gates(price.logic_um2) / 1000 for price in (first, second)]
    error = first.logic_um2 / second.logic_um2 - 1
    return PriceComparison(second.machine.name, (kge[0], kge[1]), error, *worst_unit(first, second), second.yosys)


def error_table(pairs: Sequence[tuple[Price, Price]], kinds: tuple[str, str] = ("estimated", "exact")) -> str:
    """A line for each machine, of its price of either kind, in Markdown."""
    return comparison_table([compared(*pair) for pair in pairs], kinds)


def comparison_table(comparisons: Iterable[PriceComparison], kinds: tuple[str, str] = ("estimated", "exact")) -> str:
    lines = [
        f"| machine | {kinds[0]} kGE | {kinds[1]} kGE | error | worst unit above 2 % |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for each in comparisons:
        kilogates = " | ".join(f"{value:,.1f}" for value in each.kge)
        worst = f"{each.worst_unit}: {each.worst_error:+.2%}"
        lines.append(f"| `{each.machine}` | {kilogates} | {each.error:+.2%} | {worst} |")
    return "\n".join(lines)


def kept_comparisons(path: Path) -> dict[str, PriceComparison]:
    """What a file holds, by machine; nothing if there is no such file. Raises PriceError for one that is not ours."""
    if not path.exists():
        return {}
    try:
        rows = [PriceComparison(**{**row, "kge": tuple(row["kge"])}) for row in json.loads(path.read_text())]
    except (ValueError, TypeError, KeyError) as error:
        raise PriceError(f"{path}: expected a list of comparisons as --keep writes it, not this: {error}") from error
    return {row.machine: row for row in rows}


def keep(path: Path, comparison: PriceComparison) -> None:
    """Write a comparison into a file, in place of an older one of the same machine."""
    rows = {**kept_comparisons(path), comparison.machine: comparison}
    text = ",\n".join(json.dumps(dataclasses.asdict(row)) for _, row in sorted(rows.items()))
    path.write_text(f"[\n{text}\n]\n")


def kept_page(path: Path) -> str:
    """The table of all that a file holds, and the shipped machines that it does not hold."""
    rows = kept_comparisons(path)
    missing = [f"`{name}`" for name in shipped_machines() if name not in rows]
    return comparison_table(rows.values()) + (f"\n\nNot compared: {', '.join(missing)}." if missing else "")


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
    parser.add_argument("machines", nargs="*", help="shipped machines or YAML files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of all of them")
    parser.add_argument("--fit", action="append", default=[], metavar="KEY=VALUE", help="a size: fitted, not exact")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add the results to those in a file, and print all")
    options = parser.parse_args(arguments)
    if not options.machines and not options.keep:
        parser.error("name a machine, or a FILE with --keep to print what it holds")
    if options.keep and (options.fit or options.set):
        parser.error("--keep holds exact prices of machines as they are: without --fit and --set")
    try:
        settings = tuple(options.set)
        if options.fit:
            pairs = [_fitted(name, settings, size) for name in options.machines for size in options.fit]
            print(error_table(pairs, ("fitted", "estimated")))
        elif options.keep:
            for name in options.machines:
                keep(options.keep, compared(*_exact(load_machine(name))))  # one by one: a run may be stopped
            print(kept_page(options.keep))
        else:
            machines = [load_machine(name, settings) for name in options.machines]
            print(error_table([_exact(machine) for machine in machines]))
    except (IsaError, PriceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _exact(machine: Machine) -> tuple[Price, Price]:
    """The price of a machine, estimated and exact."""
    return price_machine(machine), price_machine(machine, exact=True)


def _fitted(name: str, settings: tuple[str, ...], size: str) -> tuple[Price, Price]:
    """The price of a machine with another size, fitted and estimated."""
    machine = load_machine(name, (*settings, size))
    return price_machine(machine, like=load_machine(name, settings)), price_machine(machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
