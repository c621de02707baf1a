"""What searches found: kept, found again, and never taken for what it does not follow from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compiler.machines import machine, without
from tests.compiler.nests import network_for
from tests.digits import MODEL
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.tuning import Tuning, recall, remember, tuning_key
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.selector import select
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.machine.machine import Machine

FOUND = Tuning(
    TilingOptions(0.25, "none", {"act": 64}, frozenset({"x"}), {"conv": TileSizes({"o": 2, "": 1}, True)}),
    Ahead(3, 6, by_rows=True),
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
        f'{path}: is not a tuning file: expected an object with "tilewright tuning": 3 and "entries"; '
        "give the name of a new file, or delete this one"
    )


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
