"""Sums that accumulators may not hold are cut into pieces where a machine adds these up; others refuse them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.compiler.lower.test_transposed import transposed
from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.compiler.pipelines import simulated
from tests.test_accumulators import extremes, product
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.rtl.proof.all import datapath_proofs

AT_ONCE = """
extends: base16
memories: {acc: {element: int20}}
instructions:
  requantize_pieces:
    engine: vec
    loops:  {c: 8, y: 10, x: 10, b: 6}
    reduce: [b]
    from:   {a: acc, p: "par[c]"}
    to:     {y: "act[c, y, x]"}
    imm:    {zero: act, low: act, high: act}
    do: y = clamp(round_shift((sum(a) + p.bias) * p.scale, p.shift) + zero, low, high)
"""
"""Pieces are added up where they become activations."""

IN_MEMORY = """
extends: base16
memories:
  acc:  {element: int20}
  wide: {element: int32, width: lanes, kib: 16, banks: 2}
engines:
  vec: {reads: [act, acc, par, lut, wide], writes: [act, acc, wide]}
instructions:
  add_pieces:
    engine: vec
    loops:  {c: 8, y: 10, x: 10, b: 6}
    reduce: [b]
    from:   {a: acc}
    to:     {y: "wide[c, y, x]"}
    do: y = wrap(sum(a), wide)
  requantize_wide:
    engine: vec
    loops:  {i: 10, j: 10, k: 10}
    from:   {a: wide, p: par}
    to:     {y: act}
    imm:    {zero: act, low: act, high: act}
    do: y = clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high)
"""
"""Pieces are added up into a memory of more bits."""

FAST = Options(effort=0)


SMALL = """
array: {rows: 4, cols: 4}
lanes: 4
dram: {bus_bytes: 4}
"""
"""Hardware that is built sooner."""


def machine_of(text: str) -> Machine:
    return load_machine_text(text, "pieces.yaml")


def compiled(model: onnx.ModelProto, machine: Machine) -> Program:
    return compile_model(model, machine, FAST)


def long_product(length: int = 150) -> onnx.ModelProto:
    """Columns of random weights, and two whose sums are the largest that there can be."""
    columns = np.random.default_rng(1).integers(-128, 128, (18, length)).tolist()
    return product([*columns, [127] * length, [-128] * length], 2.0**15)


def inputs_of(model: onnx.ModelProto, length: int = 150) -> list[dict[str, NDArray[np.int8]]]:
    return [extremes(length), random_inputs(model, np.random.default_rng(0))]


@pytest.mark.parametrize("text", [AT_ONCE, IN_MEMORY], ids=["at once", "in memory"])
def test_results_are_those_of_wide_accumulators(text: str) -> None:
    model = long_product()
    program = compiled(model, machine_of(text))
    for inputs in inputs_of(model):
        expected = run_onnx(model, inputs)["y"]
        np.testing.assert_array_equal(simulated(program, inputs)["y"], expected)
    assert len(np.unique(expected)) > 5


def test_a_remark_says_how_many_pieces_a_sum_has() -> None:
    """A product is 16,384 at most, so that int20 holds any 31: of 150, eight times a vector of 16, and 22 are left."""
    program = compiled(long_product(), machine_of(AT_ONCE))
    assert program.metadata["sums of product"] == (
        "they may reach -2,438,400 to 2,457,600, which int20 does not hold: each is computed in 9 pieces, which are "
        "then added up"
    )


def test_a_piece_is_as_long_as_its_own_weights_allow() -> None:
    """36 weights of 100 and less reach 460,800: one piece, where any weights would take three."""
    program = compiled(product([[100] * 36, [-3] * 36]), machine_of(AT_ONCE))
    assert "requantize_pieces" not in {each.mnemonic for each in program.instructions}


def test_windows_are_cut_along_their_channels() -> None:
    model = conv_model(np.random.default_rng(3), 40, 20, (6, 5), kernel=3, pads=(1, 1, 1, 1))
    machine = machine_of(AT_ONCE.replace("int20}", "int22, kib: 4}"))  # parts of the result, too
    program = compiled(model, machine)
    inputs = random_inputs(model, np.random.default_rng(4))
    (found,), (meant,) = (tuple(each.values()) for each in (simulated(program, inputs), run_onnx(model, inputs)))
    np.testing.assert_array_equal(found, meant)


@pytest.mark.parametrize("room", ["int22}", "int22, kib: 4}"], ids=["whole", "in parts"])
@pytest.mark.parametrize(("group", "channels"), [(2, 80), (3, 144)])
def test_groups_are_cut_as_whole_convolutions_are(group: int, channels: int, room: str) -> None:
    """Groups of 40 channels end within a vector of 16, those of 48 at its end."""
    model = conv_model(np.random.default_rng(5), channels, 24, (6, 5), kernel=3, pads=(1, 1, 1, 1), group=group)
    program = compiled(model, machine_of(AT_ONCE.replace("int20}", room)))
    assert "pieces, which are then added up" in program.metadata["sums of conv"]
    assert program.layers[0].macs == 24 * channels // group * 9 * 6 * 5
    require_same(program, model)


def test_phases_of_a_transposed_convolution_are_cut() -> None:
    """Each has 2 × 2 taps of 48 channels, and int21 holds any 63 products."""
    model = transposed(kernel=4, strides=[2, 2], pads=[1, 1, 1, 1], inputs=48)
    program = compiled(model, machine_of(AT_ONCE.replace("int20}", "int21}")))
    told = [name for name in program.metadata if name.startswith("sums of")]
    assert told == [f"sums of up.part{number}" for number in range(4)]
    require_same(program, model)


def require_same(program: Program, model: onnx.ModelProto) -> None:
    """Results are those of base16, whose accumulators have 32 bits, and hardly ever a step from ONNX Runtime's."""
    inputs = random_inputs(model, np.random.default_rng(4))
    wide = compiled(model, load_machine("base16"))
    (found,), (usual,) = (tuple(simulated(each, inputs).values()) for each in (program, wide))
    np.testing.assert_array_equal(found, usual)
    (meant,) = run_onnx(model, inputs).values()
    assert np.mean(found == meant) > 0.999 and len(np.unique(found)) > 50


