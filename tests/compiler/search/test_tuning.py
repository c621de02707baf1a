"""What searches found: kept, found again, and never taken for what it does not follow from."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compiler.machines import machine
from tests.compiler.search.subjects import FOUND, subject
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.errors import CompileError, FatalError
from tilewright.compiler.search.tuning import recall, recall_chain, remember, remember_chain
from tilewright.compiler.stripes.cut import Stripes
from tilewright.compiler.stripes.stripes import MeasuredStripes
from tilewright.isa.errors import IsaError

FORMER = {number: Path(__file__).with_name(f"format_{number}.json") for number in (3, 4, 5)}
"""Files of the user's own as versions before kept them."""

ENTRIES = 6
"""Of each of several writers."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuning"


@pytest.mark.parametrize("file", ["mine.json", None])
def test_what_is_kept_is_found_again(tmp_path: Path, file: str | None) -> None:
    path = None if file is None else tmp_path / file
    remember(subject("a"), FOUND, path)
    remember(subject("b"), replace(FOUND, ahead=Ahead()), path)
    assert (recall(subject("a"), path), recall(subject("b"), path)) == (FOUND, replace(FOUND, ahead=Ahead()))
    assert recall(subject("c"), path) is None


@pytest.mark.parametrize("file", ["mine.json", None])
def test_what_was_found_last_takes_the_place_of_what_was_known(tmp_path: Path, file: str | None) -> None:
    path = None if file is None else tmp_path / file
    for found in (FOUND, replace(FOUND, ahead=Ahead())):
        remember(subject("a"), found, path)
    assert recall(subject("a"), path) == replace(FOUND, ahead=Ahead())


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"none"', '"some"'),
        lambda text: text.replace("64", "-64"),
        lambda text: text.replace('"points_outer"', '"points_inner"'),
        lambda text: text.replace('"act"', '"sram"'),
    ],
)
def test_a_damaged_entry_of_the_cache_is_never_used(cache: Path, damage: Callable[[str], str]) -> None:
    remember(subject("a"), FOUND, None)
    (path,) = cache.iterdir()
    path.write_text(damage(path.read_text()))
    assert recall(subject("a"), None) is None


def test_a_damaged_file_of_the_users_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"networks": []}')
    with pytest.raises(CompileError) as refused:
        recall(subject("a"), path)
    assert str(refused.value) == (
        f"{path}: is not a tuning file: Object missing required field `tilewright tuning`; "
        "give the name of a new file, or delete this one"
    )


@pytest.mark.parametrize("old", ["", "before"])
def test_a_link_stays_and_the_file_behind_it_keeps_its_mode(tmp_path: Path, old: str) -> None:
    if old:
        remember(subject(old), FOUND, tmp_path / "behind.json")
        (tmp_path / "behind.json").chmod(0o640)
    (tmp_path / "mine.json").symlink_to("behind.json")
    remember(subject("a"), FOUND, tmp_path / "mine.json")
    assert (tmp_path / "mine.json").is_symlink() and recall(subject("a"), tmp_path / "behind.json") == FOUND
    if old:
        assert (tmp_path / "behind.json").stat().st_mode & 0o777 == 0o640
        assert recall(subject(old), tmp_path / "behind.json") == FOUND


def test_nothing_else_is_left_beside_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    remember(subject("a"), FOUND, folder / "mine.json")
    assert [path.name for path in folder.iterdir()] == ["mine.json"]


def test_a_pipe_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CompileError, match="is no regular file"):
        recall(subject("a"), tmp_path / "pipe")
    with pytest.raises(CompileError, match="is no regular file"):
        remember(subject("a"), FOUND, tmp_path / "pipe")


def write_many(path: Path, writer: int) -> None:
    for number in range(ENTRIES):
        remember(subject(f"{writer} {number}"), FOUND, path)


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(tmp_path / "mine.json", writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert all(recall(subject(f"{writer} {n}"), tmp_path / "mine.json") for writer in range(3) for n in range(ENTRIES))


def test_a_full_disk_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    remember(subject("a"), FOUND, folder / "mine.json")
    before = (folder / "mine.json").read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limit[1]))
    try:
        with pytest.raises(CompileError, match="cannot be written"):
            remember(subject("b"), FOUND, folder / "mine.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [path.name for path in folder.iterdir()] == ["mine.json"]
    assert (folder / "mine.json").read_bytes() == before


def test_a_chosen_cache_that_others_can_write_to_is_refused(cache: Path) -> None:
    cache.parent.mkdir()
    cache.parent.chmod(0o777)
    with pytest.raises(IsaError, match="set TILEWRIGHT_CACHE to a folder of your own$"):
        recall(subject("a"), None)


def test_a_cache_that_cannot_be_written_to_keeps_nothing(cache: Path) -> None:
    cache.parent.write_text("a file where a folder should be")
    remember(subject("a"), FOUND, None)
    assert recall(subject("a"), None) is None


@pytest.mark.parametrize("file", ["mine.json", None])
@pytest.mark.parametrize(
    "found",
    [
        MeasuredStripes(1000, 900, Stripes(7, 16)),
        MeasuredStripes(1000, 900, Stripes(7, is_interleaved=True)),
        MeasuredStripes(1000, 900, Stripes(7, 16, copies_edges=True)),
        MeasuredStripes(1000),
        MeasuredStripes(None),
    ],
)
def test_what_was_found_of_a_chain_is_found_again(tmp_path: Path, file: str | None, found: MeasuredStripes) -> None:
    path = None if file is None else tmp_path / file
    remember(subject("a"), FOUND, path)
    remember_chain("b", found, machine("tiny8"), ("expand", "project"), path)
    assert (recall(subject("a"), path), recall_chain("b", machine("tiny8"), path, 14)) == (FOUND, found)
    assert recall_chain("c", machine("tiny8"), path, 14) is None


@pytest.mark.parametrize("number", FORMER)
def test_a_file_of_a_format_before_is_refused_with_what_to_do(number: int) -> None:
    with pytest.raises(FatalError) as refused:
        recall(subject("a"), FORMER[number])
    assert str(refused.value) == (
        f"{FORMER[number]}: has format {number}; this version keeps 6; give the name of a new file, or delete this one"
    )
