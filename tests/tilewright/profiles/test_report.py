"""What `tilewright profile` shows: the lines on top, tables whose sums are the run's, one layer, two profiles."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.models import conv_model
from tests.tilewright.command_line import Command
from tilewright.api import compile  # noqa: A004
from tilewright.errors import InputError
from tilewright.isa.program.state import EngineCounters
from tilewright.losses.causes import CAUSES, largest_loss, losses
from tilewright.profiles.against import by_cause, by_layer
from tilewright.profiles.report import View, headline, layer_named, print_engines, time_of
from tilewright.program import Program
from tilewright.simulator.losses import Loss
from tilewright.simulator.run_profile import DramBytes, LayerProfile, Resource, RunProfile


@pytest.fixture(scope="module")
def program() -> Program:
    return compile("programs/digits/digits_int8.onnx", "base16")


@pytest.fixture(scope="module")
def saved(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "net.npu"
    program.save(path)
    return path


def layer(name: str, cycles: int, **loss: float) -> LayerProfile:
    causes = {cause: loss.get(cause, 0.0) for cause in Loss}
    bounds = {Resource.COMPUTE: 1}
    return LayerProfile(name, (name,), cycles, 0, 0, 0.0, DramBytes(0, 0), bounds, Resource.COMPUTE, causes)


def made(*layers: LayerProfile) -> RunProfile:
    cycles = sum(one.cycles for one in layers)
    return RunProfile("made", cycles, 0, 0, 0.25, {}, DramBytes(0, 0), layers, {})


def test_says_what_costs_most_and_why() -> None:
    lines = headline(made(layer("a", 100, edge=10.0), layer("b", 300, load=200.0)), View(clock_mhz=100.0))
    assert lines[0].startswith("400 cycles (4 µs at 100 MHz, 250,000 runs a second) on made; 25.0 %")
    assert lines[1] == "Most cycles: b 75.0 %, a 25.0 %."
    assert lines[2] == f"Largest loss: 50.0 %, {CAUSES[Loss.LOAD].meaning}."
    assert lines[3] == f"What may help: {CAUSES[Loss.LOAD].remedy}."


def test_without_products_in_an_array_nothing_is_said_of_it() -> None:
    idle = replace(made(layer("a", 100)), utilisation=0.0)
    assert headline(idle)[0] == "100 cycles on made."


def test_a_run_without_losses_has_no_largest_one() -> None:
    assert largest_loss({Loss.EDGE: 0.0, Loss.ARRAY: -3.0}) is None
    assert len(headline(made(layer("a", 100)))) == 1


def test_a_network_that_runs_on_the_host_has_no_cycles() -> None:
    assert headline(made()) == ("No cycles: nothing runs on the machine.",)


@pytest.mark.parametrize(
    ("cycles", "clock", "images", "text"),
    [
        (1000, None, None, ""),
        (2_500_000, 500.0, None, " (5 ms at 500 MHz, 200 runs a second)"),
        (1000, 100.0, 1, " (10 µs at 100 MHz, 100,000 images a second)"),
        (1000, 100.0, 8, " (10 µs at 100 MHz, 800,000 images a second)"),
    ],
)
def test_time_is_cycles_at_a_clock(cycles: int, clock: float | None, images: int | None, text: str) -> None:
    assert time_of(cycles, clock, images) == text


def test_layers_come_in_the_order_that_is_asked_for() -> None:
    profile = made(layer("a", 10, edge=1.0), layer("b", 30), layer("c", 20, load=5.0))
    assert [one.name for one in View().layers(profile)] == ["a", "b", "c"]
    assert [one.name for one in View("cycles").layers(profile)] == ["b", "c", "a"]
    assert [one.name for one in View("loss", top=2).layers(profile)] == ["c", "a"]


def test_a_layer_is_found_by_a_part_of_its_name() -> None:
    profile = made(layer("conv1", 1), layer("conv10", 1), layer("dense", 1))
    assert layer_named(profile, "conv1").name == "conv1"
    assert layer_named(profile, "den").name == "dense"
    with pytest.raises(InputError, match=r"^2 layers are called like 'conv'; there are: conv1, conv10$"):
        layer_named(profile, "conv")
    with pytest.raises(InputError, match=r"^no layer 'pool'; there are: conv1, conv10, dense$"):
        layer_named(profile, "pool")


def test_the_causes_on_the_terminal_are_all_cycles(tilewright: Command, saved: Path, program: Program) -> None:
    out = tilewright("profile", saved).out
    table = out.split("Where the cycles went\n")[1].split("\n\n")[0]
    shown = [int(number.replace(",", "")) for number in re.findall(r"^\w+ +(-?[\d,]+) ", table, re.MULTILINE)]
    assert sum(shown) == pytest.approx(program.run_profile().cycles, abs=len(shown))
    assert all(len(line) <= 80 for line in table.splitlines())


def test_a_wide_terminal_has_a_column_for_each_cause(
    tilewright: Command, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tilewright("profile", saved).out
    assert all(f"lost to {cause}" in out for cause in CAUSES)


def test_shows_a_part_of_the_layers_and_the_rest_in_one_row(tilewright: Command, saved: Path, program: Program) -> None:
    out = tilewright("profile", saved, "--sort", "cycles", "--top", 2).out
    rest = sorted((one.cycles for one in program.run_profile().layers), reverse=True)[2:]
    assert re.search(rf"^{len(rest)} others +{sum(rest):,} ", out, re.MULTILINE)


def test_shows_the_instructions_of_a_layer(tilewright: Command, saved: Path, program: Program) -> None:
    out = tilewright("profile", saved, "--layer", "conv2", "--top", 1000).out
    position = [one.name for one in program.layers].index("conv2")
    own = [i for i, serves in enumerate(program.binary.provenance) if serves == position]
    listed = out.split("In program order\n")[1]
    assert [int(number) for number in re.findall(r"^ *(\d+) +[\d,]+ +[\d,]+ ", listed, re.MULTILINE)] == own


def test_writes_comma_separated_values(tilewright: Command, saved: Path, program: Program, tmp_path: Path) -> None:
    ended = tilewright("profile", saved, "--csv", tmp_path / "layers.csv")
    assert ended.code == 0 and "Layers on" in ended.out
    rows = list(csv.DictReader((tmp_path / "layers.csv").open()))
    assert [int(row["cycles"]) for row in rows] == [one.cycles for one in program.run_profile().layers]
    assert [float(row["loss.edge"]) for row in rows] == [one.loss[Loss.EDGE] for one in program.run_profile().layers]
    assert tilewright("profile", saved, "--csv", "-").out == (tmp_path / "layers.csv").read_text()


# -- two profiles ------------------------------------------------------------------------------------------------------


def test_what_changed_adds_up() -> None:
    one = made(layer("a", 100, edge=60.0), layer("b", 50, load=20.0), layer("new", 5))
    two = made(layer("a", 80, edge=40.0), layer("b", 90, load=60.0), layer("old", 7))
    assert by_cause(one, two)[-1] == ("total", 155, 177)
    assert by_layer(one.layers, two.layers) == [
        ("b", 50, 90, "-40", "load -40"),
        ("a", 100, 80, "+20", "edge +20"),
        ("old", "", 7, "-7", "only there"),
        ("new", 5, "", "+5", "only there"),
    ]


def test_layers_of_one_name_are_compared_in_turn() -> None:
    one, two = made(layer("a", 1), layer("a", 2)), made(layer("a", 1), layer("a", 5))
    assert [row[:4] for row in by_layer(one.layers, two.layers)] == [("a (2)", 2, 5, "-3"), ("a", 1, 1, "0")]


def test_compares_two_programs(tilewright: Command, saved: Path, tmp_path: Path, program: Program) -> None:
    other = compile("programs/digits/digits_int8.onnx", "base16", ["dram.bus_bytes=4"])
    other.save(tmp_path / "narrow.npu")
    out = tilewright("profile", saved, "--against", tmp_path / "narrow.npu").out
    cycles, narrow = program.run_profile().cycles, other.run_profile().cycles
    assert re.search(rf"^total +{cycles:,} +{narrow:,} +{cycles - narrow:+,}$", out, re.MULTILINE)
    changes = {cause: losses(program.run_profile())[cause] - losses(other.run_profile())[cause] for cause in CAUSES}
    assert max(changes, key=lambda cause: abs(changes[cause])) in out
    assert all(len(line) <= 80 for line in out.splitlines())


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sort", "size"), "error: no order 'size'; --sort takes: program, cycles, loss"),
        (("--clock", "0"), "error: a clock of 0 MHz; --clock takes a number above 0"),
        (("--layer", "nothing"), "error: no layer 'nothing'; there are: conv1, "),
        (("--against", "missing.npu"), "error: "),
        (("--trace", "/no/folder/t"), "error: "),
    ],
)
def test_refuses(tilewright: Command, saved: Path, words: tuple[str, ...], message: str) -> None:
    ended = tilewright("profile", saved, *words)
    assert (ended.code, ended.err.startswith(message)) == (1, True), ended.err


def test_standard_output_takes_one_file(tilewright: Command, saved: Path) -> None:
    ended = tilewright("profile", saved, "--csv", "-", "--json", "-")
    assert ended.code == 2 and "only one of" in ended.err


def test_json_is_as_before(tilewright: Command, saved: Path, program: Program) -> None:
    assert json.loads(tilewright("profile", saved, "--json", "-").out) == json.loads(json.dumps(program.profile()))


def test_a_program_of_one_layer(tilewright: Command, tmp_path: Path) -> None:
    compile(conv_model(np.random.default_rng(0)), "tiny8").save(tmp_path / "one.npu")
    assert "Most cycles" not in tilewright("profile", tmp_path / "one.npu").out


EMPTY = RunProfile("m", 10, 0, 0, 0.0, {}, DramBytes(0, 0), (), {})


def test_a_column_adds_up_to_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    load = EngineCounters(busy=4, wait={"mma": 2}, stall={"dram": 1}, idle=3)
    print_engines(replace(EMPTY, engines={"load": load}))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["wait", "mma", "2"] for line in lines)
    assert any(line.split() == ["total", "10"] for line in lines)


def test_hardware_that_counts_few_things_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_engines(EMPTY)
    message = "m's hardware does not count what its engines do: `counters: all` in its file does.\n"
    assert capsys.readouterr().out == message
