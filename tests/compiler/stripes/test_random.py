"""Random chains in random stripes, on machines with memories of any size: compiled, they give the values of nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import pytest
from numpy.random import default_rng

from tests.accumulator_networks import from_accumulators, pooled, projection, shallow
from tests.compiler.columns.networks import narrow_model
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import simulated
from tests.compiler.stripes.networks import any_chains, before_stripes, block_model, compiled_nests
from tests.compiler.wide_activations import with_wide_activations
from tests.fuzz.targets.stripes import CutChain, Step
from tests.rings import long_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.stripes.chain import Chain, chains
from tilewright.compiler.stripes.cut import Stripes, in_stripes
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""A machine that is built in a minute."""


def block(machine: str, *last: Step, rows: int, groups: int = 0, **how: bool) -> CutChain:
    """An expansion and a depthwise convolution, and what follows them, in stripes of so many rows."""
    first = Step("convolution", 24), Step("depthwise", kernel=3, pads=(1, 1)), Step("convolution", 12)
    return CutChain(machine, 0, (12, 13, 5), (Step("convolution", 12), *first, *last), rows, groups, **how)


def random_model(rng: np.random.Generator) -> onnx.ModelProto:
    return block_model(
        height=int(rng.integers(4, 20)),
        width=int(rng.integers(3, 12)),
        channels=int(rng.choice([16, 32, 40, 48])),
        kernel=int(rng.choice([3, 5])),
        stride=int(rng.integers(1, 4)),
        dilation=int(rng.integers(1, 3)),
        is_residual=bool(rng.integers(2)),
        seed=int(rng.integers(1000)),
    )


def cut_at_random(program: NestProgram, machine: Machine, rng: np.random.Generator) -> NestProgram:
    """The nests with all chains cut, whatever they take."""
    lanes = machine.lanes
    found = list(chains(program, lanes))
    assert found
    for chain in found:
        channels = rng.choice([0, lanes, 2 * lanes])
        how = bool(rng.integers(2)), bool(rng.integers(2))
        stripes = Stripes(int(rng.integers(1, chain.rows + 1)), int(channels) or None, *how)
        program = in_stripes(Chain(chain.nests, program), stripes)
    return program


def assert_same_values(model: onnx.ModelProto, machine: Machine, rng: np.random.Generator) -> None:
    """A model compiled with its chains cut at random has the values of its nests before they are cut."""
    nests = before_stripes(model, machine)
    program = compiled_nests(cut_at_random(nests, machine, rng), machine)
    inputs = random_inputs(model, rng)
    expected, found = run_nests(nests, inputs), simulated(program, inputs)
    assert all(np.array_equal(values, found[name]) for name, values in expected.items())


@pytest.mark.parametrize("seed", long_beyond(12, range(300)))
def test_the_values_are_those_of_the_nests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = load_machine("dw16", [f"memories.act.kib={rng.choice([2, 4, 16, 64])}"])
    assert_same_values(random_model(rng), machine, rng)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("network", [projection, shallow, pooled])
def test_sums_that_stay_in_accumulators_keep_their_values(network: Callable[[], onnx.ModelProto], seed: int) -> None:
    assert_same_values(network(), from_accumulators(), np.random.default_rng(seed))


CUTS = Stripes(3), Stripes(2, copies_edges=True), Stripes(1, 16, is_interleaved=True)


def assert_cut_alike(nests: NestProgram, model: onnx.ModelProto, machine: Machine) -> None:
    """The longest chain of a network has the same values in stripes of each kind."""
    chain, inputs = max(any_chains(nests), key=lambda each: len(each.nests)), random_inputs(model, default_rng(0))
    expected = run_nests(nests, inputs)
    for stripes in CUTS:
        cut = in_stripes(chain, stripes)
        assert len(cut.nests) > len(nests.nests)
        found = simulated(compiled_nests(cut, machine), inputs)
        assert all(np.array_equal(values, found[name]) for name, values in expected.items()), str(stripes)


@pytest.mark.slow
def test_chains_go_through_layers_with_joined_columns() -> None:
    model, machine = narrow_model(), load_machine("wide32", ["memories.act.kib=8"])
    nests = before_stripes(model, machine, joins_columns=True)
    assert "joined to one" in nests.remarks["columns"]
    assert_cut_alike(nests, model, machine)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes", "element"),
    [
        ("base16-a16", (), "int16"),
        ("base16", ("memories.act.element=uint8", "memories.lut.element=uint8"), "uint8"),
    ],
)
def test_tensors_within_chains_have_any_type(name: str, changes: Sequence[str], element: str) -> None:
    """The model says int8; a machine whose memory has another type holds its tensors so."""
    model, machine = block_model(is_residual=True), load_machine(name, ["memories.act.kib=4", *changes])
    if element == "int16":
        model = with_wide_activations(model)
    nests = before_stripes(model, machine)
    assert {str(nests.buffers[nest.result.tensor].type) for nest in nests.nests} >= {element}
    assert_cut_alike(nests, model, machine)


# -- on the hardware ---------------------------------------------------------------------------------------------------

STRIPED: Mapping[str, tuple[tuple[str, ...], Sequence[CutChain]]] = {
    "dw16": (
        ("memories.act.kib=1",),
        [
            block("dw16", Step("sum", back=3), rows=3, is_interleaved=True),
            block(
                "dw16",
                Step("depthwise", kernel=5, stride=2, dilation=2, pads=(3, 1)),
                rows=2,
                groups=1,
                copies_edges=True,
            ),
            block("dw16", Step("function"), Step("product"), Step("largest", kernel=3, stride=2), rows=1),
        ],
    ),
    "sequence16": (
        ("memories.act.kib=2",),
        [
            block("sequence16", Step("softmax"), Step("convolution", 8), rows=2),
            block("sequence16", Step("average", kernel=2), Step("function"), rows=3, copies_edges=True),
            block("sequence16", Step("join", back=2), Step("softmax"), Step("sum"), rows=5, groups=1),
        ],
    ),
}
"""For machines with so little memory, chains of which each is cut in another way."""


@pytest.mark.slow
@pytest.mark.parametrize("name", STRIPED)
def test_hardware_and_simulator_agree_about_stripes(name: str) -> None:
    changes, wanted = STRIPED[name]
    machine, jobs = load_machine(name, [*SMALL, *changes]), []
    for cut in wanted:
        model = cut.model()
        nests = before_stripes(model, machine)
        chain = max(any_chains(nests), key=lambda found: len(found.nests))
        stripes = Stripes(cut.rows, cut.groups * machine.lanes or None, cut.is_interleaved, cut.copies_edges)
        striped = in_stripes(chain, stripes)
        assert len(striped.nests) >= len(nests.nests) + len(chain.nests)
        program = compiled_nests(striped, machine)
        inputs = random_inputs(model, np.random.default_rng(0))
        jobs.append((program, dram_image(program, inputs), place_regions(program.limits)))
    assert_equal(machine, jobs, range(len(jobs)))


@pytest.mark.slow
def test_hardware_and_simulator_agree() -> None:
    machine, jobs = load_machine("dw16", [*SMALL, "memories.act.kib=4"]), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = random_model(rng)
        program = compiled_nests(cut_at_random(before_stripes(model, machine), machine, rng), machine)
        jobs.append((program, dram_image(program, random_inputs(model, rng)), place_regions(program.limits)))
    assert_equal(machine, jobs, range(6))
