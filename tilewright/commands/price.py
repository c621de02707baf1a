"""`tilewright price`: what a machine takes in a process, and what programs take of its memories' energy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import Isa, Json, Set, load_program, report
from tilewright.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.codesign.price.price import Price
    from tilewright.isa.machine.machine import Machine
    from tilewright.program import Program


WIDE_COLUMNS = 140
"""From this width on, the table of energies has a column for each memory."""


Target = Annotated[
    float | None,
    typer.Option("--target", metavar="MHZ", help="With --clock: macros and mapping for this clock, in minutes."),
]
Fpga = Annotated[str | None, typer.Option("--fpga", metavar="FAMILY", help="Count the cells of an FPGA instead; ecp5.")]
Place = Annotated[bool, typer.Option("--place", help="With --fpga: place and route it, in minutes; print the clock.")]
ByUnit = Annotated[
    bool, typer.Option("--by-unit", help="With --fpga: synthesise each unit alone, too, and print its cells.")
]


def price_command(
    isa: Isa,
    programs: Annotated[
        list[Path] | None, typer.Argument(metavar="PROGRAM", help="Compiled programs, or models, whose energy to add.")
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
    clock: Annotated[
        bool, typer.Option("--clock", help="Add the longest path of each unit, which takes further minutes once.")
    ] = False,
    target: Target = None,
    fpga: Fpga = None,
    place: Place = False,
    by_unit: ByUnit = False,
    json: Json = None,
) -> None:
    """Area by unit, memories as macros, gate equivalents; with programs, the energy of their memory accesses.

    With --clock, the longest path of each unit, and with --target, what reaches a clock; with --fpga, the cells of an
    FPGA instead.
    """
    from tilewright.codesign.price.price import price_machine
    from tilewright.codesign.price.process import load_process
    from tilewright.codesign.price.report import price_report
    from tilewright.codesign.price.sizes import of_other_sizes
    from tilewright.isa.files.loader import load_machine
    from tilewright.terminal.progress import progress

    machine = load_machine(isa, tuple(set or ()))
    if fpga is not None:
        figures = {"--target": target, "--process": process, "--dram-pj-per-byte": dram_pj_per_byte}
        given = {name: value is not None for name, value in figures.items()}
        _refuse_with_fpga({"--exact": exact, "--clock": clock, **given, "PROGRAM": bool(programs)})
        return _price_fpga(machine, fpga, place, by_unit, json)
    _refuse_without_fpga(place, by_unit)
    _refuse_target(target, clock)
    known = load_process(process)
    with progress(f"pricing {machine.name}"):
        price = price_machine(machine, known, exact, None if exact else of_other_sizes(isa, set or ()))
    per_byte = known.dram_pj_per_byte if dram_pj_per_byte is None else dram_pj_per_byte
    value: dict[str, Any] = price_report(price)
    if clock:
        value["clock"] = _clock(price)
    if target is not None:
        value["target"] = _target(price, target)
    if programs:
        loaded = [(path.name, load_program(path, isa, set, None)) for path in programs]
        value["energy"] = [_energy(price, of, name, per_byte, value.get("clock")) for name, of in loaded]
    if report(value, json):
        _print_price(value, price)


def _print_price(value: Mapping[str, Any], price: Price) -> None:
    from tilewright.codesign.price.clock_report import clock_table, target_tables
    from tilewright.codesign.price.report import energy_table, price_tables
    from tilewright.terminal.tables import print_tables, terminal_width

    clocks = [clock_table(value["clock"])] if "clock" in value else []
    clocks += target_tables(value["target"], price.memories) if "target" in value else []
    is_wide = terminal_width() >= WIDE_COLUMNS
    energies = (energy_table(each, is_wide) for each in value.get("energy", ()))
    print_tables([*price_tables(value), *clocks, *energies])


def _refuse_with_fpga(others: Mapping[str, bool]) -> None:
    given = [name for name, is_given in others.items() if is_given]
    if given:
        raise typer.BadParameter(f"--fpga cannot go with {', '.join(given)}: an FPGA has no cells of a process")


def _refuse_target(target: float | None, clock: bool) -> None:
    from tilewright.codesign.price.choice import MOST_MHZ

    if target is not None and not clock:
        raise typer.BadParameter("--target needs --clock: it is the clock to aim at")
    if target is not None and not 0 < target <= MOST_MHZ:
        raise typer.BadParameter(f"--target is {target:g}; expected MHz above 0, at most {MOST_MHZ:,}")


def _refuse_without_fpga(place: bool, by_unit: bool) -> None:
    if place:
        raise typer.BadParameter("--place needs --fpga FAMILY: it places the machine on an FPGA")
    if by_unit:
        raise typer.BadParameter("--by-unit needs --fpga FAMILY: in a process, units are priced anyway")


def _price_fpga(machine: Machine, family: str, place: bool, by_unit: bool, json: Path | None) -> None:
    from tilewright.codesign.price.fpga import fpga_report, fpga_table, price_fpga
    from tilewright.codesign.price.fpga_units import cells_by_unit, units_table
    from tilewright.terminal.progress import progress
    from tilewright.terminal.tables import print_tables

    value = fpga_report(price_fpga(machine, family, place, progress))
    if by_unit:
        with progress(f"synthesising each unit of {machine.name}"):
            value["units"] = cells_by_unit(machine, family)
    if report(value, json):
        print_tables([fpga_table(value), *([units_table(value)] if by_unit else [])])


def _clock(price: Price) -> dict[str, Any]:
    from tilewright.codesign.price.clock import clock_of
    from tilewright.codesign.price.clock_report import clock_report
    from tilewright.terminal.progress import progress

    with progress(f"finding the longest paths of {price.machine.name}"):
        return clock_report(clock_of(price.machine, price.process))


def _target(price: Price, mhz: float) -> dict[str, Any]:
    from tilewright.codesign.price.clock_report import target_report
    from tilewright.codesign.price.target import aimed
    from tilewright.terminal.progress import progress

    with progress(f"mapping {price.machine.name} for {mhz:g} MHz"):
        return target_report(aimed(price, mhz))


def _energy(
    price: Price, program: Program, name: str, dram_pj_per_byte: float, clock: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The energy of a program for the priced machine; its power where the clock is known."""
    from tilewright.codesign.price.report import on_chip_mw

    found = energy_of_program(price, program, name, dram_pj_per_byte)
    return found if clock is None else {**found, "on_chip_mw": on_chip_mw(found, clock["longest_path_ns"])}


