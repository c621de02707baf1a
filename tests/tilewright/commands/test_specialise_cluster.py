"""`tilewright specialise --dask`: the same answer from a cluster on this machine, whose workers do the trials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from distributed import LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin

from tests.codesign.specialise.test_candidates import depthwise
from tests.tilewright.command_line import Command
from tilewright.isa.folders.cache import cache_folder

QUICK = ("--area", "+20%", "--no-control", "--no-removals", "--no-clock", "--effort", 0)


class Trials(SchedulerPlugin):
    """Notes the trials that workers made."""

    def __init__(self) -> None:
        self.made: set[object] = set()

    def transition(self, key: object, start: str, finish: str, *args: object, **kwargs: object) -> None:
        if finish == "memory" and "_tried" in str(key):
            self.made.add(key)


def without_trials(folder: Path) -> str:
    """A cache with all of this machine's but trials: tools and prices take minutes to make."""
    folder.mkdir()
    for entry in cache_folder().iterdir():
        if entry.name != "trials":
            (folder / entry.name).symlink_to(entry)
    return str(folder)


@pytest.mark.slow
def test_a_cluster_finds_what_this_machine_finds_and_is_asked_once(
    tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both candidates alone are tried by workers; a second time their trials are there already."""
    model, trials = tmp_path / "depthwise.onnx", Trials()
    model.write_bytes(depthwise(16).SerializeToString())
    words = ("specialise", model, "--isa", "base16", *QUICK)
    one, other = (without_trials(tmp_path / name) for name in ("one", "other"))
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        cluster.scheduler.add_plugin(trials)
        on_cluster = (*words, "--dask", cluster.scheduler_address)
        monkeypatch.setenv("TILEWRIGHT_CACHE", one)
        first = tilewright(*on_cluster, "-o", tmp_path / "first.yaml", "--json", tmp_path / "first.json")
        made = len(trials.made)
        tilewright(*on_cluster, "--json", tmp_path / "again.json")
    monkeypatch.setenv("TILEWRIGHT_CACHE", other)
    tilewright(*words, "--jobs", 1, "-o", tmp_path / "here.yaml", "--json", tmp_path / "here.json")

    assert first.code == 0 and made == len(trials.made) == 2
    found, again, here = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("first", "again", "here"))
    assert found == again and found["chosen"] == ["channel_products_requantize_by_3"]
    assert all(found[key] == here[key] for key in ("candidates", "tried", "chosen", "sets", "saved", "networks"))
    assert (tmp_path / "first.yaml").read_text() == (tmp_path / "here.yaml").read_text()


@pytest.mark.slow
def test_no_scheduler_at_the_address(tilewright: Command, tmp_path: Path) -> None:
    model = tmp_path / "depthwise.onnx"
    model.write_bytes(depthwise(16).SerializeToString())
    ended = tilewright("specialise", model, "--isa", "base16", *QUICK, "--dask", "tcp://127.0.0.1:1")
    assert ended.code == 1 and ended.err.count("error: ") == 1 and "tcp://127.0.0.1:1: " in ended.err
