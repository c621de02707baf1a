"""Where the options of a program come from: a search, or a record that holds what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.machines import machine, without
from tests.compiler.models import small_cnn
from tests.compiler.nests import network_for
from tests.digits import MODEL
from tests.schedules.tunings import found_again
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.errors import CompileError, DoesNotFit, FatalError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search import decide
from tilewright.compiler.search.decide import Known
from tilewright.compiler.search.finisher import Finisher, exact_cycles
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.select import select
from tilewright.compiler.session import Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

OF = machine("tiny8")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


def one_convolution(of: Machine, size: int = 6) -> Selection:
    network = network_for(of, 0)
    return select(network.program(network.conv(network.input(1, 16, size, size), 16, (1, 1))), of)


def small(seed: int) -> bytes:
    """A network with weights, scales and zero points of its own."""
    return small_cnn(np.random.default_rng(seed)).SerializeToString()


def in_file(path: Path, **more: Any) -> Options:
    return Options(tuning=path, **more)


def changed(path: Path, change: Callable[[Any], object]) -> None:
    """Change the only record of a file by hand."""
    content = json.loads(path.read_text())
    (record,) = content["networks"]
    change(record)
    path.write_text(json.dumps(content))


def record_of(path: Path) -> Any:
    (record,) = json.loads(path.read_text())["networks"]
    return record


def remark(program: Program) -> str | None:
    return program.metadata.get("tuning")


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_follows_from_machine_layers_and_options() -> None:
    def key(selection: Selection, options: Options) -> str:
        return Known.of(selection, options, Session()).subject.key

    options = Options()
    own = key(one_convolution(OF), options)
    cuts = {"conv0": TileSizes({"o": 1}, True)}
    others = [
        key(one_convolution(machine("base16")), options),
        key(one_convolution(without(OF, "max_pool")), options),
        key(one_convolution(OF, size=7), options),
        key(one_convolution(OF), replace(options, effort=2)),
        key(one_convolution(OF), replace(options, ahead=Ahead(1))),
        key(one_convolution(OF), replace(options, tiling=TilingOptions(residency="none"))),
        key(one_convolution(OF), replace(options, tiling=TilingOptions(tiles=cuts))),
    ]
    assert len({own, *others}) == 8
    assert key(one_convolution(OF), Options(tuning=Path("mine.json"), fails_on_miss=True)) == own


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["mine.json", None])
@pytest.mark.parametrize("of", ["tiny8", "small memories"])
def test_a_network_that_is_trained_again_gives_the_program_of_its_own_search(
    tmp_path: Path, of: str, kept: str | None
) -> None:
    options = Options(tuning=None if kept is None else tmp_path / kept)
    compile_model(small(0), machine(of), options)
    replayed = compile_model(small(1), machine(of), replace(options, fails_on_miss=True))
    assert to_bytes(replayed) == to_bytes(compile_model(small(1), machine(of), in_file(tmp_path / "own.json")))


SHIPPED = [
    ("resnet8", "base16"),
    ("mobilenetv1-0.25", "dw16"),
    ("bert-tiny", "sequence16"),
    ("lstm-denoiser", "base16"),
    ("resnet20v2", "tensil32"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "of"), SHIPPED)
def test_shipped_networks_that_are_trained_again_do_too(tmp_path: Path, name: str, of: str) -> None:
    found = found_again(name, of, tmp_path)
    assert (found.is_found, found.is_same) == (True, True)


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_program_is_the_same_from_a_search_and_from_its_record(tmp_path: Path) -> None:
    options = in_file(tmp_path / "mine.json")
    searched = compile_model(MODEL, machine("small memories"), options)
    replayed = compile_model(MODEL, machine("small memories"), replace(options, fails_on_miss=True))
    assert to_bytes(replayed) == to_bytes(searched)
    assert record_of(tmp_path / "mine.json")["cycles"] == exact_cycles(searched)


def test_a_record_that_was_written_by_hand_is_taken(tmp_path: Path) -> None:
    """Without cycles, it is not compared with anything."""
    file = tmp_path / "mine.json"
    searched = compile_model(MODEL, OF, in_file(file))
    changed(file, lambda record: record.update(residency="none", cycles=None))
    replayed = compile_model(MODEL, OF, in_file(file, fails_on_miss=True))
    assert exact_cycles(replayed) > exact_cycles(searched)
    assert remark(replayed) is None


@pytest.mark.parametrize("share", [0.995, 2.0])
def test_a_record_that_is_a_little_slower_or_faster_than_it_says_is_taken(tmp_path: Path, share: float) -> None:
    file = tmp_path / "mine.json"
    searched = compile_model(MODEL, OF, in_file(file))
    changed(file, lambda record: record.update(cycles=int(record["cycles"] * share)))
    assert to_bytes(compile_model(MODEL, OF, in_file(file, fails_on_miss=True))) == to_bytes(searched)


def test_a_record_that_is_slower_than_it_says_is_searched_for_anew(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    searched = compile_model(MODEL, OF, in_file(file))
    before, least = record_of(file), exact_cycles(searched)
    changed(file, lambda record: record.update(residency="none"))
    slow = exact_cycles(compile_model(MODEL, OF, Options(effort=0, tiling=TilingOptions(residency="none"))))
    assert slow > least * 1.01
    renewed = compile_model(MODEL, OF, in_file(file))
    assert exact_cycles(renewed) == least
    said = remark(renewed)
    assert said is not None and said.endswith(f"cycles where {file} says {least:,}: it was searched for anew")
    assert record_of(file) == before
    assert to_bytes(compile_model(MODEL, OF, in_file(file))) == to_bytes(searched)


def test_a_record_that_is_slower_than_it_says_stays_where_a_search_finds_nothing_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.json"
    least = exact_cycles(compile_model(MODEL, OF, in_file(file)))
    before = record_of(file)
    changed(file, lambda record: record.update(cycles=least // 2))
    monkeypatch.setattr(decide, "search_tiling", lambda *given: TilingOptions(residency="none"))
    kept = compile_model(MODEL, OF, in_file(file))
    assert exact_cycles(kept) == least
    assert remark(kept) == (
        f"the program takes {least:,} cycles where {file} says {least // 2:,}: nothing better was found"
    )
    assert record_of(file) == before


def test_a_record_with_which_the_program_does_not_fit_is_searched_for_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, place = tmp_path / "mine.json", Finisher.place
    searched = compile_model(MODEL, OF, in_file(file))
    changed(file, lambda record: record.update(limits={"act": 300}, cycles=None))  # no search tries such a limit

    def placed(finisher: Finisher, tiles: TileProgram, options: Options) -> PlacedTiles:
        if options.tiling.limits == {"act": 300}:
            raise DoesNotFit("act", 400, 300, "conv1")
        return place(finisher, tiles, options)

    monkeypatch.setattr(Finisher, "place", placed)
    renewed = compile_model(MODEL, OF, in_file(file))
    assert exact_cycles(renewed) == exact_cycles(searched)
    assert remark(renewed) == f"the program does not fit with the tiles that {file} has: it was searched for anew"
    assert to_bytes(compile_model(MODEL, OF, in_file(file, fails_on_miss=True))) == to_bytes(searched)


def test_a_search_that_is_forbidden_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    with pytest.raises(CompileError) as refused:
        compile_model(MODEL, OF, in_file(path, fails_on_miss=True))
    assert str(refused.value).endswith(
        f"{path} has no tuning for this network, machine and effort; compile once without --fail-on-miss"
    )
    assert not path.exists()


def test_so_is_one_in_the_place_of_a_record_that_is_slower_than_it_says(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    least = exact_cycles(compile_model(MODEL, OF, in_file(file)))
    changed(file, lambda record: record.update(cycles=1000))
    with pytest.raises(FatalError) as refused:
        compile_model(MODEL, OF, in_file(file, fails_on_miss=True))
    assert str(refused.value).endswith(
        f"the program takes {least:,} cycles where {file} says 1,000; "
        "compile once without --fail-on-miss, or put the record right"
    )
