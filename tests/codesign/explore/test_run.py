"""A study: every point once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.codesign.explore.fake_worker import FakePool, answer, serve
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.pool import TaskLimits
from tilewright.codesign.explore.run import Choices, run
from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.store import POINTS, Store, merged, read_lines
from tilewright.codesign.explore.study import Study
from tilewright.codesign.explore.worker import StudyTask
from tilewright.isa.files.loader import load_machine

SPACE = """base: tiny8
keys:
  memories.act.kib: [8, 16, 32]
  engines.vec.queue: [2, 4]
networks: {NETWORKS}
objectives: [cycles, area_mm2]
"""

MakeSpace = Callable[..., Space]


@pytest.fixture
def make_space(tmp_path: Path) -> MakeSpace:
    def make(*networks: str, more: str = "") -> Space:
        for number, name in enumerate(networks):
            (tmp_path / f"{name}.onnx").write_bytes(bytes([number]))
        text = ", ".join(f"{name}: {name}.onnx" for name in networks)
        (tmp_path / "space.yaml").write_text(SPACE.replace("NETWORKS", text) + more)
        return read_space(tmp_path / "space.yaml")

    return make


def lines(folder: Path) -> list[str]:
    return sorted((folder / POINTS).read_text().splitlines())


def test_every_point_is_there_once_with_its_figures(make_space: MakeSpace, tmp_path: Path) -> None:
    run(make_space("one", "two"), tmp_path / "s", Choices(workers=2), serve=serve)
    study = Study(tmp_path / "s")
    assert study.counts() == {"measured": 6}
    assert len(lines(tmp_path / "s")) == 1 + 6 + 6 + 12
    best = study.best("cycles", area_mm2=3.1)
    assert best.label == "memories.act.kib=16 engines.vec.queue=4"
    assert best.figures["cycles"] == 2 * (100_000 // 16 - 4) and best.figures["area_mm2"] == 3.04
    assert [entry.values for entry in study.front] == [(32, 4), (32, 2), (16, 4), (16, 2), (8, 4), (8, 2)]
    assert study.difference(best) == "memories.act.kib 64 → 16"


def test_a_key_that_the_base_leaves_out_differs_only_by_another_value(make_space: MakeSpace, tmp_path: Path) -> None:
    more = "targets: [170]\n"
    make_space("one", more=more)
    text = (tmp_path / "space.yaml").read_text()
    keys = "  memories.act.kib: [64]\n  pipeline.halt: [0, 1]\n  fetch_beats: [31]\n"
    (tmp_path / "space.yaml").write_text(text[: text.index("  memories")] + keys + text[text.index("networks") :])
    run(read_space(tmp_path / "space.yaml"), tmp_path / "s", serve=serve)
    study = Study(tmp_path / "s")
    fetch = f"fetch_beats {load_machine('tiny8').fetch_beats} → 31"
    assert {study.difference(entry) for entry in study.entries} == {
        f"{fetch}, target_mhz 170",
        f"pipeline.halt 0 → 1, {fetch}, target_mhz 170",
    }


def test_a_second_run_computes_nothing_and_a_second_study_takes_over(make_space: MakeSpace, tmp_path: Path) -> None:
    run(make_space("one"), tmp_path / "s", serve=serve)
    before = lines(tmp_path / "s")
    run(make_space("one"), tmp_path / "s", serve=nobody)
    assert lines(tmp_path / "s") == before
    wider = make_space("one", more="effort: 1\n")
    run(wider, tmp_path / "t", reuse=[tmp_path / "s"], serve=nobody)
    assert Study(tmp_path / "t").counts() == {"measured": 6}


def healed(connection: Connection, space: Space) -> None:
    """A worker with which nothing goes wrong."""
    with suppress(EOFError):
        while True:
            task = connection.recv()
            connection.send(answer(space, StudyTask(task.point, task.network and "one")))


def nobody(connection: object, space: Space) -> None:
    """A worker that may not be asked anything."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "limits", "reason"),
    [
        ("spins", TaskLimits(1.0), "took longer than 1 seconds of the processor"),
        ("starts", TaskLimits(1.0), "took longer than 1 seconds of the processor"),
        ("eats", TaskLimits(60, 0.25), "took more than 0.25 GiB of memory"),
        ("dies", TaskLimits(), "its process ended with signal 11, as when memory runs out"),
    ],
)
def test_a_point_that_goes_wrong_is_kept_with_its_reason(
    make_space: MakeSpace, tmp_path: Path, name: str, limits: TaskLimits, reason: str
) -> None:
    run(make_space(name), tmp_path / "s", Choices(workers=2, limits=limits), serve=serve)
    study = Study(tmp_path / "s")
    assert study.counts() == {"measured": 4, "failed": 2}
    assert {e.reason for e in study.entries if e.state == "failed"} == {f"{name}: limit: {reason}"}
    run(make_space(name), tmp_path / "s", Choices(workers=1), serve=nobody)
    assert Study(tmp_path / "s").counts() == {"measured": 4, "failed": 2}
    run(make_space(name), tmp_path / "s", Choices(retries=True), serve=healed)
    assert Study(tmp_path / "s").counts() == {"measured": 6}


