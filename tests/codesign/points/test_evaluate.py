"""One network on one machine: the same figures as by hand, and failures that are results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright
from tests.compiler.models import conv_model
from tests.digits import MODEL
from tests.mixed_networks import sandwich
from tilewright.codesign.compare.comparison import compare_machines
from tilewright.codesign.compare.machines import ComparedMachine
from tilewright.codesign.points.evaluate import (
    Failure,
    MeasuredNetwork,
    NetworkFigures,
    evaluate,
    figures,
    measure,
    outcome_from_json,
)
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.price.energy import energy_of_layers
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.unit import SYNTHESISED, PricedUnit
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine


def price_by_hand(machine: Machine) -> Price:
    """Real macros, and round figures for the logic."""
    process = load_process()
    units = (PricedUnit("vec lanes", 1000.0, 100, 0, SYNTHESISED), PricedUnit("array", 5000.0, 300, 0, SYNTHESISED))
    memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    return Price(machine, process, False, "", "", units, memories, ())


def test_figures_are_those_of_compile_and_profile() -> None:
    machine = load_machine("tiny8")
    program = tilewright.compile(MODEL, machine)
    profile = program.profile()

    found = evaluate(read_network(MODEL), machine)

    assert isinstance(found, NetworkFigures)
    assert (found.cycles, found.macs, found.utilisation) == tuple(
        profile[key] for key in ("cycles", "macs", "utilisation")
    )
    assert found.dram_bytes == sum(profile["dram_bytes"].values())
    assert found.instructions == len(program.binary.instructions)
    assert found.program_bytes == len(program.binary.text)
    assert (found.network, found.machine, found.host_nodes) == (MODEL.stem, "tiny8", 0)


def test_energy_is_that_of_the_layers() -> None:
    machine = load_machine("tiny8")
    price = price_by_hand(machine)
    program = tilewright.compile(MODEL, machine)
    layers = energy_of_layers(price, program.binary, program.run_profile(), 2.0)
    on_chip = sum((layer.memory_pj or 0.0) + sum((layer.logic_pj or {}).values()) for layer in layers)

    found = evaluate(
        read_network(MODEL), machine, price=replace(price, process=replace(price.process, dram_pj_per_byte=2.0))
    )

    assert isinstance(found, NetworkFigures)
    assert found.on_chip_mj == pytest.approx(on_chip / 1e9)
    assert found.unmeasured == tuple(name for name, energy in layers[0].memories_pj.items() if energy is None)
    assert found.dram_mj == pytest.approx(2.0 * found.dram_bytes / 1e9)


def test_a_sum_in_which_a_memory_is_missing_is_not_known() -> None:
    machine = load_machine("tiny8")
    price, found = price_by_hand(machine), measure(read_network(MODEL), machine, 0)
    assert isinstance(found, MeasuredNetwork)
    [acc] = [memory for memory in price.memories if memory.name == "acc"]
    for change, is_known in (({}, True), ({"read_pj": None, "write_pj": None}, False)):
        memories = tuple(replace(each, **change) if each is acc else each for each in price.memories)
        own = figures(found, replace(price, memories=memories))
        assert (own.on_chip_mj is not None) == is_known
        assert ("acc" in own.unmeasured) != is_known


def test_what_is_estimated_in_a_sum_is_told() -> None:
    machine = load_machine("tiny8")
    price, found = price_by_hand(machine), measure(read_network(MODEL), machine, 0)
    assert isinstance(found, MeasuredNetwork)
    memories = tuple(replace(each, energy_error=0.5 if each.name == "acc" else 0.0) for each in price.memories)
    own = figures(found, replace(price, memories=memories))
    layers = [layer for program, profile in zip(found.programs, found.profiles, strict=True)
              for layer in energy_of_layers(price, program, profile, 1.0)]  # fmt: skip
    of_acc = sum(layer.memories_pj["acc"] or 0.0 for layer in layers) / 1e9
    assert own.estimated == ("acc",)
    assert own.estimated_error_mj == pytest.approx(0.5 * of_acc)


def test_energy_is_not_known_without_activities_of_the_logic() -> None:
    machine = load_machine("tiny8")
    price = price_by_hand(machine)
    found = measure(read_network(MODEL), machine, 0)

    assert isinstance(found, MeasuredNetwork)
    without = replace(price, process=replace(price.process, logic_energy=None))
    assert figures(found, price).on_chip_mj is not None
    assert figures(found, without).on_chip_mj is None


def test_host_nodes_are_counted() -> None:
    found = evaluate(Network("sandwich", sandwich().SerializeToString()), load_machine("tiny8"))
    assert isinstance(found, NetworkFigures) and found.host_nodes == 1


def test_a_failure_is_a_result() -> None:
    network = Network("conv", conv_model(np.random.default_rng(0), 8, 8).SerializeToString())
    machine = load_machine("tiny8", ("instructions.mma=null", "instructions.mma_transposed=null"))

    found = evaluate(network, machine)

    assert isinstance(found, Failure)
    assert (found.stage, found.network, found.machine) == ("compile", "conv", machine.name)
    assert "no part of the network" in found.reason
    assert "no instruction" in found.reason and "\n" not in found.reason


def test_a_network_of_the_host_alone_is_never_the_best() -> None:
    """Its cycles would be 0."""
    network = Network("conv", conv_model(np.random.default_rng(0), 8, 8).SerializeToString())
    without_array = load_machine("tiny8", ("instructions.mma=null", "instructions.mma_transposed=null"))
    machines = [
        ComparedMachine(load_machine("tiny8")),
        ComparedMachine(load_machine("base16")),
        ComparedMachine(without_array),
    ]
    found = compare_machines([network], machines, 0, with_price=False)
    assert found.best("cycles", "conv") == {"base16"}


def test_what_is_no_model_fails_in_the_compiler() -> None:
    found = evaluate(Network("text", b"not a model"), load_machine("tiny8"))
    assert isinstance(found, Failure) and found.stage == "compile" and "not an ONNX file" in found.reason


def test_round_trip_through_json() -> None:
    network = Network("sandwich", sandwich().SerializeToString())
    for found in (evaluate(network, load_machine("tiny8"), 0), evaluate(Network("x", b""), load_machine("tiny8"))):
        assert outcome_from_json(found.as_json()) == found


def test_a_second_machine_gets_what_it_would_get_alone() -> None:
    shared = Network("sandwich", sandwich().SerializeToString())
    for isa in ("tiny8", "rect", "tiny8"):
        alone = Network("sandwich", shared.content)
        one, two = (evaluate(network, load_machine(isa), 0) for network in (shared, alone))
        assert isinstance(one, NetworkFigures) and isinstance(two, NetworkFigures)
        assert replace(one, compile_seconds=0.0) == replace(two, compile_seconds=0.0)
