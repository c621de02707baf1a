"""What trials say: made up ones, whose right answer is plain, and a small machine's real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.digits import MODEL
from tests.mixed_networks import sandwich
from tilewright.codesign.advise import advice as module
from tilewright.codesign.advise.advice import Advice, advise_machine
from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.effects import can_go, effect, trial_line
from tilewright.codesign.advise.tables import advice_lines, advice_tables
from tilewright.codesign.advise.trials import Bench, LayerCycles, NoAdvice, Trial
from tilewright.codesign.points.evaluate import NetworkFigures, Outcome
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.isa.files.loader import load_machine

TINY = load_machine("tiny8")


def network(cycles: int, host_nodes: int = 0) -> NetworkFigures:
    return NetworkFigures("n", "h", "m", "k", 1, cycles, 10, 0.5, 100, 0.25, 0.75, host_nodes, 9, 90, 0.1)


def made_up(bench: Bench, change: Change | None) -> Trial:
    """A bus that gains up to 32 bytes; a memory that nobody needs; an array that gains much, for much area."""
    over = {} if change is None else dict(change.over)
    bus = over.get("dram", {}).get("bus_bytes", 8)
    rows = over.get("array", {}).get("rows", 8)
    kib = over.get("memories", {}).get("act", {}).get("kib", 64)
    transfer, products = 800 * 8 // min(bus, 32), 1000 * 8 // rows
    cycles = transfer + products
    area = 1.0 + bus / 8 * 0.1 + (rows - 8) * 1.0 + kib * 0.01
    host_nodes = 0 if change is not None and change.name == "+vector16" else 1
    host_nodes += "lanes" in over and len(over) == 1
    cycles -= 300 if host_nodes != 1 else 0  # what the host does or no longer does is not in the cycles
    figures = MachineFigures("m", "k", "P", area, 0.0, 1.0, 1, "fitted", "m", None)
    outcomes: tuple[Outcome, ...] = (network(cycles, host_nodes),)
    layers = {"n": {"transfer": LayerCycles(transfer, "dram"), "products": LayerCycles(products, "compute")}}
    used = {name: {"products": 1} for name in bench.machine.formats if name not in ("copy", "mul")}
    return Trial(change, figures, outcomes, layers, places={"n": used})


@pytest.fixture
def advice(monkeypatch: pytest.MonkeyPatch) -> Advice:
    monkeypatch.setattr(Bench, "trial", made_up)
    return advise_machine([Network("n", b"")], TINY, "tiny8", jobs=1)


def test_what_gains_is_ranked_by_the_gain_for_each_mm2(advice: Advice) -> None:
    bus, array = advice.gains[0], next(of for of in advice.gains if of.name == "array.rows 8 → 16")
    assert bus.name == "dram.bus_bytes 8 → 16"
    assert (bus.cycles_saved, bus.best_layer, bus.gaining_layers, bus.all_layers) == (400, "transfer", 1, 2)
    assert bus.share_saved == pytest.approx(400 / 1800) and bus.mm2_added == pytest.approx(0.1)
    assert bus.share_per_mm2 == pytest.approx(400 / 1800 / 0.1)
    assert array.share_saved == pytest.approx(500 / 1800) and array.mm2_added == pytest.approx(8)


def test_a_gain_is_followed_to_its_end(advice: Advice) -> None:
    assert [str(end) for end in advice.ends if end.key == "dram.bus_bytes"] == [
        "dram.bus_bytes: beyond 32 nothing gains; there 1 of 2 layers are dram bound"
    ]


def test_what_costs_area_and_gains_nothing_can_go(advice: Advice) -> None:
    assert [of.name for of in advice.removable] == ["memories.act.kib 64 → 32"]
    assert advice.removable[0].mm2_added == pytest.approx(-0.32)
    assert advice.unused == ("copy", "mul")


def test_cycles_with_other_host_nodes_are_not_compared(advice: Advice) -> None:
    assert (
        "lanes 8 → 4" in dict(advice.refused)
        and dict(advice.refused)["lanes 8 → 4"] == "leaves 1 more nodes to the host"
    )
    assert [(of.name, of.host_nodes_saved) for of in advice.fuller] == [("+vector16", 1)]
    assert "+vector16" not in [of.name for of in advice.gains]


def test_words(advice: Advice) -> None:
    gains, fuller, going = advice_tables(advice, top=2)
    assert gains[0] == f"What gains, on m: best first (2 of {len(advice.gains)})"
    assert gains[2][0] == ("dram.bus_bytes\n8 → 16", 400, "22.2 %", "0.100", "222 %", "0", "1 of 2:\ntransfer")
    assert fuller[2] == [("+vector16", 1, "0.000")]
    assert going[0] == "What can go: as fast, and less area" and going[2][0][:3] == (
        "memories.act.kib 64 → 32",
        0,
        "0.320",
    )
    lines = list(advice_lines(advice))
    assert "Instructions in no program: copy, mul." in lines
    assert "n leaves 1 node to the host, whose time is in no figure." in lines


def test_what_cannot_go_together_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def trial(bench: Bench, change: Change | None) -> Trial:
        made = made_up(bench, change)
        return replace(made, why_not="too little") if change is not None and change.name == "all of these" else made

    monkeypatch.setattr(Bench, "trial", trial)
    machine = load_machine("tiny8", ("memories.act.kib=128",))
    monkeypatch.setattr(module, "steps", lambda machine: [*few(machine)[2:], *halves()])
    found = advise_machine([Network("n", b"")], machine, "tiny8", jobs=1)
    assert found.together is None and len(found.removable) == 2
    assert "Not all of what can go can go at once: too little" in list(advice_lines(found))


def halves() -> list[Change]:
    return [Change(f"act {kib}", Way.DOWN, {"memories": {"act": {"kib": kib}}}) for kib in (32, 16)]


def test_json_has_every_trial(advice: Advice) -> None:
    value = advice.as_json()
    assert value["trials"][0]["change"] is None
    assert {"dram.bus_bytes 8 → 16", "dram.bus_bytes 32 → 64"} <= {of["change"] for of in value["trials"]}


def test_a_network_that_does_not_run_as_it_is() -> None:
    with pytest.raises(NoAdvice, match="x on tiny8 fails in the stage compile: the ONNX model: not an ONNX file"):
        advise_machine([Network("x", b"no model")], TINY, "tiny8", with_price=False, jobs=1)


def few(machine: object) -> list[Change]:
    return [
        Change("array.rows 8 → 16", Way.UP, {"array": {"rows": 16}}),
        Change("array.rows 8 → 4", Way.DOWN, {"array": {"rows": 4}}, "array.rows"),
        Change("no product", Way.WITHOUT, {"instructions": {"mma": None, "mma_transposed": None}}),
    ]


def test_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "steps", few)
    for others in ("overlays", "engines_more", "engines_fewer"):
        monkeypatch.setattr(module, others, lambda *of: [])
    networks = [read_network(MODEL), Network("sandwich", sandwich().SerializeToString())]
    counts = []

    def found(jobs: int) -> Advice:
        return advise_machine(
            networks,
            TINY,
            None,
            effort=0,
            with_price=False,
            jobs=jobs,
            done=lambda *of: counts.append(of),
        )

    one, two = found(1), found(2)
    assert [of.as_json() for of in one.gains] == [of.as_json() for of in two.gains]
    assert [of.name for of in one.gains] == ["array.rows 8 → 16"]
    assert one.refused == two.refused and [name for name, _ in one.refused][0] == "array.rows 8 → 4"
    assert counts[-1][0] == counts[-1][1] == len(one.trials) - 1
    assert one.unused and set(one.unused) < set(TINY.formats)


def test_only_some_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "trial", made_up)
    found = advise_machine([Network("n", b"")], TINY, "tiny8", only=["array", "dram.bus_bytes"], jobs=1)
    tried = {trial.change.key for trial in found.trials if trial.change is not None and trial.change.key}
    assert tried == {"array.rows", "array.cols", "dram.bus_bytes"}
    with pytest.raises(NoAdvice, match=r"no key to step is 'dram.bus' or below it \(did you mean 'dram.bus_bytes'\?\)"):
        advise_machine([Network("n", b"")], TINY, "tiny8", only=["dram.bus"], jobs=1)


def test_a_process_that_is_stopped_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(bench: Bench, change: Change | None) -> Trial:
        if change is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return made_up(bench, change)

    monkeypatch.setattr(Bench, "trial", stopped)
    with pytest.raises(NoAdvice, match="a process was stopped from outside, perhaps for lack of memory: use one job"):
        advise_machine([Network("n", b"")], TINY, "tiny8", jobs=2)


KILLED = r"""
import os, sys, time
from tests.codesign.advise.test_advice import TINY, made_up
from tilewright.codesign.advise.advice import advise_machine
from tilewright.codesign.advise.trials import Bench
from tilewright.codesign.points.network import Network

