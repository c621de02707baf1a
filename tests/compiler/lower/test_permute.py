"""`permute` as nests, against numpy: through the interpreter of nests, and compiled and simulated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.graph.test_element_order import random_shape
from tests.compiler.pipelines import base16, simulated
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.element_order import order_of
from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType
from tilewright.compiler.graph.text import print_graph
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.permute_steps import steps_of
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import resume
from tilewright.compiler.simplify.steps import SIMPLIFIED_BY
from tilewright.isa.files.loader import load_machine

Shape = tuple[int, ...]


def permuted(before: Shape, shape: Shape, axes: Shape, after: Shape) -> Graph:
    """A network that only moves an int8 input's elements."""
    quantization = Quantization((0.5,), (3,))
    tensors = {"x": TensorType("int8", before, quantization), "y": TensorType("int8", after, quantization)}
    operator = Operator("move", "permute", ("x",), ("y",), {"shape": shape, "axes": axes}, ("Transpose move",))
    return Graph("test", (operator,), tensors, {}, ("x",), {"y": "y"}, 17)


def assert_moves(
    before: Shape, shape: Shape, axes: Shape, after: Shape, machine: str = "base16", is_simulated: bool = True
) -> None:
    """By the interpreter of nests, and if it is to be, by the machine's simulator."""
    graph = permuted(before, shape, axes, after)
    x = np.random.default_rng(0).integers(-128, 128, before).astype(np.int8)
    expected = x.reshape(shape).transpose(axes).reshape(after)
    case = f"{before} as {shape} by {axes} to {after}"
    computed = run_nests(lower(graph, load_machine(machine)), {"x": x})["y"]
    np.testing.assert_array_equal(computed, expected, err_msg=case)
    if is_simulated:
        program = resume(SIMPLIFIED_BY, print_graph(graph), load_machine(machine))
        np.testing.assert_array_equal(simulated(program, {"x": x})["y"], expected, err_msg=case)


CASES = {
    "heads split": ((1, 64, 1, 6), (64, 6), (0, 1), (2, 32, 1, 6)),
    "heads split, several batches": ((3, 64, 1, 6), (3, 64, 6), (0, 1, 2), (12, 16, 1, 6)),
    "heads joined": ((4, 16, 1, 5), (4, 16, 5), (0, 1, 2), (1, 64, 1, 5)),
    "height and width": ((2, 20, 3, 5), (2, 20, 3, 5), (0, 1, 3, 2), (2, 20, 5, 3)),
    "batch and rows": ((2, 20, 3, 5), (2, 20, 3, 5), (2, 1, 0, 3), (3, 20, 2, 5)),
    "rows joined": ((1, 20, 3, 5), (20, 15), (0, 1), (1, 20, 1, 15)),
    "batches to columns": ((3, 20, 1, 5), (3, 20, 5), (1, 0, 2), (1, 20, 1, 15)),
    "channels and columns": ((2, 20, 1, 30), (2, 20, 30), (0, 2, 1), (2, 30, 1, 20)),
    "channels and rows": ((2, 20, 3, 5), (2, 20, 3, 5), (0, 2, 1, 3), (2, 3, 20, 5)),
    "channels last": ((2, 20, 3, 5), (2, 20, 3, 5), (0, 2, 3, 1), (2, 3, 5, 20)),
    "channels last, as tokens": ((1, 32, 4, 4), (32, 16), (1, 0), (1, 16, 1, 32)),
    "a head's channels and pixels": ((1, 32, 1, 6), (2, 16, 6), (0, 2, 1), (2, 6, 1, 16)),
    "one channel": ((1, 1, 3, 5), (3, 5), (0, 1), (1, 3, 1, 5)),
    "to one channel": ((1, 3, 1, 5), (3, 5), (0, 1), (1, 1, 3, 5)),
    "narrow heads split": ((1, 48, 1, 6), (48, 6), (0, 1), (2, 24, 1, 6)),
    "narrow heads joined": ((2, 24, 1, 6), (2, 24, 6), (0, 1, 2), (1, 48, 1, 6)),
    "narrow heads turned": ((1, 48, 1, 6), (2, 24, 6), (0, 2, 1), (2, 6, 1, 24)),
    "channels shuffled": ((1, 40, 3, 3), (5, 8, 9), (1, 0, 2), (1, 40, 3, 3)),
    "windows": ((1, 16, 4, 6), (16, 2, 2, 3, 2), (1, 3, 0, 2, 4), (6, 16, 2, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_moves_as_numpy_does(name: str) -> None:
    assert_moves(*CASES[name])


@pytest.mark.parametrize(
    ("name", "nests"),
    [
        ("height and width", ["move"]),
        ("heads split", ["move.part0", "move.part1"]),
        ("narrow heads joined", ["move.step0.part0", "move.step0.part1", "move.step1"]),
    ],
)
def test_numbers_the_nests_of_a_step_that_has_several(name: str, nests: list[str]) -> None:
    assert [nest.name for nest in lower(permuted(*CASES[name]), base16()).nests] == nests


@pytest.mark.parametrize("seed", range(30))
def test_random_moves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.choice([48, 96, 120, 256, 480]))
    before, after = random_shape(size, 4, rng), random_shape(size, 4, rng)
    shape = random_shape(size, int(rng.integers(2, 5)), rng)
    axes = tuple(int(axis) for axis in rng.permutation(len(shape)))
    print(f"seed {seed}: {before} as {shape} by {axes} to {after}")
    lanes = base16().lanes
    if steps_of(order_of(shape, axes), before, after, lanes) is None:  # type: ignore[arg-type]
        with pytest.raises(CompileError, match="in a way that the machine has no steps for"):
            lower(permuted(before, shape, axes, after), base16())
    else:
        assert_moves(before, shape, axes, after, is_simulated=False)
