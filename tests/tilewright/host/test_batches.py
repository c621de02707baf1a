from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import tilewright
from tests.digits import MODEL, images, reference_logits
from tests.mixed_networks import sandwich
from tests.tilewright.command_line import Command
from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.host.batches import Batches
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.program.program import Program as Binary
from tilewright.profiles.report import headline
from tilewright.program import Program
from tilewright.simulator.run_profile import profile_from_json


@pytest.fixture(scope="module")
def single() -> Program:
    return tilewright.compile(MODEL, "base16", effort=0)


@pytest.fixture(scope="module")
def triple() -> Program:
    return tilewright.compile(MODEL, "base16", effort=0, batch=3)


def test_runs_take_as_many_images_as_the_program_says(triple: Program) -> None:
    assert triple.images == 3
    assert [value.shape for value in (*triple.inputs, *triple.outputs)] == [(3, 1, 8, 8), (3, 10)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_number_of_images_gives_what_each_gives_alone(single: Program, triple: Program, count: int) -> None:
    given = {"image": images()[:count]}
    expected = np.concatenate([single.run({"image": image[None]}).outputs["logits"] for image in images()[:count]])
    for program in (single, triple):
        assert np.array_equal(program.run(given).outputs["logits"], expected)


def test_the_last_run_is_filled_up_with_zeros_that_are_dropped(triple: Program) -> None:
    result = triple.run({"image": images()[:7]})
    assert (result.batches, result.batches.runs, result.batches.padding) == (Batches(7, 3), 3, 2)
    assert result.profile is not None
    assert result.cycles == 3 * result.profile["cycles"]
    assert result.cycles_per_image == result.cycles / 7


def test_the_interpreter_takes_several_images(single: Program) -> None:
    result = single.run({"image": images()[:2]}, on="interpreter")
    assert np.array_equal(result.outputs["logits"], reference_logits()[:2])
    assert (result.cycles, result.cycles_per_image) == (None, None)


def test_a_network_with_nodes_on_the_host_takes_any_number_of_images() -> None:
    model = sandwich()
    single, pair = (tilewright.compile(model, "base16", effort=0, batch=batch) for batch in (None, 2))
    assert pair.images == 2
    assert pair.host_nodes
    assert pair.check() == ()
    shapes = {value.name: value for value in single.inputs}
    rng = np.random.default_rng(1)
    given = {name: rng.normal(size=(5, *value.shape[1:])).astype(value.dtype) for name, value in shapes.items()}
    alone = [single.run({name: array[at : at + 1] for name, array in given.items()}).outputs for at in range(5)]
    for program in (single, pair):
        for name, found in program.run(given).outputs.items():
            assert np.array_equal(found, np.concatenate([each[name] for each in alone]))


def test_profiles_have_cycles_for_each_image(triple: Program) -> None:
    profile = triple.profile()
    assert (profile["images"], profile["cycles_per_image"]) == (3, profile["cycles"] / 3)
    assert f"cycles for 3 images, {profile['cycles'] / 3:,.0f} each on base16" in headline(triple.run_profile())[0]


def test_a_profile_of_before_is_of_no_known_number_of_images(single: Program) -> None:
    of_before = {key: value for key, value in single.profile().items() if key not in ("images", "cycles_per_image")}
    assert profile_from_json(of_before).images is None


def test_a_program_of_no_batch_says_nothing_of_images(single: Program) -> None:
    assert single.images is None
    assert b'"images"' not in single.to_bytes()


def test_the_images_of_a_run_are_in_the_file_and_in_the_text(triple: Program, tmp_path: Path) -> None:
    triple.save(tmp_path / "net.npu")
    assert Program.load(tmp_path / "net.npu").images == 3
    text = disassemble(triple.binary)
    assert ".images 3\n" in text
    assert assemble(text, triple.machine, "text") == triple.binary


@pytest.mark.parametrize("count", [2, 4, 6])
def test_a_file_whose_inputs_hold_other_numbers_of_images_is_refused(
    triple: Program, count: int, tmp_path: Path
) -> None:
    path = tmp_path / "net.npu"
    path.write_bytes(to_bytes(replace(triple.binary, images=count)))
    with pytest.raises(IsaError, match=rf"input 'image' is \[3, 1, 8, 8\], which does not hold {count} images"):
        Program.load(path)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 1, 8, 8), "the inputs are of no images; give at least one"),
        ((2, 1, 8, 9), "input 'image' has shape [2, 1, 8, 9]; the model takes [1, 1, 8, 8]: reshape it"),
        ((1, 8, 8), "input 'image' has shape [1, 8, 8]; the model takes [1, 1, 8, 8]: reshape it"),
    ],
)
def test_other_arrays_are_refused(single: Program, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        single.run({"image": np.zeros(shape, np.float32)})
    assert str(error.value) == message


def two_inputs(first: int, flattens: bool = False) -> onnx.ModelProto:
    nodes = [onnx.helper.make_node("Sub", ["a", "b"], ["y"])]
    if flattens:
        nodes = [onnx.helper.make_node("Sub", ["a", "b"], ["d"]), onnx.helper.make_node("Reshape", ["d", "s"], ["y"])]
    values = {
        name: onnx.helper.make_tensor_value_info(
            name, onnx.TensorProto.FLOAT, [4] if flattens and name == "y" else [first, 4]
        )
        for name in "aby"
    }
    sizes = onnx.numpy_helper.from_array(np.array([-1]), "s")
    graph = onnx.helper.make_graph(nodes, "g", [values["a"], values["b"]], [values["y"]], [sizes] if flattens else [])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])


def host_program(model: onnx.ModelProto, batch: int | None = None) -> Program:
    from tilewright.compiler.options import Options
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.isa.files.loader import load_machine

    return Program(compile_partitioned(model, load_machine("base16"), Options(batch=batch), host_floats=True))


