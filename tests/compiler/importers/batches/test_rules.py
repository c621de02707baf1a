"""Operators through which images stay apart: a batch gives, by ONNX's reference evaluator, what each image gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.batches.rules import FUNCTIONS, OF_SEVERAL, REDUCTIONS, RULES
from tilewright.compiler.partition.source import read_source

IMAGES = 3

Constants = Mapping[str, Any]
"""By name: values, or the shape of random ones."""

IMAGE = (1, 4, 6, 6)

LOGICAL, BITWISE = ("And", "Or", "Xor"), ("BitwiseAnd", "BitwiseOr", "BitwiseXor")

SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")

NO_EVALUATOR = ("RMSNormalization", "Swish")
"""Operators of newer opsets than the one written here."""

CASES: tuple[tuple[tuple[int, ...], Sequence[str], Constants], ...] = (
    *(((1, 5), [f"y = {name}(x)"], {}) for name in FUNCTIONS if name not in ("Cast", "Not", "IsInf", "IsNaN", "Swish")),
    ((1, 5), ["a = IsNaN(x)", "b = IsInf(x)", "c = Or(a, b)", "d = Not(c)", "y = Cast<to = 1>(d)"], {}),
    *(
        ((1, 5), [f"y = {name}(x, c)"], {"c": (5,)})
        for name in OF_SEVERAL
        if name not in (*LOGICAL, *BITWISE, "BitShift", "Where", "Mod")
    ),
    ((1, 5), ["y = Mod<fmod = 1>(x, c)"], {"c": np.float32([2, 3, 4, 5, 6])}),
    *(((1, 5), ["b = Greater(x, c)", f"z = {name}(b, b)", "y = Cast<to = 1>(z)"], {"c": (1,)}) for name in LOGICAL),
    *(
        ((1, 5), ["b = Cast<to = 3>(x)", f"z = {name}(b, c)", "y = Cast<to = 1>(z)"], {"c": np.int8([1, 2, 3, 4, 5])})
        for name in BITWISE
    ),
    (
        (1, 5),
        ["b = Cast<to = 2>(x)", 'z = BitShift<direction = "LEFT">(b, c)', "y = Cast<to = 1>(z)"],
        {"c": np.uint8([1])},
    ),
    ((1, 5), ["b = Greater(x, c)", "y = Where(b, x, c)"], {"c": (1, 5)}),
    ((1, 4, 5), ["z = Reshape(x, s)", "w = Add(z, c)", "y = Reshape(w, t)"], {"s": [4, 5], "t": [1, 20], "c": (4, 1)}),
    (IMAGE, ["y = Conv<pads = [1, 1, 1, 1]>(x, w)"], {"w": (8, 4, 3, 3)}),
    ((1, 7, 4), ["a = Transpose<perm = [1, 2, 0]>(x)", "b = Conv(a, w)", "y = Transpose<perm = [2, 0, 1]>(b)"],
     {"w": (8, 4, 1)}),
    (IMAGE, ["y = ConvTranspose<strides = [2, 2]>(x, w)"], {"w": (4, 2, 2, 2)}),
    (IMAGE, ["i = Cast<to = 2>(x)", "z = ConvInteger(i, w)", "y = Cast<to = 1>(z)"],
     {"w": np.ones((2, 4, 3, 3), np.uint8)}),
    (IMAGE, ["i = Cast<to = 2>(x)", "z = QLinearConv(i, s, q, w, s, q, s, q)", "y = Cast<to = 1>(z)"],
     {"w": np.ones((2, 4, 3, 3), np.uint8), "s": np.float32(1), "q": np.uint8(0)}),
    *((IMAGE, [f"y = {name}<kernel_shape = [2, 2]>(x)"], {}) for name in ("MaxPool", "AveragePool", "LpPool")),
    *((IMAGE, [f"y = Global{name}Pool(x)"], {}) for name in ("Average", "Max")),
    (IMAGE, ["y = InstanceNormalization(x, c, c)"], {"c": (4,)}),
    (IMAGE, ["y = GroupNormalization<num_groups = 2>(x, c, c)"], {"c": (4,)}),
    (IMAGE, ["y = DepthToSpace<blocksize = 2>(x)"], {}),
    (IMAGE, ["y = SpaceToDepth<blocksize = 2>(x)"], {}),
    (IMAGE, ["y = BatchNormalization(x, c, c, c, d)"], {"c": (4,), "d": np.ones(4, np.float32)}),
    (IMAGE, ["q = QuantizeLinear<axis = 1>(x, s)", "y = DequantizeLinear<axis = 1>(q, s)"],
     {"s": np.float32([0.1, 0.2, 0.3, 0.4])}),
    ((1, 4, 5), ["z = Reshape(x, t)", "q = QuantizeLinear<axis = 0>(z, s)", "d = DequantizeLinear<axis = 0>(q, s)",
                 "y = Reshape(d, u)"],
     {"t": [4, 5], "u": [1, 20], "s": np.float32([0.1, 0.2, 0.3, 0.4])}),
    *(((1, 3, 5), [f"y = {name}<axis = {axis}>(x)"], {}) for name in SOFTMAXES for axis in (1, -1)),
    ((1, 3, 5), ["y = LayerNormalization<axis = 1>(x, c, c)"], {"c": (3, 5)}),
    ((1, 3, 5), ["y = LpNormalization<axis = 1>(x)"], {}),
    ((1, 3, 5), ["y, i = TopK<axis = 1>(x, k)"], {"k": [2]}),
    ((1, 3, 5), ["y = CumSum(x, k)"], {"k": np.int64(1)}),
    *(((1, 3, 5), [f"y = Reduce{name}<keepdims = {keep}>(x, a)"], {"a": [-1]})
      for name in REDUCTIONS for keep in (0, 1)),
    *(((1, 3, 5), [f"z = Arg{name}<axis = 2, keepdims = 0>(x)", "y = Cast<to = 1>(z)"], {}) for name in ("Max", "Min")),
    ((1, 3, 5), ["a = Transpose<perm = [2, 1, 0]>(x)", "b = ReduceSum<keepdims = 0>(a, k)",
                 "y = Transpose<perm = [1, 0]>(b)"],
     {"k": [0]}),
    ((1, 3, 5), ["y = Dropout(x)"], {}),
    ((1, 3, 5), ["e = Expand(c, s)", "y = Concat<axis = 1>(e, x)"], {"c": (1, 1, 5), "s": [1, 1, 5]}),
    ((1, 3, 5), ["q = QuantizeLinear(c, s)", "d = DequantizeLinear(q, s)", "y = Concat<axis = 1>(d, x)"],
     {"c": (1, 1, 5), "s": np.float32(0.1)}),
    ((1, 3, 5), ["e = Expand(x, s)", "y = Transpose<perm = [1, 0, 2, 3]>(e)"], {"s": [2, 1, 3, 5]}),
    ((1, 1, 5), ["y = Expand(x, s)"], {"s": [1, 4, 5]}),
    ((1, 1, 5), ["y = Tile(x, s)"], {"s": [1, 4, 1]}),
    ((1, 3, 5), ["y = Flatten<axis = 2>(x)"], {}),
    ((1, 3, 5), ["a = Flatten<axis = 0>(x)", "y = Reshape(a, s)"], {"s": [1, 15]}),
    ((1, 6, 5), ["y = Gather<axis = 1>(x, i)"], {"i": np.int64([[0, 2], [3, 5]])}),
    ((1, 6, 5), ["i = ArgMax<axis = 2, keepdims = 0>(x)", "y = Gather(c, i)"], {"c": (5, 2)}),
    ((1, 5), ["y = Gemm<transB = 1>(x, w, c)"], {"w": (3, 5), "c": (3,)}),
    ((1, 5), ["a = Transpose(x)", "b = Gemm(w, a)", "y = Transpose(b)"], {"w": (3, 5)}),
    ((1, 5), ["a = Transpose(x)", "y = Gemm<transA = 1>(a, w)"], {"w": (5, 3)}),
    ((1, 3, 5), ["y = MatMul(x, w)"], {"w": (5, 4)}),
    ((1, 3, 5), ["y = MatMul(w, x)"], {"w": (4, 3)}),
    ((1, 3, 5), ["t = Transpose<perm = [0, 2, 1]>(x)", "y = MatMul(x, t)"], {}),
    ((1, 6, 5), ["a = Reshape(x, s)", "b = MatMul(a, w)", "c = Add(b, d)", "y = Reshape(c, t)"],
     {"s": [2, 3, 5], "t": [1, 6, 4], "w": (2, 5, 4), "d": (2, 1, 4)}),
    ((1, 5), ["i = Cast<to = 2>(x)", "z = MatMulInteger(i, w, q, q)", "y = Cast<to = 1>(z)"],
     {"w": np.ones((5, 3), np.uint8), "q": np.uint8(1)}),
    ((1, 5), ["i = Cast<to = 2>(x)", "z = QLinearMatMul(i, s, q, w, s, q, s, q)", "y = Cast<to = 1>(z)"],
     {"w": np.ones((5, 3), np.uint8), "s": np.float32(1), "q": np.uint8(1)}),
    (IMAGE, ["y = Pad(x, p)"], {"p": [0, 0, 1, 2, 0, 0, 1, 0]}),
    (IMAGE, ['y = Resize<mode = "nearest">(x, , f)'], {"f": np.float32([1, 1, 2, 2])}),
    (IMAGE, ['y = Resize<mode = "linear">(x, , , s)'], {"s": [1, 4, 9, 7]}),
    ((1, 3, 5), ["y = Slice(x, a, b)"], {"a": [0, 1], "b": [2**31 - 1, 3]}),
    ((1, 3, 5), ["t = Transpose<perm = [1, 0, 2]>(x)", "r = Reshape(t, s)", "a = Slice(r, one, three)",
                 "y = Reshape(a, u)"], {"s": [3, 5], "one": [0], "three": [1], "u": [1, 5]}),
    ((1, 3, 5), ["t = Transpose<perm = [1, 0, 2]>(x)", "r = Reshape(t, s)", "a, b = Split(r, p)",
                 "c = Concat<axis = 0>(b, a)", "d = Reshape(c, u)", "y = Transpose<perm = [1, 0, 2]>(d)"],
     {"s": [3, 5], "p": [1, 2], "u": [3, 1, 5]}),
    ((1, 4, 5), ["a, b = Split<axis = 1, num_outputs = 2>(x)", "y = Sub(a, b)"], {}),
    ((1, 1, 5), ["y = Squeeze(x, a)"], {"a": [1]}),
    ((1, 5), ["y = Unsqueeze(x, a)"], {"a": [1, -1]}),
    *(
        ((1, 4, 3),
         ["a = Transpose<perm = [1, 0, 2]>(x)", f"h = {name}<hidden_size = 2>(a, w, r, , , i)",
          "y = Transpose<perm = [2, 0, 1, 3]>(h)"],
         {"w": (1, 2 * gates, 3), "r": (1, 2 * gates, 2), "i": (1, 1, 2)})
        for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
    ),
)  # fmt: skip
"""The shape of x, the nodes, the constants."""


def model_of(shape: Sequence[int], nodes: Sequence[str], constants: Constants) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    values: dict[str, NDArray[Any]] = {}
    for name, given in constants.items():
        if isinstance(given, tuple):
            values[name] = rng.uniform(0.5, 2.0, given).astype(np.float32)
        else:
            values[name] = np.asarray(given)
    graph = helper.make_graph(
        [parser.parse_node(text) for text in nodes],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def batched(model: onnx.ModelProto, images: int = IMAGES) -> onnx.ModelProto:
    return read_source(model.SerializeToString(), batch=images).model


@pytest.mark.filterwarnings("ignore:invalid value")  # of functions beyond where they are defined
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[1]))
def test_a_batch_gives_what_each_image_gives(case: tuple[tuple[int, ...], Sequence[str], Constants]) -> None:
    model = model_of(*case)
    images = np.random.default_rng(1).uniform(0.3, 5.0, (IMAGES, *case[0][1:])).astype(np.float32)
    alone = ReferenceEvaluator(model)
    expected = [alone.run(["y"], {"x": image[None]})[0] for image in images]
    (found,) = ReferenceEvaluator(batched(model)).run(["y"], {"x": images})
    assert np.allclose(found, np.concatenate(expected), rtol=1e-6, atol=1e-6, equal_nan=True)


def test_every_operator_has_a_case() -> None:
    named = {node.op_type for _, nodes, _ in CASES for node in map(parser.parse_node, nodes)}
    assert set(RULES) - named == set(NO_EVALUATOR)


MIXING: tuple[tuple[tuple[int, ...], Sequence[str], Constants, str], ...] = (
    ((1, 5), ["y = Softmax<axis = 0>(x)"], {}, "sums along dimension 0, in which the images lie"),
    ((1, 5), ["y = ReduceMean(x, a)"], {"a": [0]}, "reduces along dimension 0, in which the images lie"),
    ((1, 5), ["y = ReduceMax(x)"], {}, "reduces along dimension 0, in which the images lie"),
    ((1, 5), ["y = LayerNormalization<axis = 0>(x, c)"], {"c": (1, 5)}, "normalises along dimension 0, in which"),
    ((1, 5), ["y = Concat<axis = 0>(x, c)"], {"c": (1, 5)}, "puts a constant beside the images, along dimension 0"),
    ((1, 5), ["y = Gather<axis = 0>(x, i)"], {"i": np.int64([0])}, "picks along dimension 0, in which"),
    ((1, 5), ["y = Slice(x, a, b)"], {"a": [0], "b": [1]}, "cuts along dimension 0, in which the images lie"),
    ((1, 5), ["y = Add(x, c)"], {"c": (4, 5)}, "an operand stretches dimension 0, in which the images lie"),
    ((1, 5), ["t = Transpose(x)", "y = MatMul(t, x)"], {}, "it multiplies rows of images with columns of images"),
    ((1, 1), ["y = MatMul(x, x)"], {}, "it multiplies rows of images with columns of images"),
    *(
        ((1, 7, 4), ["a = Transpose<perm = [1, 2, 0]>(x)", f"y = Conv<{setting}>(a, w)"], {"w": (8, 4, 1)},
         "images lie in dimension 2 of its operand, and it takes them in dimension 0")
        for setting in ("pads = [1, 0]", "pads = [0, 1]", "strides = [2]")
    ),
    ((1, 1), ["t = Transpose(x)", "y = Add(x, t)"], {}, "images lie in different dimensions of its operands"),
    ((1, 5), ["t = Transpose(x)", "y = MatMul(t, w)"], {"w": (1, 2)}, "it sums over images"),
    ((1, 5), ["t = Transpose(x)", "y = Gemm(t, w)"], {"w": (1, 2)}, "it sums over images, or multiplies"),
    ((1, 1, 5), ["y = Squeeze(x)"], {}, "it takes away every dimension of size 1, also dimension 0 of a single image"),
    ((1, 5), ["y, s, z = DynamicQuantizeLinear(x)"], {}, "nothing is known of what it does with several images"),
    ((1, 5), ["y = CumSum(x, k)"], {"k": np.int64(0)}, "it sums along dimension 0, in which the images lie"),
    (IMAGE, ["y, i = MaxPool<kernel_shape = [2, 2]>(x)"], {}, "positions of the largest elements count through all"),
    ((4, 5), ["y = Add(x, c)"], {"c": (4, 5)}, "its constant operand 'c' is not the same for each image"),
    ((2, 3), ["y = Reshape(x, s)"], {"s": [3, 2]}, "no dimension of its result [3, 2] holds the images alone"),
)  # fmt: skip


@pytest.mark.parametrize("case", MIXING, ids=lambda case: " ".join(case[1]))
def test_a_node_that_may_mix_images_is_named(case: tuple[tuple[int, ...], Sequence[str], Constants, str]) -> None:
    *made, fact = case
    with pytest.raises(CompileError) as error:
        batched(model_of(*made))
    operator = parser.parse_node(made[1][-1]).op_type
    assert str(error.value).startswith(f"node '{operator}_{len(made[1]) - 1}' ({operator}): ")
    assert fact in str(error.value)
    assert str(error.value).endswith(
        "so it takes no batch; compile it without --batch: `run` takes any number of images, one after another"
    )
