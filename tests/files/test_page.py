"""docs/files.md is what is tried: a file of each exporter in the fast ring, all of them in the long one."""

from __future__ import annotations

import re

import pytest

from tests.files import torch_export
from tests.files.page import PAGE, TRIALS, page, row
from tests.files.trial import Ending, Trial, tried

FIRST = {trial.exporter: trial for trial in reversed(TRIALS)}
"""The first file of each exporter."""

SAMPLE = [*FIRST.values(), *(trial for trial in TRIALS if trial.form in ("LSTM", "detections, of boxes"))]


def name(trial: Trial) -> str:
    return f"{trial.exporter}: {trial.form}"


def held(trial: Trial) -> None:
    """Where it runs and how exactly is on the page; who made the file is a matter of what is installed."""
    expected = row(trial, tried(trial))
    made_otherwise = expected.replace("| run |", "| generator |")
    assert expected in PAGE.read_text() or (trial in torch_export.TRIALS and made_otherwise in PAGE.read_text())


@pytest.mark.parametrize("trial", SAMPLE, ids=name)
def test_the_page_says_how_a_file_ends(trial: Trial) -> None:
    held(trial)


@pytest.mark.long
@pytest.mark.parametrize("trial", [trial for trial in TRIALS if trial not in SAMPLE], ids=name)
def test_the_page_says_how_every_file_ends(trial: Trial) -> None:
    held(trial)


def test_every_file_has_a_row() -> None:
    rows = re.findall(r"^\| (.*?) \| (?:run|generator) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(trial.form for trial in TRIALS)


def test_nothing_falls_to_the_host_or_is_refused_without_a_reason() -> None:
    for line in PAGE.read_text().splitlines():
        if " | refused | " in line or "host: " in line:
            assert not line.endswith("|  |"), line


def test_the_page_counts_where_files_run() -> None:
    made = [Trial("A", form, bytes) for form in "pqrs"]
    endings = (
        Ending("machine", "", "equal"),
        Ending("host: X", "a|b"),
        Ending("machine; host: Y", "c"),
        Ending("refused", "d"),
    )
    text = page({trial: row(trial, ending) for trial, ending in zip(made, endings, strict=True)})
    assert (
        "Of 4 files, 1 run on the machine as a whole, 2 on machine and host or on the host, and 1 are refused." in text
    )
    assert "| q | generator | host: X |  | a\\|b |" in text
