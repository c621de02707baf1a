"""Covers: the cheapest instructions that compute a nest, and what is said when there are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compiler.machines import REQUANTIZE_ADD, machine, with_instructions, without
from tests.compiler.nests import NetworkByHand, assert_computes, network_for
from tilewright.compiler.errors import CompileError
from tilewright.compiler.select.select import select
from tilewright.compiler.select.selector import Selector
from tilewright.isa.machine.machine import Machine


def every_kind(of: Machine) -> tuple[NetworkByHand, str]:
    """A network with a convolution, a rescale, a fused residual add, a pool, a plain add and a copy."""
    network = network_for(of, 1)
    a = network.conv(network.input(1, 3, 8, 8), 16, (3, 3), pad=1)
    b = network.conv(network.rescale(a), 16, (3, 3), pad=1, add=a)
    c = network.max_pool(b, 2, 2)
    return network, network.copy(network.add(c, c))


def mnemonics(network: NetworkByHand, of: Machine, output: str) -> list[list[str]]:
    return [[step.format.mnemonic for step in cover.steps] for cover in select(network.program(output), of).covers]


def test_finds_the_plainest_instruction_for_each_nest() -> None:
    network, output = every_kind(machine("base16"))
    assert mnemonics(network, machine("base16"), output) == [
        ["mma", "requantize"],
        ["rescale"],
        ["mma", "requantize", "add"],
        ["max_pool"],
        ["add"],
        ["copy"],
    ]


def test_searches_once_for_nests_that_differ_in_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    of, searched = machine("base16"), []
    network = network_for(of, 1)
    a = b = network.input(1, 16, 8, 8)
    for _ in range(3):
        b = network.add(b, b)
    program = network.program(network.rescale(network.add(b, a)))
    monkeypatch.setattr(Selector, "_searched", lambda self, nest: searched.append(nest.name) or search(self, nest))
    covers = select(program, of).covers
    assert [cover.nest for cover in covers] == list(program.nests)
    assert len(searched) < len(program.nests)
    for nest, cover in zip(program.nests, covers, strict=True):
        assert cover == Selector(of, program).cover(nest)


search = Selector._searched


@pytest.mark.parametrize("removed", ["copy", "rescale", "fill", "load_acc", "store_acc"])
def test_computes_the_same_without_an_optional_instruction(removed: str) -> None:
    smaller = without(machine("base16"), removed)
    network, output = every_kind(smaller)
    program = assert_computes(network, smaller, output)
    assert removed not in {operation.mnemonic for operation in program.operations}


def test_selects_a_new_fused_instruction(tmp_path: Path) -> None:
    larger = with_instructions(tmp_path, "base16", REQUANTIZE_ADD)
    network, output = every_kind(larger)
    assert_computes(network, larger, output)
    assert mnemonics(network, larger, output)[2] == ["mma", "requantize_add"]


def test_streams_fewer_words_with_the_fused_instruction(tmp_path: Path) -> None:
    larger = with_instructions(tmp_path, "base16", REQUANTIZE_ADD)
    network, output = every_kind(larger)

    def words(of: Machine) -> int:
        return sum(step.words for cover in select(network.program(output), of).covers for step in cover.steps)

    assert words(machine("base16")) - words(larger) == 8 * 8  # one word of 16 channels for each pixel


def test_uses_the_fused_instruction_for_its_parts_where_those_are_missing(tmp_path: Path) -> None:
    fused_only = without(with_instructions(tmp_path, "base16", REQUANTIZE_ADD), "requantize")
    network, output = every_kind(fused_only)
    assert_computes(network, fused_only, output)
    assert mnemonics(network, fused_only, output)[0] == ["mma", "fill", "requantize_add"]


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (
            ("max_pool",),
            "pool3 (ByHand): no instruction of base16 computes `max_over(x)`; add one to the machine's instructions",
        ),
        (
            ("mma",),
            "conv0 (ByHand): no instruction of base16 computes `sum(x * w)`; add one to the machine's instructions",
        ),
        (
            ("requantize",),
            "conv0 (ByHand): no instruction of base16 computes `min(max(round_shift(acc * scale, shift) + 3, -128), "
            "127)`; add one to the machine's instructions",
        ),
        (
            ("add",),
            "conv2 (ByHand): no instruction of base16 computes `min(max(round_shift((acc * 20480) + (acc * 65529), "
            "15) + -2, -128), 127)`; add one to the machine's instructions",
        ),
        (("load_wgt",), "no instruction of base16 computes `y = d` from dram to wgt; add one"),
    ],
)
def test_names_the_operator_and_the_missing_primitive(removed: tuple[str, ...], message: str) -> None:
    smaller = without(machine("base16"), *removed)
    network, output = every_kind(smaller)
    with pytest.raises(CompileError, match=f"^{re.escape(message)}$"):
        assert_computes(network, smaller, output)


def test_refuses_a_result_that_begins_within_a_word() -> None:
    network = network_for(machine("base16"), 1)
    a = network.input(1, 8, 4, 4)
    output = network.concat(a, a)
    message = "channels begin at channel 8 of concat0; expected a multiple of the machine's 16 lanes"
    with pytest.raises(CompileError, match=message):
        select(network.program(output), machine("base16"))
