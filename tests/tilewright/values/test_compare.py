"""A network's tensors on the machine: where they lie, how they compare, and who is to blame for a wrong one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from programs.networks.registry import int8_network
from tests.compiler.columns.networks import narrow_model
from tests.compiler.models import random_inputs, small_cnn
from tests.compiler.stripes.networks import block_model
from tests.digits import MODEL, images, reference_tensors
from tests.small_float_networks import layer_network, quantised_network, samples
from tilewright.compiler.columns.elements import with_columns_apart
from tilewright.compiler.nest.interpreter import run_nest_buffers
from tilewright.compiler.options import Options
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.program import Program
from tilewright.values.compare import ValueComparison, compare_values, machine_tensors
from tilewright.values.compiled import Compiled, compile_keeping
from tilewright.values.watch import Watch

FAST = Options(effort=0)


@pytest.fixture(scope="module")
def digits() -> tuple[onnx.ModelProto, Program, Compiled]:
    """The network of digits, compiled for base16."""
    network, (program,) = compile_keeping(MODEL, load_machine("base16"), FAST)
    return onnx.load(MODEL), network, program


def image(number: int = 0) -> dict[str, NDArray[np.float32]]:
    return {"image": images()[number][None]}


def changed(compiled: Compiled, index: int, **fields: int) -> Compiled:
    """The program with other fields in one instruction."""
    instructions = list(compiled.program.instructions)
    instructions[index] = with_fields(instructions[index], **fields)
    return replace(compiled, program=replace(compiled.program, instructions=tuple(instructions)))


def with_fields(instruction: Instruction, **fields: int) -> Instruction:
    values = {field.name: instruction[field.name] for field in instruction.format.fields if field.name != "opcode"}
    return make_instruction(instruction.format, {**values, **fields})


def first_of(compiled: Compiled, mnemonic: str, layer: str) -> int:
    """The first instruction of a kind that serves a layer."""
    program = compiled.program
    return next(
        index
        for index, instruction in enumerate(program.instructions)
        if instruction.mnemonic == mnemonic and program.layers[program.provenance[index]].name == layer
    )


# -- where tensors lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", ["tiny8", pytest.param("base16", marks=pytest.mark.slow), "rect"])
@pytest.mark.parametrize("residency", ["auto", "none"])
def test_finds_every_tensor_on_chip_and_in_dram(isa: str, residency: str) -> None:
    """The nests' own interpreter knows nothing of places."""
    rng = np.random.default_rng(5)
    model = small_cnn(rng)
    options = replace(FAST, tiling=TilingOptions(residency=residency))
    network, (program,) = compile_keeping(model.SerializeToString(), load_machine(isa), options)
    inputs = random_inputs(model, rng)
    found = machine_tensors(network, [program], inputs)
    meant = run_nest_buffers(program.selection.program, inputs)
    for name, factor in program.joined.items():
        meant[name] = with_columns_apart(meant[name], factor)
    assert found.keys() == meant.keys() - inputs.keys()
    assert {name for name in found if not np.array_equal(found[name], meant[name])} == set()


# -- a right program ---------------------------------------------------------------------------------------------------


def test_compares_with_the_tensors_of_onnx_runtime(digits: tuple[onnx.ModelProto, Program, Compiled]) -> None:
    model, network, program = digits
    found = compare_values(model, network, [program], image())
    right = reference_tensors(1)[0]
    here = machine_tensors(network, [program], image())
    for tensor in found.tensors:
        if tensor.tensor in right and right[tensor.tensor].dtype == np.int8:
            wrong = here[tensor.tensor].reshape(-1).astype(int) - right[tensor.tensor].reshape(-1)
            assert tensor.accumulated.unequal == np.count_nonzero(wrong), tensor
            assert tensor.accumulated.furthest == np.abs(wrong).max(), tensor
    assert found.first is None
    limits = {tensor.layer: tensor.limit for tensor in found.tensors}
    assert {layer for layer, limit in limits.items() if limit > 1} == {"block.conv2"}  # it adds, too
    assert not found.host_nodes


def test_compares_tensors_whose_columns_are_joined() -> None:
    """Each tensor is equal to ONNX Runtime's in the model's order, whatever that of the machine is."""
    model = narrow_model()
    network, (program,) = compile_keeping(model.SerializeToString(), load_machine("wide32"), FAST)
    found = compare_values(model, network, [program], random_inputs(model, np.random.default_rng(1)))
    assert len(program.joined) == 2
    assert found.first is None
    assert {tensor.layer for tensor in found.tensors} == {"first", "second", "last"}
    (x,) = (tensor for tensor in found.tensors if tensor.layer == "first")
    assert x.isolated.unequal < 0.02 * x.values


