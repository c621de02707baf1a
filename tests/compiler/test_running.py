"""Passes that a user leaves out or puts in another order: the same values, or a refusal that says why."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest

from tests.compiler.models import random_inputs
from tests.compiler.test_pipeline import MODELS
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import GRAPH, NESTS
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import PASSES, chosen_passes, compile_model
from tilewright.compiler.simplify.steps import SIMPLIFIED_BY
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.values import simulate_values

MOVABLE = tuple(
    step.name
    for step in PASSES.passes[PASSES.position(SIMPLIFIED_BY) + 1 :]
    if step.before is step.after and step.before in (GRAPH, NESTS)
)
"""The passes that stay at their level: any may be left out."""


def values_with(names: tuple[str, ...], network: str, isa: str) -> list[bytes]:
    """A network's outputs with some passes, for one input."""
    model = MODELS[network](np.random.default_rng(0))
    program = compile_model(model, load_machine(isa), Options(effort=0, verifies=True, passes=names))
    inputs = random_inputs(model, np.random.default_rng(1))
    final = simulate_values(program, dram_image(program, inputs), place_regions(program.limits))
    return [value.tobytes() for value in read_outputs(program, final.dram).values()]


@pytest.mark.parametrize("left_out", [*MOVABLE, "schedule"])
@pytest.mark.parametrize("network", sorted(MODELS)[:4])
def test_without_a_pass_the_values_stay(network: str, left_out: str) -> None:
    expected = values_with((), network, "tiny8")
    with suppress(CompileError):  # a nest may have no instruction without it
        assert values_with(chosen_passes(f"-{left_out}"), network, "tiny8") == expected


@pytest.mark.parametrize(
    ("isa", "seed"), [("tiny8", 0), ("base16", 1), pytest.param("dw16", 2, marks=pytest.mark.slow)]
)
def test_in_any_order_the_values_stay(isa: str, seed: int) -> None:
    draw, compiled = random.Random(seed), 0
    for network in sorted(MODELS):
        names = shuffled(draw)
        with suppress(CompileError):
            assert values_with(names, network, isa) == values_with((), network, isa), f"seed {seed}: {names}"
            compiled += 1
    assert compiled > len(MODELS) // 2


def shuffled(draw: random.Random) -> tuple[str, ...]:
    """All passes, those of a level among each other in any order, one left out."""
    names: list[str] = []
    for level in (GRAPH, NESTS):
        group = [step.name for step in PASSES.passes if step.name in MOVABLE and step.before is level]
        names += draw.sample(group, len(group) - 1)
        if level is GRAPH:
            names.append("lower")
    return (*PASSES.names()[: PASSES.position(SIMPLIFIED_BY) + 1], *names, *PASSES.names()[PASSES.position("select") :])


def test_all_passes_in_their_order_give_the_same_bytes() -> None:
    model, machine = MODELS["conv"](np.random.default_rng(0)), load_machine("tiny8")
    listed = Options(passes=chosen_passes(",".join(PASSES.names())))
    assert to_bytes(compile_model(model, machine, listed)) == to_bytes(compile_model(model, machine))


ALL = ", ".join(PASSES.names())
FIRST = PASSES.names()[: PASSES.position(SIMPLIFIED_BY) + 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-fuze", f"there is no pass 'fuze'; expected one of {ALL}"),
        ("import,-fuse", "the list 'import,-fuse' has names with and without '-'; expected one or the other"),
        ("-lower", "pass 'batches': takes nests, and 'columns' before it gives graph"),
        (",".join((*FIRST, "lower", "lower")), "pass 'lower': is listed twice; expected each pass once at most"),
        ("import,lower,select,tile", "the list begins with import, lower, select, tile; "
         f"expected {', '.join(FIRST)}: what they make is cut into parts for the machine and the host"),
        (",".join((*FIRST, "lower")), "the list ends with lower; expected emit, which makes the program"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_run_is_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        chosen_passes(text)
    assert str(refused.value) == message