def trial(bench, change):
    if change is not None:
        os.write(1, f"{os.getpid()}\n".encode())  # one write: two workers never share a line
        time.sleep(60)
    return made_up(bench, change)

Bench.trial = trial
advise_machine([Network("n", b"")], TINY, "tiny8", jobs=2)
"""


def test_no_process_outlives_the_one_that_began_it(repository: Path) -> None:
    words = [sys.executable, "-c", KILLED]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=repository) as began:
        assert began.stdout is not None
        workers = [int(began.stdout.readline()) for _ in range(2)]
        began.kill()
    end = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < end, "a worker is still there"
        time.sleep(0.05)


def a_run(change: str, cycles: int, images: int) -> Trial:
    """A trial of which a run takes so many cycles for so many images, all of them in one layer."""
    figures = replace(network(cycles), images=images)
    layers = {"n": {"all": LayerCycles(cycles, "dram")}}
    wanted = None if not change else Change(change, Way.UP, {}, change)
    return Trial(wanted, None, (figures,), layers)


def test_of_batches_cycles_for_each_image_are_compared() -> None:
    """A run of 8 images that takes twice the cycles of one image takes a quarter for each."""
    base, trial = a_run("", 1000, 1), a_run("more", 2000, 8)

    found = effect(base, trial)

    assert (found.cycles_saved, found.share_saved) == (750, pytest.approx(0.75))
    assert (found.best_layer, found.gaining_layers) == ("all", 1)
    assert found.mj_saved == pytest.approx(1 - 1 / 8)
    assert trial_line(base, trial) == "more: 75.0 % fewer cycles"
    assert not can_go(trial, replace(base, change=Change("less", Way.DOWN, {}, "less")))


def test_a_run_of_several_images_is_told(advice: Advice) -> None:
    base = replace(advice.trials[0], outcomes=(replace(network(1800, 1), images=8),))
    lines = list(advice_lines(replace(advice, trials=(base, *advice.trials[1:]))))
    told = "n takes 1,800 cycles for a run of 8 images on m, 225 for each; what is saved is for each image."
    assert told in lines and told not in list(advice_lines(advice))
