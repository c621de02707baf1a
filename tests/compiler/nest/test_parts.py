"""Inputs that a Concat joins with other tensors are read where the host puts them, and the bits are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv
from tests.compiler.nests import INT8, activation
from tests.compiler.pipelines import base16, compiled_distances, copies_left, lowered, simulated
from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.network import SPACE, affine, result_loops
from tilewright.compiler.nest.batches import batches
from tilewright.compiler.nest.copies import copies
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import Access, Affine, Buffer, BufferPart, Nest, NestProgram
from tilewright.compiler.nest.parts import parts
from tilewright.compiler.nest.text import print_nests
from tilewright.compiler.pipeline import resume
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Tensor

LOW = -128


def left(model: onnx.ModelProto) -> tuple[int, int]:
    before = fuse(copies(batches(lowered(model)), base16()))
    return copies_left(before, parts(before, base16()), model)


def joined(
    shapes: Sequence[Sequence[int]], axis: int, kernel: int = 1, computed: int = 1, is_output: bool = False
) -> onnx.ModelProto:
    """Inputs, the first so many of them after a MaxPool, the others as they are, joined; and a convolution of all."""
    builder = ModelBuilder(np.random.default_rng(2))
    parts = []
    for i, shape in enumerate(shapes):
        x = builder.quantize(builder.input(f"x{i}", shape), 0.1, LOW, name=f"x{i}.q")
        if i < computed:
            x = builder.node("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
            x = builder.quantize(x, 0.1, LOW, name=f"p{i}.q")
        parts.append(x)
    y = builder.quantize(builder.node("Concat", parts, name="concat", axis=axis), 0.1, LOW, name="y.q")
    channels = sum(shape[1] for shape in shapes) if axis == 1 else shapes[0][1]
    builder.output(add_conv(builder, y, channels, 8, kernel, pads=[kernel // 2] * 4, name="conv"))
    if is_output:
        builder.output(y, "y")
    return builder.build("joined")


SIDE_BY_SIDE = [
    pytest.param(joined([(2, 20, 6, 5), (2, 20, 4, 5)], 2, kernel=3), id="rows"),
    pytest.param(joined([(2, 20, 6, 5), (2, 20, 6, 3)], 3, kernel=3), id="columns"),
    pytest.param(joined([(1, 16, 6, 5), (1, 20, 6, 5)], 1, kernel=3), id="channels"),
    pytest.param(joined([(1, 16, 6, 5), (1, 48, 6, 5), (1, 16, 6, 5)], 1, kernel=3, computed=2), id="three"),
    pytest.param(joined([(1, 16, 6, 5), (1, 16, 2, 5)], 2, kernel=3, computed=0), id="nothing computed"),
]


@pytest.mark.parametrize("model", SIDE_BY_SIDE)
def test_an_input_beside_other_tensors_is_not_copied(model: onnx.ModelProto) -> None:
    before, after = left(model)
    assert before > 0
    assert after == 0


@pytest.mark.parametrize("overrides", [[], ["memories.act.kib=2"]], ids=["on chip", "in DRAM"])
@pytest.mark.parametrize("model", SIDE_BY_SIDE)
def test_what_is_joined_is_read_on_chip_and_in_dram(model: onnx.ModelProto, overrides: list[str]) -> None:
    assert compiled_distances(model, "base16", overrides=overrides).max() <= 1


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(joined([(1, 16, 6, 5), (1, 16, 2, 5)], 2, is_output=True), id="an output is in one place"),
    ],
)
def test_what_the_host_needs_in_one_place_stays_a_copy(model: onnx.ModelProto) -> None:
    before, after = left(model)
    assert before == after > 0
    assert compiled_distances(model, "base16").max() <= 1


@pytest.mark.parametrize(
    ("first", "size", "count"),
    [
        (16, 16, 1),
        (8, 16, 0),  # its words begin in another's
        (16, 8, 1),  # lanes 8 to 15 are nobody's
        (0, 8, 0),  # the other's are
    ],
)
def test_a_word_has_channels_of_one_buffer(first: int, size: int, count: int) -> None:
    """Beside channels 8 to 15, which a nest computes."""
    index, shape = [affine((loop, 1)) for loop in SPACE], (1, size, 2, 2)
    channels = {"a": 8, "x": size, "j": 32}
    buffers = {name: Buffer(name, (1, count, 2, 2), INT8) for name, count in channels.items()}

    def nest(source: str, count: int, at: int) -> Nest:
        target = Access("j", (index[0], affine(("o", 1), constant=at), *index[2:]))
        return Nest(
            source, (), result_loops((1, count, 2, 2)), {"a": Access(source, tuple(index))}, target, activation("a"), 0
        )

    hosts = (Tensor("x", shape, shape, "int8", 1.0, 0, 0, 0),)
    before = NestProgram("hand", (nest("a", 8, 8), nest("x", size, first)), buffers, {}, {}, hosts, ())
    assert len(parts(before, base16()).buffers["j"].parts) == count


def step(places: int, tokens: int, is_key: bool) -> onnx.ModelProto:
    """Rows of two heads times a cache of so many places and, behind it, tokens: q · kᵀ if `is_key`, p · v if not."""
    heads, features = 2, 24
    builder = ModelBuilder(np.random.default_rng(0))
    cache = builder.quantize(builder.input("cache", (1, heads, places, features)), 0.1, 5)
    own = builder.quantize(builder.input("token", (1, heads, tokens, features)), 0.1, 5)
    own = builder.quantize(builder.node("Sigmoid", [own]), 0.1, 5)
    joint = builder.quantize(builder.node("Concat", [cache, own], name="joint", axis=2), 0.1, 5)
    row = builder.quantize(builder.input("row", (1, heads, 3, features if is_key else places + tokens)), 0.1)
    if is_key:
        joint = builder.quantize(builder.node("Transpose", [joint], name="turned", perm=[0, 1, 3, 2]), 0.1, 5)
    builder.output(builder.quantize(builder.node("MatMul", [row, joint], name="product"), 3.0))
    return builder.build("step")


@pytest.mark.parametrize("is_key", [True, False], ids=["keys", "values"])
@pytest.mark.parametrize(("places", "tokens"), [(64, 1), (60, 1), (30, 5), (5, 2), (130, 20)])
def test_a_product_reads_a_cache_and_what_is_beside_it(places: int, tokens: int, is_key: bool) -> None:
    model = step(places, tokens, is_key)
    assert left(model)[1] < left(model)[0]
    assert compiled_distances(model, "sequence16").max() <= 1


def program(first: Affine, size: int = 4, outside: int | None = None) -> NestProgram:
    """An input of `size` columns, the first 4 of which are copied to a buffer of 8, from an index on."""
    index = [affine((loop, 1)) for loop in SPACE]
    shapes = {"x": (1, 16, 1, size), "j": (1, 16, 1, 8), "y": (1, 16, 1, 8)}
    buffers = {name: Buffer(name, shape, INT8) for name, shape in shapes.items()}
    read, whole = Access("x", tuple(index), outside), Access("j", tuple(index))
    nests = (
        Nest(
            "copy", (), result_loops((1, 16, 1, 4)), {"a": read}, Access("j", (*index[:3], first)), activation("a"), 0
        ),
        Nest("use", (), result_loops(shapes["y"]), {"a": whole}, Access("y", tuple(index)), activation("a"), 0),
    )
    hosts = [Tensor(name, shapes[name], shapes[name], "int8", 1.0, 0, 0, 0) for name in ("x", "y")]
    return NestProgram("hand", nests, buffers, {}, {}, (hosts[0],), (hosts[1],))


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (program(affine(("x", 1), constant=3)), (BufferPart("x", (0, 0, 0, 3)),)),
        (program(affine(("x", 2))), ()),  # every second column
        (program(affine(("x", 1)), size=6), ()),  # not all of the input
        (program(affine(("x", 1)), outside=0), ()),
    ],
)
def test_parts_are_whole_inputs_side_by_side(before: NestProgram, expected: tuple[BufferPart, ...]) -> None:
    assert parts(before, base16()).buffers["j"].parts == expected


def test_an_input_of_another_type_is_no_part() -> None:
    before = program(affine(("x", 1)))
    wide = replace(before.buffers["j"], type=load_machine("base16").memories["acc"].element.type)
    assert (
        not parts(replace(before, buffers={**before.buffers, "j": wide}), base16()).buffers["j"].parts
    )


def product(cached: int, own: int, is_transposed: bool) -> Graph:
    """A product of vectors with a matrix [2, …, 1, cached + own]; what follows the cache is computed."""
    length = cached + own
    sizes = (20, 30, length) if is_transposed else (length, 30, 40)  # summed, pixels, channels of the result
    summed, pixels, channels = sizes
    words = summed if is_transposed else channels
    shapes = {
        "a": (2, summed, 1, pixels),
        "cache": (2, words, 1, cached),
        "token": (2, words, 1, own),
        "own": (2, words, 1, own),
        "b": (2, words, 1, length),
        "y": (2, channels, 1, pixels),
    }
    steps = dict.fromkeys(("a", "cache", "own", "b"), 0.1) | {"token": 0.07, "y": 2.0}
    tensors = {name: TensorType("int8", shape, Quantization((steps[name],), (5,))) for name, shape in shapes.items()}
    limits = {"low": -128, "high": 127}
    given = {"is_transposed": is_transposed, "factor": 1.0, **limits}
    operators = (
        Operator("rescale", "rescale", ("token",), ("own",), limits, ("rescale",)),
        Operator("joint", "concat", ("cache", "own"), ("b",), {"axis": 3}, ("joint",)),
        Operator("product", "product", ("a", "b"), ("y",), given, ("product",)),
    )
    return Graph("step", operators, tensors, {}, ("a", "cache", "token"), {"y": "y"}, 13)


@pytest.mark.parametrize("is_transposed", [False, True], ids=["straight", "transposed"])
@pytest.mark.parametrize(("cached", "own"), [(64, 1), (60, 30), (5, 2), (130, 20)])
def test_tiles_of_a_matrix_are_loaded_from_both(cached: int, own: int, is_transposed: bool) -> None:
    """A weight tile may begin in the cache and end behind it, whichever way the tensor's words lie in it."""
    machine = base16()
    nests = lower(product(cached, own, is_transposed), machine)
    assert parts(nests, machine).buffers["b"].parts == (BufferPart("cache", (0, 0, 0, 0)),)
    rng = np.random.default_rng(cached)
    inputs = {each.name: rng.integers(-128, 128, each.shape).astype(np.int8) for each in nests.inputs}
    program = resume("lower", print_nests(nests), machine)
    np.testing.assert_array_equal(simulated(program, inputs)["y"], run_nests(nests, inputs)["y"])