def test_what_does_nothing_for_long_is_tried_again_by_the_next_run(make_space: MakeSpace, tmp_path: Path) -> None:
    limits = TaskLimits(60.0, stalled=1.0)
    run(make_space("hangs"), tmp_path / "s", Choices(workers=2, limits=limits), serve=serve)
    failed = {entry.values: entry.reason for entry in Study(tmp_path / "s").entries if entry.state == "failed"}
    assert {(16, 2), (16, 4)} <= failed.keys()  # on a computer that is busy, others may have waited as long
    assert all(
        each.endswith("stalled: did nothing for 1 seconds; the next run tries it again") for each in failed.values()
    )
    run(make_space("hangs"), tmp_path / "s", Choices(), serve=healed)
    assert Study(tmp_path / "s").counts() == {"measured": 6}


def test_time_beside_other_work_does_not_count(make_space: MakeSpace, tmp_path: Path) -> None:
    limits = TaskLimits(seconds=2.5, stalled=60.0)  # it takes three seconds on the wall, and less of the processor
    run(make_space("waits"), tmp_path / "s", Choices(limits=limits), serve=serve)
    assert Study(tmp_path / "s").counts() == {"measured": 6}


def test_a_resume_adds_no_line(make_space: MakeSpace, tmp_path: Path) -> None:
    more = "constraints: [memories.act.kib <= 16, area_mm2 <= 900]\n"
    run(make_space("one", more=more), tmp_path / "s", serve=serve)
    before = (tmp_path / "s" / POINTS).read_bytes()
    run(make_space("one", more=more), tmp_path / "s", serve=nobody)
    assert (tmp_path / "s" / POINTS).read_bytes() == before


@pytest.mark.parametrize("name", ["lock", "points.jsonl", "space.yaml"])
def test_no_file_of_a_study_is_written_through_a_link(make_space: MakeSpace, tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).symlink_to("../precious")
    with pytest.raises(StudyError, match="symbolic link"):
        run(make_space("one"), tmp_path / "s", serve=serve)
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("name", ["points.jsonl", "space.yaml"])
def test_a_file_of_the_users_is_not_taken_for_a_study(make_space: MakeSpace, tmp_path: Path, name: str) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).write_text("mine\n")
    with pytest.raises(StudyError, match="is there, and is no file of a study|is the study of another space"):
        run(make_space("one"), tmp_path / "s", serve=serve)
    assert (tmp_path / "s" / name).read_text() == "mine\n"


@pytest.mark.parametrize(
    "text", [b"{}", b"[]", b"[" * 100_000, b'{"kind": "point"}', b"\xff\xfe", b'{"kind":"price","figures":{}}']
)
def test_a_line_that_is_none_is_passed_over_and_said(tmp_path: Path, text: bytes) -> None:
    whole = b'{"kind":"machine","label":"a","values":[],"machine":"m"}\n'
    (tmp_path / POINTS).write_bytes(whole + text + b"\n")
    known, end, [note] = read_lines(tmp_path / POINTS)
    assert list(known) == [("machine", "a")] and end == (tmp_path / POINTS).stat().st_size
    assert note.startswith(f"{tmp_path / POINTS}:2: is no line of a study, and is passed over: ")


def test_shards_joined_are_the_whole(make_space: MakeSpace, tmp_path: Path) -> None:
    space = make_space("one")
    for part in (1, 2, 3):
        run(space, tmp_path / f"s{part}", Choices(shard=(part, 3)), serve=serve)
    run(space, tmp_path / "all", serve=serve)
    merged([tmp_path / f"s{part}" for part in (1, 2, 3)], tmp_path / "joined")
    assert lines(tmp_path / "joined") == lines(tmp_path / "all")


