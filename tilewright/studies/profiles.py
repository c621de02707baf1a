"""Profiles of a study's points. A study keeps figures alone: machine and network are compiled again."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright import api
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.study import DONE, Entry, Study
from tilewright.codesign.points.machine import machine_key
from tilewright.codesign.points.network import read_network
from tilewright.host.segments import ProgramRun
from tilewright.isa.errors import did_you_mean
from tilewright.profiles.page.page import page
from tilewright.simulator.run_profile import RunProfile

LONGEST = 80
"""Characters of a file's name that say what is in it; then comes what tells it from others."""


@dataclass(frozen=True)
class PointProfile:
    """A network's profile on the machine of a point; `note` is what is to be said of it."""

    title: str
    profile: RunProfile
    runs: Sequence[ProgramRun]
    note: str

    def html(self) -> str:
        return page(self.title, self.profile, self.runs)


def profile_of(study: Study, space: Space, entry: Entry, network: str) -> PointProfile:
    """Raises StudyError where the space's files have changed since the study, and what compiling raises."""
    machine = space.machine(entry.values)
    kept = study.line("machine", entry.label)
    if kept is None or machine_key(machine) != kept.get("machine"):
        raise StudyError(f"{study.folder}: the machine of {entry.label} has changed since; run the study again")
    path = next(each.path for each in space.networks if each.name == network)
    model = read_network(path, name=network)
    if model.hash not in {each["hash"] for each in study.space_facts["networks"]}:
        raise StudyError(f"{path}: is not the network of the study any more; run the study again")
    program = api.compile(model.content, machine, effort=space.effort)
    runs = program.runs()
    profile = program.profile_of(runs)
    measured = entry.networks[network].cycles
    note = f"The study has {measured:,} cycles, by another version." if profile.cycles != measured else ""
    return PointProfile(f"{network} on {machine.name}", profile, runs, note)


def point_of(study: Study, label: str) -> Entry:
    """The measured point of a label, of which the words may come in any order. Raises StudyError."""
    entries = {frozenset(entry.label.split()): entry for entry in study.entries}
    entry = entries.get(frozenset(label.split()))
    if entry is None:
        meant = did_you_mean(label, [each.label for each in study.entries])
        raise StudyError(f"{study.folder}: no point {label!r}{meant}; `tilewright explore show --csv -` lists the keys")
    if entry.state != DONE:
        raise StudyError(f"{study.folder}: {entry.label} has no profile: it is {entry.state}")
    return entry


def network_of(study: Study, name: str | None) -> str:
    """The network of that name, or the only one. Raises StudyError."""
    names = list(study.networks)
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        said = "which network?" if name is None else f"no network {name!r}{did_you_mean(name, names)};"
        raise StudyError(f"{study.folder}: {said} --network takes one of: {', '.join(names)}")
    return name


def command_of(study: Study, entry: Entry, network: str) -> str:
    """The command that writes a profile's page, for a shell."""
    words = ["tilewright", "explore", "profile", str(study.folder), entry.label]
    words += ["--network", network] if len(study.networks) > 1 else []
    return shlex.join([*words, "--html", "profile.html"])


def folder_of(html: Path) -> Path:
    """Where the profiles of a study's page are: beside it."""
    return html.with_name(f"{html.stem}-profiles")


def file_name(entry: Entry, network: str) -> str:
    """Of a profile's page: readable, and different for each point and network."""
    text = f"{entry.label} {network}"
    readable = re.sub(r"[^\w.=+-]+", "_", text)[:LONGEST]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.html"


def files_beside(html: Path, study: Study) -> Mapping[tuple[str, str], str]:
    """The profiles that lie beside a page: addresses by the point's label and the network."""
    folder = folder_of(html)
    there = {path.name for path in folder.glob("*.html")}
    found = {}
    for entry in study.measured if there else ():
        for network in study.networks:
            if (name := file_name(entry, network)) in there:
                found[entry.label, network] = f"{folder.name}/{name}"
    return found
