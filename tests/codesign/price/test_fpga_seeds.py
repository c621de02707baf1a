"""Several placements of one machine, each with what nextpnr estimates of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tilewright.codesign.price import fpga, fpga_seeds
from tilewright.codesign.price.fpga import estimated_clock_of
from tilewright.isa.files.loader import load_machine


def test_prints_each_seed_and_their_mean(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clocks = {(3, ()): 40.0, (5, ()): 43.0, (5, ("--placer", "static")): 41.0}

    def estimated(machine: Any, family: str, seed: int, options: Sequence[str]) -> float:
        return clocks[seed, tuple(options)]

    monkeypatch.setattr(fpga_seeds, "estimated_clock_of", estimated)
    assert fpga_seeds.main(["tiny8", "--seeds", "3", "5"]) == 0
    assert capsys.readouterr().out == "seed 3: 40.0 MHz\nseed 5: 43.0 MHz\nmean: 41.5 MHz before routing\n"
    assert fpga_seeds.main(["tiny8", "--seeds", "5", "--option=--placer", "--option=static"]) == 0
    assert capsys.readouterr().out.startswith("seed 5: 41.0 MHz\n")


def test_routes_each_seed_if_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fpga_seeds, "routed_clock_of", lambda machine, family, seed, options: 30.0 + seed)
    assert fpga_seeds.main(["tiny8", "--route", "--seeds", "3", "5"]) == 0
    assert capsys.readouterr().out == "seed 3: 33.0 MHz\nseed 5: 35.0 MHz\nmean: 34.0 MHz routed\n"


def test_prints_each_unit_with_each_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def clocks(machine: Any, family: str, seeds: Sequence[int], options: Sequence[str]) -> list[tuple[str, Any]]:
        return [("vec", [40.0 + seed for seed in seeds]), ("load", [60.0 + len(options)])]

    monkeypatch.setattr(fpga_seeds, "clocks_by_unit", clocks)
    assert fpga_seeds.main(["tiny8", "--by-unit", "--seeds", "3", "5", "--option=--router"]) == 0
    assert capsys.readouterr().out == "vec: 43.0, 45.0 MHz\nload: 61.0 MHz\n"


def test_an_unknown_machine_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert fpga_seeds.main(["tiny9"]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_options_that_are_asked_for_replace_our_own_and_are_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nextpnr refuses an option that is given twice."""
    given: list[str] = []
    netlist = '{"modules": {"npu": {"ports": {}, "cells": {}}}}'

    def estimate(netlist: str, options: Sequence[str]) -> float:
        given.extend(options)
        return 44.0

    monkeypatch.setattr(fpga, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(fpga, "emit_verilog", lambda machine, storage: "")
    monkeypatch.setattr(fpga, "made", lambda files, script: netlist)
    monkeypatch.setattr(fpga, "with_cell_registers", lambda netlist, top: netlist)
    monkeypatch.setattr(fpga, "nextpnr_version", lambda: "0.1")
    monkeypatch.setattr(fpga, "estimated_clock_mhz", estimate)
    asked = ["--placer-heap-timingweight", "10", "--freq=80"]
    for _ in range(2):
        assert estimated_clock_of(load_machine("tiny8"), "ecp5", 7, asked) == 44.0
    assert given[-5:] == ["--seed", "7", *asked] and given.count("--85k") == 1
    names = [word.split("=")[0] for word in given if word.startswith("--")]
    assert len(names) == len(set(names))
    assert given[given.index("--speed") + 1] == "6" and "100" not in given and "40" not in given