def test_channels_by_themselves_have_nothing_to_cut() -> None:
    """A sum of 15 × 15 taps of one channel is refused, with what would do."""
    model = conv_model(np.random.default_rng(5), 16, 16, (15, 15), kernel=15, group=16)
    with pytest.raises(CompileError, match=r"conv \(Conv\): its sums may reach .*; expected int22 or wider in acc"):
        compiled(model, machine_of(AT_ONCE))


def test_without_such_an_instruction_it_is_refused_with_both_ways_out() -> None:
    machine = load_machine_text("extends: base16\nmemories: {acc: {element: int20}}", "narrow.yaml")
    with pytest.raises(CompileError) as error:
        compiled(long_product(), machine)
    assert str(error.value) == (
        "product (MatMul): its sums may reach -2,438,400 to 2,457,600, and mma leaves int20; expected int23 or wider "
        "in acc, such as by memories.acc.element=int23, or an instruction that adds up pieces of sums, `sum(a)` with "
        "`a` in acc"
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", [AT_ONCE, IN_MEMORY], ids=["at once", "in memory"])
def test_programs_are_the_simulators_on_the_hardware(text: str) -> None:
    machine = machine_of(text + SMALL)
    model = long_product(60)
    program = compiled(model, machine)
    jobs = [
        (program, host.dram_image(program, inputs), place_regions(program.limits)) for inputs in inputs_of(model, 60)
    ]
    assert_equal(machine, jobs, range(len(jobs)))


@pytest.mark.long
@pytest.mark.parametrize("text", [AT_ONCE, IN_MEMORY], ids=["at once", "in memory"])
def test_the_datapath_is_proved(text: str) -> None:
    proofs = [proof for _, proof in datapath_proofs([machine_of(text)])]
    assert proofs and all(proof.holds for proof in proofs)
