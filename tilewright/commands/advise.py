"""`tilewright advise`: which single change of a machine buys most for these networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.commands.options import Batch, Calibration, Effort, Isa, Jobs, Json, Networks, Seed, Set, Shape, report
from tilewright.terminal.completion import complete_machine

if TYPE_CHECKING:
    from tilewright.codesign.advise.advice import Advice

Overlays = Annotated[
    list[str] | None,
    typer.Option("--overlay", metavar="FILE", help="Also try this laid over the machine: a .yaml file."),
]
NoPrice = Annotated[bool, typer.Option("--no-price", help="Only cycles: no area or energy.")]
Top = Annotated[int, typer.Option("--top", metavar="NUMBER", min=1, help="Show so many changes of each kind.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KEY",
        help="Try only this key and those below it, such as dram, and --overlay; instructions takes each of them away.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="MACHINE",
        autocompletion=complete_machine,
        help="Only take away each instruction that this machine lacks.",
    ),
]


def advise_command(
    networks: Networks,
    isa: Isa,
    set: Set = None,  # noqa: A002
    overlay: Overlays = None,
    only: Only = None,
    against: Against = None,
    no_price: NoPrice = False,
    effort: Effort = 1,
    top: Top = 10,
    jobs: Jobs = None,
    shape: Shape = None,
    batch: Batch = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Try every single change of a machine: which gains most, and what can go?

    Each key a step up and down, each shipped and given overlay on and off, what no program uses away: the networks are
    compiled anew for each of these machines and simulated. Takes minutes; what came of each is said at once, the most
    promising first. Stop it with Ctrl-C: the same command goes on where it stopped.
    """
    from tilewright.better_machines import advise
    from tilewright.codesign.advise.tables import advice_lines, advice_tables
    from tilewright.commands.quantize import print_warnings
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.terminal.progress import counting
    from tilewright.terminal.tables import print_tables, print_text

    shapes = parse_shapes(shape or ())
    from tilewright.isa.folders.cache import cache_folder

    with counting("trying machines") as (done, say):
        found: Advice = advise(
            networks, isa, set or (), overlay or (), effort, not no_price, shapes, only or (), jobs, done,
            calibration, seed, print_warnings, against, say, cache_folder() / "trials", batch,
        )  # fmt: skip
    if report(found.as_json(), json):
        tables = advice_tables(found, top)
        print_tables(tables)
        if tables:
            print()
        for line in advice_lines(found):
            print_text(line)