def test_a_second_run_in_the_same_folder_is_refused(make_space: MakeSpace, tmp_path: Path) -> None:
    with Store(tmp_path / "s"), pytest.raises(StudyError, match=rf"another run .* \(process {os.getpid()}\)"):
        run(make_space("one"), tmp_path / "s", serve=serve)


def test_a_folder_of_another_space_is_refused(make_space: MakeSpace, tmp_path: Path) -> None:
    run(make_space("one"), tmp_path / "s", serve=serve)
    with pytest.raises(StudyError, match="is the study of another space"):
        run(make_space("one", more="effort: 0\n"), tmp_path / "s", serve=serve)


def test_a_torn_last_line_is_dropped_and_said(make_space: MakeSpace, tmp_path: Path) -> None:
    run(make_space("one"), tmp_path / "s", serve=serve)
    whole = lines(tmp_path / "s")
    file = tmp_path / "s" / POINTS
    file.write_bytes(file.read_bytes()[:-20])
    notes = run(make_space("one"), tmp_path / "s", serve=serve)
    assert [note.partition(": ")[2] for note in notes] == ["the last line is torn, and dropped: it is computed again"]
    assert lines(tmp_path / "s") == whole


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_loses_nothing(make_space: MakeSpace, tmp_path: Path, how: signal.Signals) -> None:
    space = make_space("slow")
    code = f"""
from pathlib import Path
from tests.codesign.explore.fake_worker import FakePool, answer, serve
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
if __name__ == "__main__":
    run(read_space("{tmp_path}/space.yaml"), Path("{tmp_path}/s"), serve=serve)
"""
    (tmp_path / "go.py").write_text(code)
    temporary = tmp_path / ("long" * 20)  # too long for the path of a socket
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, tmp_path / "go.py"], env=environment)
    file = tmp_path / "s" / POINTS
    while process.poll() is None and not (file.exists() and '"point"' in file.read_text()):
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(how)
    process.wait(20)
    assert psutil.wait_procs(workers, timeout=5)[1] == []
    assert not list(temporary.glob("tilewright-*"))
    kept = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    assert 0 < sum('"point"' in line for line in kept) < 6
    run(space, tmp_path / "s", serve=serve)
    after = file.read_text()
    assert after.startswith("".join(kept))
    assert after.count('"point"') == 6 and Study(tmp_path / "s").counts() == {"measured": 6}


def test_a_full_disk_costs_only_the_line_that_did_not_fit(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        store.add(line("a"))
        size = (tmp_path / "s" / POINTS).stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
        try:
            with pytest.raises(StudyError, match=r"cannot be written: .*; all 1 results before are kept"):
                store.add(line("b"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, ignored)
        store.add(line("c"))
    assert [json.loads(text)["label"] for text in lines(tmp_path / "s")] == ["a", "c"]


def line(label: str) -> dict[str, object]:
    return {"kind": "machine", "label": label, "machine": "m", "values": []}


class TracedPool(FakePool):
    """Two workers, whose tasks are noted; the price of the first point comes when nothing else is left to do."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.given: list[tuple[int, StudyTask]] = []
        made.append(self)

    def give(self, number: int, task: StudyTask) -> None:
        self.given.append((number, task))
        super().give(number, task)


made: list[TracedPool] = []


def test_others_are_measured_while_the_first_price_is_found(make_space: MakeSpace, tmp_path: Path) -> None:
    """Each early measure comes again to the worker that holds it; the study is that of one worker."""
    space = make_space("one", "two")
    run(space, tmp_path / "s", Choices(workers=2), make_pool=TracedPool)
    given = made.pop().given
    early = [(number, task.point, task.network) for number, task in given if task.is_early]
    assert [number for number, _, _ in early] == [1] * 10 and len(set(early)) == 10  # all but the first point's
    again = [(number, task.point, task.network) for number, task in given if not task.is_early]
    assert again[0] == (0, (8, 2), None) and set(early) <= set(again)
    run(space, tmp_path / "t", make_pool=FakePool)
    assert lines(tmp_path / "s") == lines(tmp_path / "t")


def test_a_first_price_that_fails_frees_the_others(
    make_space: MakeSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = {"stage": "price", "reason": "no"}
    monkeypatch.setattr("tests.codesign.explore.fake_worker.price", lambda kib, queue: failure)
    run(make_space("one"), tmp_path / "s", Choices(workers=2), make_pool=FakePool)
    assert Study(tmp_path / "s").counts() == {"failed": 6}
