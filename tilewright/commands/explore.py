"""`tilewright explore`: run a study of a space of machines, show what it found, join studies."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tilewright.commands.options import ON_TERMINAL, Json, report, write_output
from tilewright.commands.study import SpaceFile, profile_command, space_of, write_profiles
from tilewright.commands.verify import print_verified, require_sound, verified_json, verify_command, verify_points
from tilewright.studies.progress import study_progress

if TYPE_CHECKING:
    from tilewright.codesign.explore.run import MakePool
    from tilewright.codesign.explore.space import Space
    from tilewright.codesign.explore.study import Study

RUN = "run"


class _RunsByDefault(TyperGroup):
    """`explore space.yaml` stands for `explore run space.yaml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


explore_app = typer.Typer(
    cls=_RunsByDefault,
    help="Measure and price all machines of a space, and show which are worth choosing between.\n\n"
    "`explore SPACE -o STUDY` is short for `explore run SPACE -o STUDY`.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")]
LEAST_FOR_IMPORTANCE = 8
"""Fewer points say little about which key mattered."""


@explore_app.command(RUN)
def run_command(
    space: Annotated[Path, typer.Argument(metavar="SPACE", help="A .yaml file that says what may differ.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STUDY", help="The folder for results; one with some goes on.")
    ],
    search: Annotated[
        str,
        typer.Option("--search", metavar="HOW", help="all; spread; or, compared with spread: local, tpe, nsga."),
    ] = "all",
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="POINTS", min=1, help="Look at so many machines at most.")
    ] = None,
    reuse: Annotated[
        list[Path] | None, typer.Option("--reuse", metavar="STUDY", help="Take over what another study computed.")
    ] = None,
    shard: Annotated[
        str, typer.Option("--shard", metavar="I/N", help="Only the I-th of N parts; join them with `explore merge`.")
    ] = "1/1",
    workers: Annotated[
        int, typer.Option("--workers", metavar="COUNT", min=0, help="Processes; 0 is one for each core.")
    ] = 0,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", min=1, help="What one result may take of the processor.")
    ] = 900.0,
    memory: Annotated[float, typer.Option("--memory", metavar="GIB", min=0.1, help="What one worker may take.")] = 4.0,
    dask: Annotated[
        str, typer.Option("--dask", metavar="ADDRESS", help="Let the workers of a Dask scheduler work; or its file.")
    ] = "",
    retry: Annotated[
        bool, typer.Option("--retry", help="Compute again what an earlier run stopped for time or memory.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then test the front as `explore verify` does: values, hardware, area.")
    ] = False,
    json: Json = None,
) -> None:
    """Measure every point of a space: compiled, checked, cycle for cycle, priced. Interrupt and repeat it at will."""
    from tilewright.codesign.explore.pool import TaskLimits
    from tilewright.codesign.explore.run import Choices, processes, run
    from tilewright.codesign.explore.search import search_named
    from tilewright.codesign.explore.space_file import read_space
    from tilewright.codesign.explore.study import Study

    found = read_space(space)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if search_named(search).is_learning and _shard(shard) != (1, 1):
        raise typer.BadParameter(f"--search {search} goes from point to point; only others can be in parts")
    if dask and workers:
        raise typer.BadParameter("--workers is of this machine; a cluster has its own", param_hint="--dask")
    choices = Choices(search, budget, _shard(shard), workers or cores, TaskLimits(seconds, memory), retry)
    made = _cluster(dask) if dask else processes
    with study_progress() as shown:
        notes = run(found, output, choices, reuse or (), shown, made)
    for note in notes:
        typer.echo(note, err=True)
    findings = verify_points(output, found) if verify else ()
    study = Study(output)
    if report(_as_json(study), json):
        _print(study, study.objectives)
    require_sound(findings)


explore_app.command("verify")(verify_command)


@explore_app.command("show")
def show_command(
    study: Folder,
    objective: Annotated[
        list[str] | None,
        typer.Option("--objective", metavar="FIGURE", help="A figure of the front; the space's own if none is given."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every point, those that failed with the reason.")] = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a line a point; - is standard output.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts, one file for any browser.")
    ] = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="With --html: also the front's profiles, which the page links.")
    ] = False,
    space: SpaceFile = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the front in the first two figures.")
    ] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="The same as pixels.")] = None,
    json: Json = None,
) -> None:
    """Show the front of a study, which may still be running: the points that none beats in every objective."""
    from tilewright.codesign.explore.study import Study
    from tilewright.codesign.explore.table import study_csv

    if [csv, html, svg, png, json].count(ON_TERMINAL) > 1:
        raise typer.BadParameter(
            "only one of --csv, --html, --json, --png and --svg can be standard output: give the others files"
        )
    if profiles and html in (None, ON_TERMINAL):
        raise typer.BadParameter("the profiles lie beside a page: name its file with --html", param_hint="--profiles")
    found = Study(study)
    for note in found.notes:
        typer.echo(note, err=True)
    objectives = tuple(objective or found.objectives)
    found.front_in(objectives)
    if csv is not None:
        write_output(csv, study_csv(found))
    if html is not None:
        _write_page(found, html, space_of(found, space) if profiles else None)
    for kind, file in (("svg", svg), ("png", png)):
        if file is not None:
            write_output(file, _picture(found, objectives, kind))
    if report(_as_json(found), json) and ON_TERMINAL not in (csv, html, svg, png):
        _print(found, objectives, every)


explore_app.command("profile")(profile_command)


@explore_app.command("merge")
def merge_command(
    studies: Annotated[list[Path], typer.Argument(metavar="STUDY...", help="Studies of one space, such as shards.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STUDY", help="The folder for all of them.")],
) -> None:
    """Join the results of studies of one space."""
    from tilewright.codesign.explore.store import merged

    lines = merged(studies, output)
    typer.echo(f"{output}: {lines:,} lines of {len(studies)} stud{'y' if len(studies) == 1 else 'ies'}")


def _write_page(study: Study, html: Path, space: Space | None) -> None:
    """The page, with links to the profiles that lie beside it; first those of the front, if a space is given."""
    from tilewright.studies.page.page import study_page
    from tilewright.studies.profiles import files_beside

    if space is not None:
        write_profiles(study, space, html)
    write_output(html, study_page(study, {} if html == ON_TERMINAL else files_beside(html, study)))


def _picture(study: Study, objectives: Sequence[str], kind: str) -> bytes:
    from tilewright.codesign.explore.extras import require

    require("matplotlib", "pictures", f"--{kind}")
    from tilewright.codesign.explore.picture import front_picture

    return front_picture(study, objectives, kind)


def _cluster(address: str) -> MakePool:
    from tilewright.codesign.explore.extras import require

    require("distributed", "cluster", "--dask")
    from tilewright.codesign.explore.cluster import cluster_at

    return cluster_at(address, lambda text: typer.echo(text, err=True))


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= part <= parts:
        raise typer.BadParameter(f"{text!r} is no part of a whole; expected such as 2/8", param_hint="--shard")
    return part, parts


# -- what is printed ---------------------------------------------------------------------------------------------------


def _as_json(study: Study) -> Mapping[str, Any]:
    best = {entry.label for entry in study.front}
    return {
        "base": study.base,
        "objectives": list(study.objectives),
        "excluded": [
            {"constraint": each.constraint, "points": each.count, "nearest": each.nearest.label, "has": each.figures}
            for each in study.exclusions()
        ],
        "points": [
            {
                "label": entry.label,
                "state": entry.state,
                "reason": entry.reason,
                "on_front": entry.label in best,
                "keys": dict(zip(study.axes, entry.values, strict=True)),
                "figures": entry.figures,
                "verified": verified_json(study, entry),
                "networks": {name: figures.as_json() for name, figures in entry.networks.items()},
            }
            for entry in study.entries
        ],
    }


def _print(study: Study, objectives: Sequence[str], every: bool = False) -> None:
    from tilewright.codesign.explore.energy_note import energy_notes
    from tilewright.codesign.explore.study import MEANINGS
    from tilewright.terminal.tables import print_table, print_text

    rows = study.front_in(objectives)
    columns = ("difference to " + Path(study.base).stem, *objectives)
    shown = [(study.difference(entry), *(entry.figures[name] for name in objectives)) for entry in rows]
    name = study.folder.absolute().name
    if rows:
        print_table(f"{name}: {len(rows)} point{'s' * (len(rows) != 1)} that none beats", columns, shown)
    else:
        print_text(f"{name}: no point is on the front.")
    states = [f"{count:,} {MEANINGS[state]}" for state, count in study.counts().items()]
    print_text(f"Of {len(study.entries):,} points: {'; '.join(states)}.")
    for note in (study.host_note(), *energy_notes(study, objectives)):
        if note:
            print_text(note)
    _print_exclusions(study)
    print_verified(study, rows)
    _print_searches(study)
    _print_importance(study)
    if every:
        print()
        facts = [
            (study.difference(e), e.state, *(_figure(e.figures.get(n)) for n in objectives)) for e in study.entries
        ]
        print_table("All points", ("point", "state", *objectives), facts)
    _print_reasons(study, every)


def _print_reasons(study: Study, every: bool) -> None:
    """Why points have no figures: each with its own reason, or each reason with how many points it is that of."""
    from tilewright.codesign.explore.study import FAILED
    from tilewright.terminal.tables import print_table

    if every:
        told = [(study.difference(e), e.reason) for e in study.entries if e.reason]
        columns: tuple[str, ...] = ("point", "reason")
    else:
        counts = Counter(entry.reason for entry in study.entries if entry.state == FAILED)
        told = [(f"{count:,}", reason) for reason, count in counts.most_common()]
        columns = ("points", "reason")
    if told:
        print()
        print_table("Why points have no figures", columns, told)


def _print_exclusions(study: Study) -> None:
    """How many points each constraint leaves out, and how far the nearest of them is from it."""
    from tilewright.terminal.tables import print_table

    if found := study.exclusions():
        print()
        rows = [(f"{each.count:,}", each.constraint, each.figures, study.difference(each.nearest)) for each in found]
        title = "Near misses of constraints" if study.measured else "Why no point is left"
        print_table(title, ("points", "do not meet", "nearest", "which is"), rows)


def _print_searches(study: Study) -> None:
    """How much of what is possible each search found, if there are several to compare."""
    from tilewright.codesign.explore.judge import hypervolumes
    from tilewright.terminal.tables import print_text

    volumes = hypervolumes(study) if len(study.searches) > 1 else {}
    texts = [f"{name} {volume:.3f} by {len(study.searches[name])} points" for name, volume in volumes.items()]
    if texts:
        print_text(f"Hypervolume: {', '.join(texts)}.")


def _print_importance(study: Study) -> None:
    from tilewright.codesign.explore.judge import importance
    from tilewright.terminal.tables import percent, print_table

    shares = importance(study)
    if len(study.measured) < LEAST_FOR_IMPORTANCE or not shares:
        return
    ordered = sorted(shares.items(), key=lambda each: -max(each[1].values()))
    print()
    rows = [(axis, *(percent(each[name]) for name in study.objectives)) for axis, each in ordered]
    print_table("What each key explains by itself", ("key", *study.objectives), rows)


def _figure(value: float | None) -> float | str:
    return "" if value is None else value
