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

from tests.compiler.machines import machine, without
from tests.compiler.nests import network_for
from tests.digits import MODEL
from tilewright.compiler.emission.ahead import Ahead, Mix
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.tuning import Tuning, recall, recall_chain, remember, remember_chain, tuning_key
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.selector import select
from tilewright.compiler.stripes.cut import Stripes
from tilewright.compiler.stripes.decide import Measured
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine

FORMAT_3 = Path(__file__).with_name("format_3.json")
"""A file of the user's own as the version before kept it."""

ENTRIES = 6
"""Of each of several writers."""

FOUND = Tuning(
    TilingOptions(0.25, "none", {"act": 64}, frozenset({"x"}), {"conv": TileSizes({"o": 2, "": 1}, True)}),
    Ahead(3, 6, Mix.ROW_BY_ROW),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuning"


def one_convolution(of: Machine, seed: int = 0) -> Selection:
    network = network_for(of, seed)
    return select(network.program(network.conv(network.input(1, 16, 6, 6), 16, (1, 1))), of)


@pytest.mark.parametrize("file", ["mine.json", None])
def test_what_is_kept_is_found_again(tmp_path: Path, file: str | None) -> None:
    path = None if file is None else tmp_path / file
    remember("a", FOUND, path)
    remember("b", replace(FOUND, ahead=Ahead()), path)
    assert (recall("a", path), recall("b", path)) == (FOUND, replace(FOUND, ahead=Ahead()))
    assert recall("c", path) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"none"', '"some"'),
        lambda text: text.replace("64", "-64"),
        lambda text: text.replace('"points_outer"', '"points_inner"'),
    ],
)
def test_a_damaged_entry_of_the_cache_is_never_used(cache: Path, damage: Callable[[str], str]) -> None:
    remember("a", FOUND, None)
    path = cache / "a.json"
    path.write_text(damage(path.read_text()))
    assert recall("a", None) is None


def test_a_damaged_file_of_the_users_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"entries": {}}')
    with pytest.raises(CompileError) as refused:
        recall("a", path)
    assert str(refused.value) == (
        f"{path}: is not a tuning file: Object missing required field `tilewright tuning`; "
        "give the name of a new file, or delete this one"
    )


@pytest.mark.parametrize("old", ["", "before"])
def test_a_link_stays_and_the_file_behind_it_keeps_its_mode(tmp_path: Path, old: str) -> None:
    if old:
        remember(old, FOUND, tmp_path / "behind.json")
        (tmp_path / "behind.json").chmod(0o640)
    (tmp_path / "mine.json").symlink_to("behind.json")
    remember("a", FOUND, tmp_path / "mine.json")
    assert (tmp_path / "mine.json").is_symlink() and recall("a", tmp_path / "behind.json") == FOUND
    if old:
        assert (tmp_path / "behind.json").stat().st_mode & 0o777 == 0o640
        assert recall(old, tmp_path / "behind.json") == FOUND


def test_nothing_else_is_left_beside_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    remember("a", FOUND, folder / "mine.json")
    assert [path.name for path in folder.iterdir()] == ["mine.json"]


def test_a_pipe_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CompileError, match="is no regular file"):
        recall("a", tmp_path / "pipe")
    with pytest.raises(CompileError, match="is no regular file"):
        remember("a", FOUND, tmp_path / "pipe")


def write_many(path: Path, writer: int) -> None:
    for number in range(ENTRIES):
        remember(f"{writer} {number}", FOUND, path)


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(tmp_path / "mine.json", writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert all(recall(f"{writer} {n}", tmp_path / "mine.json") for writer in range(3) for n in range(ENTRIES))


def test_a_full_disk_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    remember("a", FOUND, folder / "mine.json")
    before = (folder / "mine.json").read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limit[1]))
    try:
        with pytest.raises(CompileError, match="cannot be written"):
            remember("b", FOUND, folder / "mine.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [path.name for path in folder.iterdir()] == ["mine.json"]
    assert (folder / "mine.json").read_bytes() == before


def test_a_chosen_cache_that_others_can_write_to_is_refused(cache: Path) -> None:
    cache.parent.mkdir()
    cache.parent.chmod(0o777)
    with pytest.raises(IsaError, match="set TILEWRIGHT_CACHE to a folder of your own$"):
        recall("a", None)


def test_a_cache_that_cannot_be_written_to_keeps_nothing(cache: Path) -> None:
    cache.parent.write_text("a file where a folder should be")
    remember("a", FOUND, None)
    assert recall("a", None) is None


def test_a_key_follows_from_machine_layers_and_options() -> None:
    of, options = machine("base16"), Options()
    key = tuning_key(one_convolution(of), options)
    assert tuning_key(one_convolution(of), options) == key
    others = [
        tuning_key(one_convolution(machine("tiny8")), options),
        tuning_key(one_convolution(without(of, "max_pool")), options),
        tuning_key(one_convolution(of, seed=1), options),
        tuning_key(one_convolution(of), replace(options, effort=2)),
        tuning_key(one_convolution(of), replace(options, ahead=Ahead(1))),
        tuning_key(one_convolution(of), replace(options, tiling=TilingOptions(residency="none"))),
    ]
    assert len({key, *others}) == 7


# -- the whole compiler ------------------------------------------------------------------------------------------------


def test_a_program_is_the_same_from_a_search_and_from_its_tuning(tmp_path: Path) -> None:
    options = Options(tuning=tmp_path / "mine.json")
    searched = compile_model(MODEL, machine("small memories"), options)
    replayed = compile_model(MODEL, machine("small memories"), replace(options, fails_on_miss=True))
    assert to_bytes(replayed) == to_bytes(searched)


def test_what_was_found_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    searched = compile_model(MODEL, machine("tiny8"), Options(tuning=file))
    file.write_text(file.read_text().replace('"residency": "auto"', '"residency": "none"'))
    assert to_bytes(compile_model(MODEL, machine("tiny8"), Options(tuning=file))) != to_bytes(searched)


def test_a_search_that_is_forbidden_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    with pytest.raises(CompileError) as refused:
        compile_model(MODEL, machine("tiny8"), Options(tuning=path, fails_on_miss=True))
    assert str(refused.value).endswith(
        f"{path} has no tuning for this network, machine, effort and version of the compiler; "
        "compile once without --fail-on-miss"
    )
    assert not path.exists()


@pytest.mark.parametrize("file", ["mine.json", None])
@pytest.mark.parametrize(
    "found",
    [
        Measured(1000, 900, Stripes(7, 16)),
        Measured(1000, 900, Stripes(7, is_interleaved=True)),
        Measured(1000),
        Measured(None),
    ],
)
def test_what_was_found_of_a_chain_is_found_again(tmp_path: Path, file: str | None, found: Measured) -> None:
    path = None if file is None else tmp_path / file
    remember("a", FOUND, path)
    remember_chain("b", found, path)
    assert (recall("a", path), recall_chain("b", path)) == (FOUND, found)
    assert recall_chain("c", path) is None


def test_a_file_of_the_format_before_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        CompileError, match="has format 3; this version keeps 4; give the name of a new file, or delete"
    ):
        recall("a", FORMAT_3)
