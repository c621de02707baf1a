"""`tilewright explore profile`: where the cycles go on a machine of a study; and profiles beside a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.commands.options import ON_TERMINAL, Json, report, write_output

if TYPE_CHECKING:
    from tilewright.codesign.explore.space import Space
    from tilewright.codesign.explore.study import Study

SpaceFile = Annotated[
    Path | None, typer.Option("--space", metavar="FILE", help="The space's file, if it is not where it was.")
]


def profile_command(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")],
    point: Annotated[
        str, typer.Argument(metavar="POINT", help="Its label, such as 'array.rows=8 lanes=8'; see the page, or --json.")
    ],
    network: Annotated[
        str | None, typer.Option("--network", metavar="NAME", help="Which, if the space has several.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts, one file for any browser.")
    ] = None,
    space: SpaceFile = None,
    json: Json = None,
) -> None:
    """Show where the cycles of a network go on the machine of a point, which are compiled again."""
    from tilewright.codesign.explore.study import Study
    from tilewright.profiles.report import View, print_profile
    from tilewright.simulator.run_profile import profile_json
    from tilewright.studies.profiles import network_of, point_of, profile_of
    from tilewright.terminal.progress import progress

    if html == ON_TERMINAL and json == ON_TERMINAL:
        raise typer.BadParameter("--html and --json cannot both be standard output: give one of them a file")
    found = Study(study)
    entry, name = point_of(found, point), network_of(found, network)
    with progress(f"profiling {name}"):
        profiled = profile_of(found, space_of(found, space), entry, name)
    if profiled.note:
        typer.echo(profiled.note, err=True)
    if html is not None:
        write_output(html, profiled.html())
    if report(profile_json(profiled.profile), json) and html != ON_TERMINAL:
        print_profile(profiled.profile, View())


def write_profiles(study: Study, space: Space, html: Path) -> None:
    """Write the profiles of the front into a folder beside a study's page."""
    from tilewright.studies.profiles import file_name, folder_of, profile_of
    from tilewright.terminal.progress import progress

    folder = folder_of(html)
    folder.mkdir(exist_ok=True)
    for entry in study.front:
        for network in study.networks:
            with progress(f"profiling {network} on {entry.label}"):
                profiled = profile_of(study, space, entry, network)
            write_output(folder / file_name(entry, network), profiled.html())


def space_of(study: Study, file: Path | None) -> Space:
    """The space of a study: the study's copy, with its files where they were; or a file. Raises StudyError."""
    from tilewright.codesign.errors import StudyError
    from tilewright.codesign.explore.space_file import read_space, read_space_text
    from tilewright.codesign.explore.specialised import instructions_of
    from tilewright.codesign.explore.store import read_space_of

    beside = Path(study.space_facts.get("beside") or study.folder)
    try:
        space = read_space(file) if file is not None else read_space_text(read_space_of(study.folder), beside)
        return instructions_of(space, study.folder)
    except StudyError as error:
        raise StudyError(f"{error}\nIf the files of this space are elsewhere now, --space FILE says where.") from error
