"""`tilewright price`: what a machine takes in a process, and what programs take of its memories' energy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.options import Isa, Json, Set, report

if TYPE_CHECKING:
    from tilewright.codesign.price.price import Price


def price_command(
    isa: Isa,
    programs: Annotated[
        list[Path] | None, typer.Argument(metavar="[PROGRAM]...", help="Compiled programs whose energy to add.")
    ] = None,
    set: Set = None,  # noqa: A002
    exact: Annotated[
        bool, typer.Option("--exact", help="Synthesise all of it, which takes minutes; else most is estimated.")
    ] = False,
    process: Annotated[
        Path | None, typer.Option("--process", metavar="DIR", help="Cells and macros of another process.")
    ] = None,
    dram_pj_per_byte: Annotated[
        float | None, typer.Option("--dram-pj-per-byte", metavar="PJ", min=0.0, help="What a byte of DRAM takes.")
    ] = None,
    json: Json = None,
) -> None:
    """Area by unit, memories as macros, gate equivalents; with programs, the energy of their memory accesses."""
    from tilewright.codesign.price.price import price_machine
    from tilewright.codesign.price.process import load_process
    from tilewright.codesign.price.report import energy_table, price_report, price_tables
    from tilewright.isa.files.loader import load_machine
    from tilewright.progress import progress
    from tilewright.tables import print_tables

    machine = load_machine(isa, tuple(set or ()))
    known = load_process(process)
    with progress(f"pricing {machine.name}"):
        price = price_machine(machine, known, exact)
    per_byte = known.dram_pj_per_byte if dram_pj_per_byte is None else dram_pj_per_byte
    value: dict[str, Any] = price_report(price)
    if programs:
        value["energy"] = [_energy(price, program, per_byte) for program in programs]
    if report(value, json):
        print_tables([*price_tables(value), *(energy_table(each) for each in value.get("energy", ()))])


def _energy(price: Price, path: Path, dram_pj_per_byte: float) -> dict[str, Any]:
    """The energy of a program file, which must be for the priced machine; of several programs in it, of all."""
    from tilewright.api import Program
    from tilewright.codesign.price.energy import energy_of_layers
    from tilewright.codesign.price.report import energy_report

    loaded = Program.load(path, price.machine)
    found, cycles = [], 0
    for binary in loaded.programs:
        profile = Program(binary).profile()
        found += energy_of_layers(price, binary, profile, dram_pj_per_byte)
        cycles += profile["cycles"]
    return energy_report(path.name, cycles, found, dram_pj_per_byte)