def test_inputs_of_different_numbers_of_images_are_refused() -> None:
    given = {"a": np.zeros((3, 4), np.float32), "b": np.zeros((2, 4), np.float32)}
    with pytest.raises(
        InputError, match="the inputs are of different numbers of images: 'a' 3, 'b' 2; give as many of"
    ):
        host_program(two_inputs(1)).run(given)


def test_a_first_dimension_of_which_nothing_is_known_is_not_cut() -> None:
    given = {name: np.zeros((6, 4), np.float32) for name in "ab"}
    message = (
        "input 'a' has 6 as its first size; the model takes [2, 4], and was not compiled for any number of images: "
        "compile it with --batch"
    )
    with pytest.raises(InputError) as error:
        host_program(two_inputs(2)).run(given)
    assert str(error.value) == message


def test_a_first_dimension_of_a_batch_is_cut() -> None:
    rng = np.random.default_rng(0)
    given = {name: rng.normal(size=(5, 4)).astype(np.float32) for name in "ab"}
    program = host_program(two_inputs(2), batch=4)
    assert program.images in (1, 2, 4)
    assert np.array_equal(program.run(given).outputs["y"], given["a"] - given["b"])


def test_outputs_that_cannot_be_put_together_take_one_image() -> None:
    given = {name: np.zeros((3, 4), np.float32) for name in "ab"}
    with pytest.raises(
        InputError, match=r"output 'y' is \[4\], so that those of several images cannot be put together"
    ):
        host_program(two_inputs(1, flattens=True)).run(given)


def test_outputs_of_several_rows_for_each_image_are_put_together_in_a_batch() -> None:
    rng = np.random.default_rng(0)
    given = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in "ab"}
    found = host_program(two_inputs(1, flattens=True), batch=2).run(given).outputs["y"]
    assert np.array_equal(found, (given["a"] - given["b"]).ravel())


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_of_no_images_is_refused(batch: int) -> None:
    with pytest.raises(InputError, match=f"a batch of {batch} images; expected 1 or more"):
        tilewright.compile(MODEL, "base16", batch=batch)


def test_sizes_of_another_number_of_images_contradict_a_batch() -> None:
    with pytest.raises(CompileError, match="is of 4 images, and --batch of 3; give one image, 1x…"):
        tilewright.compile(open_model(), "base16", shapes={"a": (4, 4)}, batch=3)


def open_model() -> onnx.ModelProto:
    model = two_inputs(1)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    return model


def test_an_open_first_size_is_that_of_the_images() -> None:
    assert [value.shape for value in host_program(open_model(), batch=3).inputs] == [(3, 4), (3, 4)]


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program_file(triple: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batch") / "net.npu"
    triple.save(path)
    return path


def arrays(folder: Path, count: int) -> Path:
    path = folder / "in.npz"
    np.savez(path, image=images()[:count])
    return path


def test_run_says_images_runs_and_padding(tilewright: Command, program_file: Path, tmp_path: Path) -> None:
    ended = tilewright("run", program_file, "--input", arrays(tmp_path, 7), "--json", tmp_path / "run.json")
    value = json.loads((tmp_path / "run.json").read_text())
    assert (value["images"], value["runs"], value["padding"]) == (7, 3, 2)
    assert value["cycles_per_image"] == value["cycles"] / 7
    assert value["outputs"][0]["shape"] == [7, 10]
    said = f"net.npu on sim, 7 images in 3 runs of 3 and 2 of zeros to fill the last: {value['cycles']:,} cycles, "
    assert said in " ".join(ended.out.split()) + " "


def test_compile_writes_latency_and_throughput(tilewright: Command, tmp_path: Path) -> None:
    words = ("--isa", "base16", "--effort", 0, "--batch", 2, "-o", tmp_path / "net.npu", "--json", "-")
    batch = json.loads(tilewright("compile", MODEL, *words).out)["batch"]
    assert batch == {"images": 2, "cycles": batch["cycles"], "cycles_per_image": batch["cycles"] / 2}


@pytest.mark.parametrize("batch", ["0", "abc", "-3"])
def test_a_batch_that_is_no_number_from_one_on_is_wrong_usage(tilewright: Command, batch: str, tmp_path: Path) -> None:
    ended = tilewright("compile", MODEL, "--isa", "base16", "--batch", batch, "-o", tmp_path / "net.npu")
    assert ended.code == 2
    assert "--batch" in ended.err
    assert not (tmp_path / "net.npu").exists()


def test_waves_are_of_one_run(tilewright: Command, program_file: Path, tmp_path: Path) -> None:
    words = ("--on", "rtl", "--waves", tmp_path / "out.vcd")
    ended = tilewright("run", program_file, "--input", arrays(tmp_path, 7), *words)
    assert ended.code == 1
    assert ended.err.endswith("error: --waves and --dump-tensors are of one run: give 3 images, not 7\n")
    assert not (tmp_path / "out.vcd").exists()


def test_explain_says_cycles_for_each_image(tilewright: Command, program_file: Path) -> None:
    assert " cycles for 3 images, " in " ".join(tilewright("explain", program_file).out.split())


def test_the_other_program_of_a_profile_may_take_another_number_of_images(
    tilewright: Command, program_file: Path, single: Program, tmp_path: Path
) -> None:
    single.save(tmp_path / "one.npu")
    ended = tilewright("profile", program_file, "--against", tmp_path / "one.npu")
    assert "(3 in a run); " in ended.out


def test_binaries_of_one_image_hold_no_number(single: Program) -> None:
    assert isinstance(single.network, Binary)
    assert ".images" not in disassemble(single.binary)
