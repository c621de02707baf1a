from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model
from tests.mixed_networks import sandwich
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.batches.place import ImageAxis
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.partition.images import BatchCandidate, choose
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import HostSegment, Partitioned
from tilewright.isa.program.program import Program

BASE16 = load_machine("base16")

EMPTY = Program(BASE16, (), b"", 0, (), ())


@dataclass(frozen=True)
class Taking(BatchCandidate):
    """A candidate of which the cycles are given."""

    taken: int = 0

    @property
    def cycles(self) -> int:
        return self.taken


def taking(cycles: dict[int, int]) -> list[int]:
    """The images that are tried, and last those that are chosen, where runs take these cycles."""
    tried = []

    def make(images: int) -> BatchCandidate:
        tried.append(images)
        if images not in cycles:
            raise CompileError("layer a", "does not fit")
        return Taking(images, EMPTY, {}, (), cycles[images])

    chosen, _ = choose(8, make)
    return [*tried, chosen.images]


def test_takes_all_images_where_that_is_no_slower_for_each() -> None:
    assert taking({1: 100, 8: 800}) == [1, 8, 8]


def test_takes_half_of_them_where_all_are_slower() -> None:
    assert taking({1: 100, 8: 801, 4: 300}) == [1, 8, 4, 4]


def test_takes_one_after_another_where_any_more_are_slower() -> None:
    assert taking({1: 100, 8: 801, 4: 401, 2: 201}) == [1, 8, 4, 2, 1]


def test_takes_fewer_where_all_do_not_fit() -> None:
    assert taking({1: 100, 2: 200}) == [1, 8, 4, 2, 2]


def test_says_what_runs_take_and_why_there_are_fewer_images() -> None:
    cycles = {1: 1000, 8: 9000, 4: 3600}
    _, remark = choose(8, lambda images: Taking(images, EMPTY, {}, (), cycles[images]))
    assert remark == (
        "4 images in each run of 3,600 cycles, 900 for each image; one alone takes 1,000; "
        "with 8 in a run, they would take 1,125 each"
    )


def test_other_parts_on_the_host_are_refused() -> None:
    network = compile_partitioned(sandwich(), BASE16, Options(effort=0))
    assert isinstance(network, Partitioned)
    fewer = replace(network, segments=network.segments[1:])

    def make(images: int) -> BatchCandidate:
        return Taking(images, network if images == 1 else fewer, {}, (), images)

    chosen, remark = choose(2, make)
    assert chosen.images == 1
    assert remark == "1 image in each run of 1 cycles; with 2 in a run, the host would compute other nodes"


def test_tensors_in_another_order_are_not_given_to_the_host() -> None:
    network = compile_partitioned(sandwich(), BASE16, Options(effort=0))
    places = {
        name: ImageAxis(0, outer=2) for segment in network.segments for name in (*segment.inputs, *segment.outputs)
    }  # type: ignore[union-attr]
    chosen, remark = choose(2, lambda images: Taking(images, network, places, (), images))
    assert chosen.images == 1
    assert remark.endswith("would not have image after image for the host")


def test_the_host_has_the_parts_of_one_image() -> None:
    model = sandwich()
    one, many = (compile_partitioned(model, BASE16, Options(effort=0, batch=batch)) for batch in (1, 3))
    assert isinstance(one, Partitioned)
    assert isinstance(many, Partitioned)
    assert (one.images, many.images) == (1, 3)
    hosts = [[part.onnx for part in of.segments if isinstance(part, HostSegment)] for of in (one, many)]
    assert hosts[0]
    assert hosts[0] == hosts[1]


def test_one_image_gives_the_same_program_as_no_batch() -> None:
    model = conv_model(np.random.default_rng(0), 3, 8, 6, 3)
    plain, one = (compile_partitioned(model, BASE16, Options(effort=0, batch=batch)) for batch in (None, 1))
    assert isinstance(one, Program)
    assert (plain.images, one.images) == (None, 1)
    assert replace(one, images=None, metadata=plain.metadata) == plain


def test_the_passes_of_the_network_that_is_taken_are_handed_on() -> None:
    seen: list[str] = []
    model = conv_model(np.random.default_rng(0), 3, 8, 6, 3)
    compile_partitioned(model, BASE16, Options(effort=0, batch=2), lambda name, text: seen.append(name))
    assert seen.count("emit") == 1


@pytest.mark.parametrize(
    ("shapes", "fact"),
    [
        ([[2, 4], [3, 4]], "its inputs have no first dimension in common that could be the batch: 'a' is [2, 4], "),
        ([[], []], "its inputs have no first dimension in common that could be the batch: 'a' is [], 'b' is []"),
    ],
)
def test_inputs_without_a_common_first_size_have_no_batch(shapes: list[list[int]], fact: str) -> None:
    nodes = [onnx.helper.make_node("Identity", [name], [f"{name}.out"]) for name in "ab"]
    ends = [
        [
            onnx.helper.make_tensor_value_info(name + end, onnx.TensorProto.FLOAT, shape)
            for name, shape in zip("ab", shapes, strict=True)
        ]
        for end in ("", ".out")
    ]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", *ends))
    with pytest.raises(CompileError) as error:
        compile_partitioned(model, BASE16, Options(batch=2))
    assert fact in str(error.value)


def test_an_output_that_depends_on_no_image_is_named() -> None:
    node = onnx.helper.make_node("Identity", ["c"], ["y"])
    other = onnx.helper.make_node("Identity", ["x"], ["z"])
    ends = [
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in names]
        for names in ("x", "yz")
    ]
    constant = onnx.numpy_helper.from_array(np.zeros((1, 2), np.float32), "c")
    model = onnx.helper.make_model(onnx.helper.make_graph([node, other], "g", *ends, [constant]))
    with pytest.raises(CompileError, match="output 'y' depends on no image; compile it without --batch"):
        compile_partitioned(model, BASE16, Options(batch=2))
