"""Products of two computed tensors, and exchanges of channels and pixels, against numpy: simulator and nests alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler.nests import INT8
from tests.compiler.pipelines import simulated
from tests.rings import long_beyond
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.matmul import transposition
from tilewright.compiler.lower.network import affine, identity_index, network_of
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import Access, Buffer, NestProgram
from tilewright.compiler.nest.text import print_nests
from tilewright.compiler.pipeline import resume
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, Tensor

SQUARE = ("tiny8", "base16", "tensil8", "wide32", "vta16")
"""Machines whose arrays read tiles of tensors, straight and transposed."""

SIZES = [(1, 16, 20, 30), (2, 40, 7, 33), (3, 5, 1, 1), (2, 100, 17, 16), (1, 64, 130, 130)]
"""Batch, summed channels, pixels and channels of the result: whole words and others."""

ZEROS = [("int8", 0, 0), ("int8", -128, 3), ("int8", 5, -128), ("uint8", 0, 128), ("uint8", 255, 0)]


def product(
    sizes: tuple[int, int, int, int], zeros: tuple[str, int, int], is_transposed: bool
) -> tuple[Graph, dict[str, NDArray[Any]]]:
    """A graph of one product, and random operands that reach all values."""
    batch, summed, pixels, length = sizes
    dtype, a_zero, b_zero = zeros
    b_shape = (batch, summed, 1, length) if is_transposed else (batch, length, 1, summed)
    tensors = {
        "a": TensorType(dtype, (batch, summed, 1, pixels), Quantization((0.1,), (a_zero,))),
        "b": TensorType(dtype, b_shape, Quantization((0.2,), (b_zero,))),
        "y": TensorType("int8", (batch, length, 1, pixels), Quantization((0.2 * summed**0.5 * 20,), (3,))),
    }
    attributes = {"is_transposed": is_transposed, "factor": 0.5, "low": -128, "high": 127}
    operator = Operator("product", "product", ("a", "b"), ("y",), attributes, ("node",))
    rng = np.random.default_rng(sum(sizes))
    limits = np.iinfo(dtype)
    inputs = {n: rng.integers(limits.min, limits.max + 1, tensors[n].shape).astype(dtype) for n in ("a", "b")}
    return Graph("product", (operator,), tensors, {}, ("a", "b"), {"y": "y"}, 13), inputs


def in_real_numbers(graph: Graph, inputs: dict[str, NDArray[Any]], is_transposed: bool) -> NDArray[np.float64]:
    def real(name: str) -> NDArray[np.float64]:
        quantization = graph.tensors[name].quantization
        assert quantization is not None
        return (inputs[name].astype(np.float64) - quantization.zero_point) * quantization.scale

    total = np.einsum("nkhm,nkhl->nlhm" if is_transposed else "nkhm,nlhk->nlhm", real("a"), real("b"))
    quantization = graph.tensors["y"].quantization
    assert quantization is not None
    return np.clip(np.rint(0.5 * total / quantization.scale) + quantization.zero_point, -128, 127)


@pytest.mark.parametrize("is_transposed", [False, True], ids=["straight", "transposed"])
@pytest.mark.parametrize("zeros", ZEROS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_product_is_that_of_real_numbers(
    sizes: tuple[int, int, int, int], zeros: tuple[str, int, int], is_transposed: bool
) -> None:
    graph, inputs = product(sizes, zeros, is_transposed)
    machine = load_machine("base16")
    nests = lower(graph, machine)
    interpreted = run_nests(nests, inputs)["y"]
    steps = np.abs(interpreted - in_real_numbers(graph, inputs, is_transposed))
    assert steps.max() <= 1 and (steps > 0).mean() < 0.01
    assert np.array_equal(simulated(compiled(nests, machine), inputs)["y"], interpreted)


@pytest.mark.slow
@pytest.mark.parametrize("is_transposed", [False, True], ids=["straight", "transposed"])
@pytest.mark.parametrize("machine", long_beyond(2, SQUARE))
def test_machines_agree_with_the_nests(machine: str, is_transposed: bool) -> None:
    loaded = load_machine(machine)
    for sizes in SIZES:
        for zeros in ZEROS:
            graph, inputs = product(sizes, zeros, is_transposed)
            nests = lower(graph, loaded)
            assert np.array_equal(simulated(compiled(nests, loaded), inputs)["y"], run_nests(nests, inputs)["y"])


def test_an_array_whose_words_are_not_those_of_tensors_is_refused() -> None:
    machine = load_machine("rect")
    graph, _ = product(SIZES[0], ZEROS[0], is_transposed=False)
    with pytest.raises(CompileError) as error:
        compiled(lower(graph, machine), machine)
    assert str(error.value) == (
        "node: no instruction of rect computes `sum(x * w)` with both computed; expected `dot(a, w)`, or "
        "`dot(a, transpose(w))` where the second one's channels are summed, and weights in words of "
        f"lanes = {machine.lanes} elements, as the tensors'"
    )


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("shape", [(1, 16, 1, 16), (2, 40, 3, 33), (1, 3, 2, 70), (1, 100, 1, 1)], ids=str)
def test_transposition_exchanges_channels_and_columns(shape: tuple[int, ...], machine: str) -> None:
    loaded = load_machine(machine)
    values = np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)
    nests = exchanging(shape, loaded)
    expected = values.transpose(0, 3, 2, 1)
    assert np.array_equal(run_nests(nests, {"s": values})["t"], expected)
    assert np.array_equal(simulated(compiled(nests, loaded), {"s": values})["t"], expected)


def exchanging(shape: tuple[int, ...], machine: Machine) -> NestProgram:
    """t[n, w, h, c] = s[n, c, h, w]"""
    n, c, h, w = shape
    network = network_of(Graph("g", (), {}, {}, ("s",), {"t": "t"}, 13), machine)
    read = Access("s", (affine(("n", 1)), affine(("x", 1)), affine(("y", 1)), affine(("o", 1))))
    operator = Operator("exchange", "permute", ("s",), ("t",), {}, ("exchange",))
    target = Access("t", identity_index())
    nests = transposition("exchange", operator, (n, w, h, c), read, target, network)
    buffers = {name: Buffer(name, size, INT8) for name, size in (("s", shape), ("t", (n, w, h, c)))}
    hosted = [Tensor(name, buffer.shape, buffer.shape, "int8", 1.0, 0, 0, 0) for name, buffer in buffers.items()]
    return NestProgram(
        "exchange", tuple(nests), buffers, network.constants, network.constant_types, (hosted[0],), (hosted[1],)
    )


def compiled(nests: NestProgram, machine: Machine) -> Program:
    return resume("lower", print_nests(nests), machine)