def program_energy(loaded: Program, name: str, clock_mhz: float | None = None) -> dict[str, Any]:
    """The energy of a program on its machine in the shipped process, with its assumption for DRAM; power at a clock."""
    from tilewright.codesign.price import price
    from tilewright.codesign.price.process import load_process
    from tilewright.codesign.price.report import with_power
    from tilewright.terminal.progress import progress

    process = load_process()
    machine = loaded.machine
    with progress(f"pricing {machine.name}"):
        found = price.price_machine(machine, process)
    return with_power(energy_of_program(found, loaded, name, process.dram_pj_per_byte), clock_mhz)


def energy_of_program(price: Price, loaded: Program, name: str, dram_pj_per_byte: float) -> dict[str, Any]:
    """Energy by layer; of several programs in it, of all. Raises InputError where the machine runs nothing."""
    from tilewright.codesign.price.energy import energy_of_layers
    from tilewright.codesign.price.report import energy_report
    from tilewright.program import Program

    if not loaded.programs:
        raise InputError(
            f"{name}: the host computes all of it, so that {loaded.machine.name} takes no energy for it; "
            "`tilewright compile` says why each node is the host's"
        )
    found, cycles = [], 0
    for binary in loaded.programs:
        profile = Program(binary).run_profile()
        found += energy_of_layers(price, binary, profile, dram_pj_per_byte)
        cycles += profile.cycles
    return energy_report(name, cycles, found, dram_pj_per_byte, price.memories, loaded.images)


def print_energy(energy: Mapping[str, Any]) -> None:
    from tilewright.codesign.price.report import energy_table
    from tilewright.terminal.tables import print_tables, terminal_width

    print_tables([energy_table(energy, terminal_width() >= WIDE_COLUMNS)])
