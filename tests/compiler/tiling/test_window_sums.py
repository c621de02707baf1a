"""Sums of inputs times a number, apart from a product: the same bits, in few more cycles than symmetric weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.asymmetric import Form as Weighted
from tests.asymmetric import cycles as cycles_of
from tests.asymmetric import network
from tests.compiler.lower.test_matmul import product
from tests.compiler.models import ModelBuilder, random_inputs
from tests.compiler.pipelines import simplified, simulated
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.text import print_nests
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, resume
from tilewright.compiler.select.column_sums import column_sums
from tilewright.compiler.select.select import select
from tilewright.compiler.select.text import parse_selection, print_selection
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles

CENTRE = 128
"""The zero point of symmetric uint8 weights."""

Form = tuple[int, int, int, Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
"""Rows, channels of input and result, kernel, strides, dilations, padding (top, left, bottom, right)."""

BASE16, RECT = ("base16",), ("rect",)
SHORT = ("base16", "memories.act.kib=8", "memories.wgt.kib=8", "memories.acc.kib=32")
"""A machine on which tiles have several partial sums."""

PLAIN: Form = (20, 32, 32, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))


def asymmetric(form: Form, zero: int, batch: int = 1) -> onnx.ModelProto:
    """A convolution with uint8 weights of one zero point, on images that are two columns wider than high."""
    rows, inputs, outputs, kernel, strides, dilations, pads = form
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [batch, inputs, rows, rows + 2]), 0.05)
    values = np.random.default_rng(2).integers(1, 256, (outputs, inputs, *kernel)).astype(np.uint8)
    values.flat[0] = 1 if zero == CENTRE else 0
    scale, centre = builder.constant("s", np.float32(0.01)), builder.constant("z", np.array(zero, np.uint8))
    weights = builder.node("DequantizeLinear", [builder.constant("w", values), scale, centre], name="w.dq")
    attributes = {"strides": [*strides], "dilations": [*dilations], "pads": [*pads]}
    builder.output(builder.quantize(builder.node("Conv", [x, weights], name="conv", **attributes), 2.0))
    return builder.build()


@cache
def machine_of(name: str, *changes: str) -> Machine:
    return load_machine(name, list(changes))


def cycles(program: Program) -> int:
    return simulate_cycles(program, place_regions(program.limits)).cycles


def adding(model: onnx.ModelProto, machine: Machine) -> list[str]:
    """The instruction that adds up the sums apart, of each product that has some."""
    covers = select(lower(simplified(model), machine), machine).covers
    return [step.adding.mnemonic for cover in covers for step in cover.steps if step.adding is not None]


@pytest.mark.parametrize(
    ("machine", "form", "zero", "batch"),
    [
        (BASE16, PLAIN, 100, 1),
        (SHORT, PLAIN, 0, 1),  # two numbers, 127 and 1
        (SHORT, ((9, 40, 36, (3, 3), (1, 1), (1, 1), (0, 0, 1, 1))), 140, 2),
        (RECT, ((9, 40, 68, (3, 3), (1, 1), (1, 1), (0, 0, 1, 1))), 140, 2),
        (BASE16, (17, 20, 40, (3, 2), (2, 2), (1, 1), (1, 0, 1, 1)), 100, 1),
        (BASE16, (16, 32, 48, (3, 3), (1, 1), (2, 3), (2, 3, 2, 3)), 100, 1),
        (SHORT, (12, 70, 80, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)), 100, 1),
        (BASE16, (12, 32, 33, (1, 5), (1, 1), (1, 1), (0, 2, 0, 2)), 100, 1),
        (SHORT, (12, 32, 33, (5, 1), (2, 1), (1, 1), (2, 0, 2, 0)), 100, 1),
    ],
    ids=str,
)
def test_sums_apart_give_the_same_bits(machine: tuple[str, ...], form: Form, zero: int, batch: int) -> None:
    model, target = asymmetric(form, zero, batch), machine_of(*machine)
    assert adding(model, target) == ["add_sums"]
    require_the_bits_of_the_nests(model, target)


def require_the_bits_of_the_nests(model: onnx.ModelProto, machine: Machine) -> None:
    program = compile_model(model, machine, Options(effort=0))
    inputs = random_inputs(model, np.random.default_rng(3))
    (expected,) = run_nests(lower(simplified(model), machine), inputs).values()
    (result,) = simulated(program, inputs).values()
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("machine", [BASE16, SHORT], ids=str)
@pytest.mark.parametrize(
    ("sizes", "zeros"),
    [
        ((1, 128, 196, 196), ("int8", 2, 13)),  # scores of an attention; column sums are apart, too
        ((2, 70, 45, 90), ("int8", 0, 7)),
        ((1, 64, 50, 64), ("uint8", 0, 255)),  # 255 is two numbers of int8
    ],
    ids=str,
)
@pytest.mark.parametrize("is_transposed", [False, True], ids=["straight", "transposed"])
def test_zero_points_of_computed_matrices_are_apart_with_the_same_bits(
    machine: tuple[str, ...], sizes: tuple[int, int, int, int], zeros: tuple[str, int, int], is_transposed: bool
) -> None:
    target = machine_of(*machine)
    graph, inputs = product(sizes, zeros, is_transposed)
    nests = column_sums(lower(graph, target), target)
    of_product = select(nests, target).covers[-1].dot
    assert of_product is not None
    assert of_product.adding is not None
    result = simulated(resume("lower", print_nests(lower(graph, target)), target), inputs)["y"]
    assert np.array_equal(result, run_nests(nests, inputs)["y"])


def test_a_zero_point_of_a_computed_matrix_takes_few_more_cycles_than_none() -> None:
    """In the product, it would take as many vectors again."""
    machine = machine_of("base16")

    def cycles_with(zero: int) -> int:
        graph, _ = product((1, 512, 196, 196), ("int8", 0, zero), True)
        return cycles(resume("lower", print_nests(lower(graph, machine)), machine))

    assert cycles_with(13) <= 1.25 * cycles_with(0)


def test_taps_that_are_the_number_itself_count() -> None:
    """Less the number such a tap is a tile of zeros, which is not multiplied; its pixels are in the other sum."""
    for machine in (machine_of("base16"), machine_of("base16", "instructions.add_sums=null")):
        model = asymmetric(PLAIN, 100)
        [values] = [tensor for tensor in model.graph.initializer if tensor.name == "w"]
        array = numpy_helper.to_array(values).copy()
        array[:16, :, 2] = 128  # 100 + 28, and 28 is the number
        values.CopyFrom(numpy_helper.from_array(array, "w"))
        require_the_bits_of_the_nests(model, machine)


@pytest.mark.parametrize(
    ("form", "machine"),
    [
        (PLAIN, machine_of("base16", "instructions.add_sums=null")),  # nothing can add
        ((12, 16, 16, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)), machine_of("base16")),  # as long in the array
        ((21, 32, 16, (1, 1), (4, 4), (1, 1), (0, 0, 0, 0)), machine_of("base16")),  # most pixels are in no window
    ],
    ids=["nothing adds", "one tile of weights", "large strides"],
)
def test_numbers_stay_in_the_product_where_that_is_faster(form: Form, machine: Machine) -> None:
    assert adding(asymmetric(form, 100), machine) == []


def test_covers_with_sums_apart_as_text_and_back() -> None:
    machine, model = machine_of("base16"), asymmetric(PLAIN, 100)
    selection = select(lower(simplified(model), machine), machine)
    text = print_selection(selection)
    assert parse_selection(text, machine).covers == selection.covers
    with pytest.raises(CompileError) as error:
        parse_selection(text.replace('adding = "add_sums"', 'adding = "add_bias"'), machine)
    assert str(error.value).endswith("select.mma: adding is 'add_bias'; expected what adds two sums: add_sums")


def test_asymmetric_weights_take_few_more_cycles_than_symmetric_ones() -> None:
    form: Form = (49, *PLAIN[1:])
    apart, symmetric = (cycles(compile_model(asymmetric(form, zero), machine_of("base16"))) for zero in (100, CENTRE))
    assert apart <= 1.15 * symmetric


IN_TILES = [Weighted("base16", 16, 16, 3), Weighted("base16", 64, 64, 3, is_depthwise=True)]


@pytest.mark.parametrize("form", IN_TILES, ids=str)
def test_few_weights_that_do_not_fit_take_few_more_cycles_and_give_the_same_bits(form: Weighted) -> None:
    assert cycles_of(form, is_bell=True, is_symmetric=False) <= 1.15 * cycles_of(form, is_bell=True, is_symmetric=True)
    require_the_bits_of_the_nests(network(form, is_bell=True, is_symmetric=False), machine_of(form.machine))


def test_sums_apart_are_not_taken_where_additions_to_the_results_take_longer() -> None:
    assert adding(asymmetric((32, 32, 32, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)), 100), machine_of("base16")) == []
