"""Trials on a Dask cluster of two workers on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from distributed import LocalCluster

from tests.digits import MODEL
from tilewright.codesign.advise.changes import steps
from tilewright.codesign.advise.on_cluster import OnCluster
from tilewright.codesign.advise.trials import Bench, Trials
from tilewright.codesign.errors import StudyError
from tilewright.codesign.points.network import read_network
from tilewright.isa.files.loader import load_machine


@pytest.mark.long
def test_trials_of_a_cluster_are_those_of_this_machine_and_are_kept(tmp_path: Path) -> None:
    machine = load_machine("tiny8")
    bench = Bench(machine, (read_network(MODEL),), 0, with_price=False)
    changes = [None, *steps(machine)[:3]]
    with Trials(bench, 1, lambda finished, asked: None) as trials:
        here = trials.run(changes)

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        at = cluster.scheduler_address
        with Trials(bench, 1, lambda finished, asked: None, elsewhere=OnCluster(at, bench, tmp_path)) as trials:
            there = trials.run(changes)
        again = OnCluster(at, bench, tmp_path)
        again._client.submit = None  # nothing may be asked of the workers
        kept = dict(again.trials(changes))
        again.close()

    assert [cycles(trial) for trial in there] == [cycles(trial) for trial in here]
    assert [cycles(kept[position]) for position in range(len(changes))] == [cycles(trial) for trial in here]


def cycles(trial: object) -> list[int]:
    return [outcome.cycles for outcome in trial.outcomes]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_without_a_scheduler_there_is_one_error() -> None:
    bench = Bench(load_machine("tiny8"), (), 0, with_price=False)
    with pytest.raises(StudyError, match="no Dask scheduler answers there"):
        OnCluster("tcp://127.0.0.1:1", bench, None)