@pytest.mark.slow
def test_a_network_with_host_parts_says_what_it_leaves_out() -> None:
    model = int8_network("ds-cnn")
    network, programs = compile_keeping(model.SerializeToString(), load_machine("base16"), FAST)
    found = compare_values(model, network, programs, random_inputs(model, np.random.default_rng(1)))
    assert found.first is None
    assert found.host_nodes == ("softmax (Softmax)",)
    assert "scores_QuantizeLinear_Output" in found.unseen
    assert len(found.tensors) == 11


def test_floats_of_few_bits_are_compared_as_numbers() -> None:
    model = quantised_network(layer_network("max_pool"), weights="e4m3", activations="e4m3")
    network, programs = compile_keeping(model, load_machine("mx16"), FAST)
    found = compare_values(model, network, programs, {"x": samples(1, seed=9)[0]})
    assert found.first is None
    assert found.tensors and not any(tensor.accumulated.unequal for tensor in found.tensors)


def test_of_floats_a_step_is_one_number_of_the_type_further() -> None:
    """One code further at the top of e4m3 is 16,384 steps of its least number, and no more than rounding explains."""
    model = quantised_network(layer_network("max_pool"), weights="e4m3", activations="e4m3")
    _, (program,) = compile_keeping(model, load_machine("mx16"), FAST)
    place = next(each for each in Watch(program).places.values() if each.memory.name == "act")
    assert place.apart(np.array([229_376, 0, -2]), np.array([212_992, 1, 2])).tolist() == [1, 1, 4]


# -- a wrong one -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken(digits: tuple[onnx.ModelProto, Program, Compiled]) -> tuple[int, Compiled, ValueComparison]:
    """One instruction of the third layer adds another zero point: (its number, the program, the comparison)."""
    model, network, program = digits
    layer = program.program.layers[2].name
    index = first_of(program, "requantize", layer)
    zero = program.program.instructions[index]["zero"]
    wrong = changed(program, index, zero=zero + 9)
    return index, wrong, compare_values(model, network, [wrong], image())


def test_names_the_instruction_at_fault(broken: tuple[int, Compiled, ValueComparison]) -> None:
    index, program, found = broken
    assert found.first is not None
    assert found.first.culprit.instruction == index
    assert found.first.layer == program.program.layers[2].name
    assert found.first.machine - found.first.expected in (8, 9, 10)
    assert found.first.culprit.fields["zero"] == program.program.instructions[index]["zero"]


def test_the_words_that_it_read_give_the_wrong_value(broken: tuple[int, Compiled, ValueComparison]) -> None:
    """What requantize does to these words, by hand."""
    _, _, found = broken
    assert found.first is not None
    lane, read = found.first.lane, {word.operand: word for word in found.first.culprit.read}
    sums, par = read["a"].elements[""], {name: values[lane] for name, values in read["p"].elements.items()}
    scaled = (sums[lane] + par["bias"]) * par["scale"] / 2 ** par["shift"]
    zero, low, high = (found.first.culprit.fields[name] for name in ("zero", "low", "high"))
    assert found.first.machine == min(max(round(scaled) + zero, low), high)
    assert read["a"].maker is not None


def test_only_the_layer_at_fault_differs_alone(broken: tuple[int, Compiled, ValueComparison]) -> None:
    _, program, found = broken
    far = {tensor.layer for tensor in found.tensors if tensor.isolated.furthest > tensor.limit}
    assert far == {program.program.layers[2].name}
    later = {layer.name for layer in program.program.layers[3:]}
    assert any(tensor.accumulated.furthest > 1 for tensor in found.tensors if tensor.layer in later)


def test_blames_who_made_a_word_and_not_who_stored_it() -> None:
    """With nothing on chip, the difference shows in DRAM."""
    options = replace(FAST, tiling=TilingOptions(residency="none"))
    network, (program,) = compile_keeping(MODEL, load_machine("base16"), options)
    index = first_of(program, "requantize", program.program.layers[0].name)
    wrong = changed(program, index, zero=program.program.instructions[index]["zero"] + 9)
    found = compare_values(onnx.load(MODEL), network, [wrong], image())
    assert found.first is not None
    assert found.first.culprit.instruction == index
    stores = [wrong.program.instructions[copy].mnemonic for copy in found.first.culprit.copied_by]
    assert stores == ["store_act"]


# -- layers in stripes -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_lies_in_pieces_is_named_once_and_the_end_of_a_chain_is_compared() -> None:
    model = block_model(height=24, width=24, channels=96, stride=2)
    machine = load_machine("dw16", ["memories.act.kib=32"])
    network, programs = compile_keeping(model.SerializeToString(), machine, FAST)
    found = compare_values(model, network, programs, random_inputs(model, np.random.default_rng(0)))
    inner = [f"{name}.q.quantize.out" for name in ("first", "expand", "depthwise")]
    assert dict(found.skipped) == dict.fromkeys(
        inner, "no memory holds all of it: it passes through its layers in stripes"
    )
    assert [(tensor.layer, tensor.values) for tensor in found.tensors] == [("project", 16 * 12 * 12)]
