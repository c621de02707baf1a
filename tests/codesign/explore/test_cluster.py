"""A study on a Dask cluster of two workers on this machine, with what goes wrong on clusters."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from tests.codesign.explore.fake_worker import serve
from tests.codesign.explore.test_run import MakeSpace, make_space
from tests.tilewright.command_line import make_command
from tilewright.codesign import version as version_module
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.cluster import cluster_at
from tilewright.codesign.explore.lines import key_of
from tilewright.codesign.explore.pool import TaskLimits
from tilewright.codesign.explore.run import Choices, run
from tilewright.codesign.explore.store import POINTS
from tilewright.codesign.explore.study import Study

__all__ = ["make_space"]

SETTINGS = {
    "distributed.worker.memory.terminate": False,
    "distributed.scheduler.allowed-failures": 1,
    "distributed.deploy.lost-worker-timeout": "5 minutes",  # a busy computer takes a while to start one anew
}

LONGEST_SECONDS = 300.0
"""A test that waits longer for workers fails: the scheduler is gone then."""


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """A cluster for one test, which may kill its workers."""
    with (
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as started,
    ):
        end = threading.Timer(LONGEST_SECONDS, started.close)
        end.daemon = True
        end.start()
        yield started
        end.cancel()


def times(folder: Path) -> Counter[object]:
    """How often each line is in a study's file, by its key."""
    return Counter(key_of(json.loads(line)) for line in (folder / POINTS).read_text().splitlines())


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_point_and_none_is_there_twice(
    make_space: MakeSpace, tmp_path: Path, cluster: LocalCluster
) -> None:
    said: list[str] = []
    killed: list[int] = []

    def kill_one(done: int, total: int, text: str) -> None:
        if done == 2 and not killed:
            killed.append(cluster.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    at = cluster.scheduler_address
    run(make_space("slow", "one"), tmp_path / "s", report=kill_one, make_pool=cluster_at(at, said.append), serve=serve)
    assert killed and said == [f"{at}: 2 threads of workers"]
    assert Study(tmp_path / "s").counts() == {"measured": 6}
    found = times(tmp_path / "s")
    assert len(found) == 1 + 6 + 6 + 12 and set(found.values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "limits", "reason"),
    [
        ("spins", TaskLimits(3.0), "took longer than 3 seconds of the processor"),
        ("dies", TaskLimits(), "its process ended with signal 11, as when memory runs out"),
        ("murders", TaskLimits(), "workers of the cluster died over it, as when memory runs out"),
    ],
)
def test_a_point_that_goes_wrong_is_kept_with_its_reason(
    make_space: MakeSpace, tmp_path: Path, cluster: LocalCluster, name: str, limits: TaskLimits, reason: str
) -> None:
    cluster.scheduler.allowed_failures = 0
    made = cluster_at(cluster.scheduler_address, lambda text: None)
    run(make_space(name), tmp_path / "s", Choices(limits=limits), make_pool=made, serve=serve)
    study = Study(tmp_path / "s")
    assert study.counts() == {"measured": 4, "failed": 2}
    assert {e.reason for e in study.entries if e.state == "failed"} == {f"{name}: limit: {reason}"}


@pytest.mark.slow
def test_workers_of_other_code_are_refused(
    make_space: MakeSpace, tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.codesign.explore import cluster as module

    monkeypatch.setattr(module, "version", lambda: "0.0+older")
    made = cluster_at(cluster.scheduler_address, lambda text: None)
    own = version_module.version().replace("+", ".")
    expected = rf"the worker at .* has other code \({own}\) than this run \(0.0.older\)"
    with pytest.raises(StudyError, match=expected):
        run(make_space("one"), tmp_path / "s", make_pool=made, serve=serve)


def test_says_how_to_install_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # type: ignore[arg-type]
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "space.yaml").write_text("base: tiny8\nnetworks: {one: one.onnx}\nobjectives: [cycles]\n")
    tilewright = make_command(capsys, monkeypatch)
    ended = tilewright("explore", tmp_path / "space.yaml", "-o", tmp_path / "s", "--dask", "tcp://nowhere:1")
    assert (ended.code, ended.err) == (
        1,
        "error: --dask needs distributed, not installed here; install the extra: pip install 'tilewright[cluster]'\n",
    )
