"""A proposed change loads, whichever key the machine's file has, is enough, and is the smallest that is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model, pool_model, residual_model
from tests.digits import MODEL
from tests.machine_laws import proposed, with_overrides
from tests.rings import long_beyond
from tilewright.compiler.errors import CompileError, TooSmall
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.remedy import enough, larger_memory
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.machine.machine import Machine

TEXTS = {
    "kib": "extends: tiny8\n",
    "depth": "extends: tiny8\nmemories: {wgt: {kib: null, depth: 96, banks: 3}}\n",
    "odd words": "extends: base16\narray: {rows: 15, cols: 15}\nlanes: 3\nmemories: {wgt: {kib: 3, banks: 7}}\n",
}


@pytest.mark.parametrize("words", [120, 211, 1000])
@pytest.mark.parametrize("name", TEXTS)
def test_gives_at_least_the_words(name: str, words: int, tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(TEXTS[name])
    override = larger_memory(load_machine(path), "wgt", words)
    memory = load_machine(path, [override]).memories["wgt"]
    assert memory.depth >= words and memory.depth % memory.banks == 0


# -- enough ------------------------------------------------------------------------------------------------------------


def small_tiny8(depths: Mapping[str, int]) -> Machine:
    """tiny8 with some memories in one bank of so many words."""
    sizes = ", ".join(f"{name}: {{kib: null, depth: {depth}, banks: 1}}" for name, depth in depths.items())
    return load_machine_text(f"extends: tiny8\nmemories: {{{sizes}}}\n", "small")


def test_enlarges_each_memory_until_all_steps_pass_and_no_further() -> None:
    """Each layer in turn names one memory, and asks for less than is enough (`asks`) or more."""
    needs = [("act", 37, 37), ("wgt", 24, 100), ("act", 40, 39), ("acc", 90, 6)]

    def attempt(machine: Machine) -> None:
        for name, least, asks in needs:
            if machine.memories[name].depth < least:
                raise TooSmall(name, "is too small", {name: asks}, "no remedy")

    small = small_tiny8({"act": 5, "wgt": 8, "acc": 2})
    with pytest.raises(TooSmall) as failure:
        attempt(small)
    assert enough(small, failure.value, attempt) == (
        "--set memories.act.depth=40 --set memories.wgt.depth=24 --set memories.acc.depth=90"
    )


def test_what_no_memory_makes_up_for_is_not_answered_with_one() -> None:
    def attempt(machine: Machine) -> None:
        raise TooSmall("act", "is too small", {"act": machine.memories["act"].depth + 1}, "no remedy")

    with pytest.raises(CompileError):
        enough(small_tiny8({"act": 5}), TooSmall("act", "is too small", {"act": 6}, "no remedy"), attempt)


def block(machine: Machine, memory: str) -> int:
    """Words that lie together in a memory: no file may have fewer."""
    operands = [operand for of in machine.formats.values() for operand in (*of.sources, of.destination)]
    return max(operand.block for operand in operands if operand.memory == memory)


def networks() -> dict[str, onnx.ModelProto]:
    return {
        "convolution": conv_model(np.random.default_rng(0), 3, 6, 5, 3, pads=[1, 1, 1, 1]),
        "residual": residual_model(np.random.default_rng(1), 6, 4),
        "pool": pool_model(np.random.default_rng(2), "AveragePool", 5, 6, 2),
    }


def hold_enough(model: onnx.ModelProto, small: Machine) -> list[str]:
    """A refusal's change is enough, half of any of its enlargements is not; the overrides, if there is a refusal."""
    try:
        compile_model(model, small)
        return []
    except CompileError as refusal:
        overrides = proposed(str(refusal))
    compile_model(model, with_overrides(small, overrides))
    for position, override in enumerate(overrides):
        key, _, size = override.partition("=")
        present = small.memories[key.split(".")[1]].depth
        half = f"{key}={present + (int(size) - present) // 2}"
        with pytest.raises(CompileError):
            compile_model(model, with_overrides(small, [*overrides[:position], half, *overrides[position + 1 :]]))
    return overrides


@pytest.mark.slow
@pytest.mark.parametrize("name", long_beyond(2, shipped_machines()))
def test_a_refusal_proposes_what_is_enough_and_no_more(name: str) -> None:
    """With memories of one to eight times the words that an instruction takes at once, alone and all together."""
    shipped, found = load_machine(name), []
    for cut in (("act",), ("wgt",), ("acc",), ("par",), ("act", "wgt", "acc", "par")):
        for times in (1, 3):
            sizes = [f"  {m}: {{kib: null, depth: {times * block(shipped, m)}, banks: 1}}\n" for m in cut]
            small = load_machine_text(f"extends: {name}\nmemories:\n{''.join(sizes)}", "small")
            for model in networks().values():
                found += hold_enough(model, small)
    assert found


@pytest.mark.slow
def test_a_change_is_enough_for_all_layers_of_a_network() -> None:
    """The first layer of digits asks for two words of act, which its successors find too few."""
    assert hold_enough(onnx.load(MODEL), small_tiny8({"act": 1})) == ["memories.act.depth=5"]
