"""Records as people read and write them: names, lines, and what is said of a mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.machines import machine
from tests.compiler.search.subjects import FOUND, subject
from tests.copied_tree import ROOT
from tilewright.compiler.errors import FatalError
from tilewright.compiler.search.tuning import recall, recall_chain, remember, remember_chain
from tilewright.compiler.stripes.cut import Stripes
from tilewright.compiler.stripes.stripes import MeasuredStripes


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


def test_a_record_says_by_name_what_it_holds(tmp_path: Path) -> None:
    remember(subject("a key"), FOUND, tmp_path / "mine.json")
    (record,) = json.loads((tmp_path / "mine.json").read_text())["networks"]
    assert record == {
        "key": "a key",
        "network": "by hand",
        "machine": "tiny8",
        "machine_hash": machine("tiny8").hash,
        "effort": 1,
        "tilewright": version("tilewright"),
        "cycles": 1000,
        "budget_fraction": 0.25,
        "residency": "none",
        "limits": {"act": 64},
        "arrays": None,
        "off_chip": ["conv.out"],
        "order": {"loads": 3, "eighths": 6, "mix": "row by row", "idle": []},
        "tensors": ["x", "conv.out", "result"],
        "layers": [
            {"layer": "conv", "loops": {"o": 16, "i": 16}, "tiles": {"o": 2, "i": 4}, "points_outer": True},
            {"layer": "pool", "loops": {"y": 3}},
        ],
    }


def test_a_layer_is_a_line(tmp_path: Path) -> None:
    remember(subject("a"), FOUND, tmp_path / "mine.json")
    lines = (tmp_path / "mine.json").read_text().splitlines()
    assert '    {"layer": "pool", "loops": {"y": 3}}' in lines
    assert max(map(len, lines)) <= 120


def test_a_record_holds_for_a_network_with_other_names(tmp_path: Path) -> None:
    remember(subject("a"), FOUND, tmp_path / "mine.json")
    layers = tuple((f"other {name}", loops) for name, loops in subject("a").layers)
    other = replace(subject("a"), network="other", layers=layers, tensors=("p", "q", "r"))
    assert recall(other, tmp_path / "mine.json") == FOUND


def test_a_record_by_hand_may_leave_out_the_cycles(tmp_path: Path) -> None:
    path = written(tmp_path, lambda record: record.update(cycles=None))
    assert recall(subject("a"), path) == replace(FOUND, cycles=None)


def written(folder: Path, change: Callable[[Any], object]) -> Path:
    """A file of one record, changed by hand."""
    path = folder / "mine.json"
    remember(subject("a"), FOUND, path)
    content = json.loads(path.read_text())
    change(content["networks"][0])
    path.write_text(json.dumps(content))
    return path


HERE = "networks[0] ('by hand' on 'tiny8')"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda record: record["limits"].update(sram=64),
            f"{HERE}: limits: 'sram' is no memory of tiny8; expected act, wgt, acc, par, lut",
        ),
        (
            lambda record: record["layers"][0]["tiles"].update(q=1),
            f"{HERE}: layers[0].tiles: 'conv' has a size of 'q'; expected one of each of o, i",
        ),
        (
            lambda record: record["layers"][0]["tiles"].pop("i"),
            f"{HERE}: layers[0].tiles: 'conv' has no size of 'i'; expected one of each of o, i",
        ),
        (
            lambda record: record["layers"][0]["tiles"].update(o=17),
            f"{HERE}: layers[0].tiles: o of 'conv' is 17; expected 1 to 16",
        ),
        (
            lambda record: record["off_chip"].append("sum"),
            f"{HERE}: off_chip: 'sum' is no tensor; expected some of those in 'tensors'",
        ),
        (
            lambda record: record.update(arrays=2),
            f"{HERE}: arrays: is 2; expected 1 to 1, or null for all",
        ),
        (
            lambda record: record["order"]["idle"].append("vec2"),
            f"{HERE}: order.idle: 'vec2' is no engine of tiny8; expected some of load, mma, vec, store",
        ),
        (lambda record: record["layers"].pop(), f"{HERE}: layers: has 1; expected the 2 of the network"),
        (lambda record: record["tensors"].pop(), f"{HERE}: tensors: has 2; expected the 3 of the network"),
        (
            lambda record: record["layers"][1].update(tile={}),
            "is wrong: Object contains unknown field `tile` - at `$.networks[0].layers[1]`",
        ),
        (
            lambda record: record.update(residency="some"),
            "is wrong: Invalid enum value 'some' - at `$.networks[0].residency`",
        ),
        (
            lambda record: record["order"].update(mix="last first"),
            "is wrong: Invalid enum value 'last first' - at `$.networks[0].order.mix`",
        ),
        (
            lambda record: record.update(cycles="few"),
            "is wrong: Expected `int | null`, got `str` - at `$.networks[0].cycles`",
        ),
    ],
)
def test_a_mistake_by_hand_is_named(tmp_path: Path, change: Callable[[Any], object], fault: str) -> None:
    path = written(tmp_path, change)
    with pytest.raises(FatalError) as refused:
        recall(subject("a"), path)
    assert str(refused.value) == f"{path}: {fault}; put that right, or delete the record"


@pytest.mark.parametrize(
    ("stripes", "fault"),
    [
        (Stripes(7, 12), "channels: is 12; expected a multiple of the 8 lanes of tiny8, or null for all channels"),
        (Stripes(15), "rows: is 15; expected 1 to 14, or null for a chain that is not cut"),
    ],
)
def test_so_is_one_in_a_chain(stripes: Stripes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    remember_chain("b", MeasuredStripes(1000, 900, stripes), machine("tiny8"), ("expand", "project"), path)
    with pytest.raises(FatalError) as refused:
        recall_chain("b", machine("tiny8"), path, rows=14)
    assert str(refused.value) == (
        f"{path}: chains[0] ('expand', 'project'): {fault}; put that right, or delete the record"
    )


def test_every_key_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    remember(subject("a"), FOUND, path)
    remember_chain("b", MeasuredStripes(1000, 900, Stripes(7)), machine("tiny8"), ("expand", "project"), path)
    content = json.loads(path.read_text())
    (record,), (chain,) = content["networks"], content["chains"]
    page = (ROOT / "docs" / "tuning.md").read_text()
    tables = re.findall(r"\| key of (?:a |`)(\w+)`? \| what it says \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page)
    told = {of: re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in rows.splitlines())) for of, rows in tables}
    keys = {"network": record, "order": record["order"], "layer": record["layers"][0], "chain": chain}
    assert {of: sorted(names) for of, names in told.items()} == {of: sorted(own) for of, own in keys.items()}
