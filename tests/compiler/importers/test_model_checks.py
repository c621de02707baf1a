"""Small models that ask for much or do harm: refused in seconds, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.fuzz.limits import limits
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers import model_checks
from tilewright.isa.files.loader import load_machine

BASE16 = load_machine("base16")
FLOAT = TensorProto.FLOAT


def value(name: str, sizes: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, sizes)


def model(
    nodes: Sequence[onnx.NodeProto],
    sizes: Sequence[int] = (1, 16, 8, 8),
    functions: Sequence[onnx.FunctionProto] = (),
    **constants: np.ndarray,
) -> bytes:
    """From x to y, both of rank 4, with constants by name."""
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [value("x", sizes)], [value("y", list("nchw"))], initializers)
    domains = [helper.make_opsetid("", 17), *([helper.make_opsetid("own", 1)] if functions else [])]
    made = helper.make_model(graph, opset_imports=domains, functions=functions, ir_version=8)
    return bytes(made.SerializeToString())


def function(name: str, *calls: str) -> onnx.FunctionProto:
    """Calls others, or applies Relu, one after the other."""
    nodes = [
        helper.make_node(call, [f"t{i}"], [f"t{i + 1}"], domain="" if call == "Relu" else "own")
        for i, call in enumerate(calls)
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["t0"], [f"t{len(calls)}"], nodes, imports)


def calling(*functions: onnx.FunctionProto) -> bytes:
    return model([helper.make_node(functions[-1].name, ["x"], ["y"], domain="own")], functions=functions)


def doubling(depth: int) -> bytes:
    return calling(function("f0", "Relu"), *(function(f"f{i}", f"f{i - 1}", f"f{i - 1}") for i in range(1, depth)))


def nested(depth: int) -> bytes:
    def branch(inner: int) -> onnx.GraphProto:
        node = helper.make_node("Relu", ["x"], [f"o{inner}"])
        if inner < depth:
            branches = {"then_branch": branch(inner + 1), "else_branch": branch(depth)}
            node = helper.make_node("If", ["c"], [f"o{inner}"], **branches)
        return helper.make_graph([node], f"g{inner}", [], [value(f"o{inner}", list("nchw"))])

    return model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch(0), else_branch=branch(depth))], c=np.array(True)
    )


HUGE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a function that calls itself": (
        lambda: calling(function("f", "f")),
        "function 'f' calls itself; export the model anew",
    ),
    "functions that call each other": (
        lambda: calling(function("f", "g"), function("g", "f")),
        "function 'g' calls itself; export the model anew",
    ),
    "functions that double": (
        lambda: doubling(25),
        "has more than 100,000 nodes, with those of its functions; compile it in parts",
    ),
    "functions in functions": (lambda: doubling(40), "has graphs or functions nested deeper than 30; flatten it"),
    "graphs in graphs": (lambda: nested(30), "has graphs or functions nested deeper than 30; flatten it"),
    "an input of many elements": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"])], (1, 1 << 40, 1, 1)),
        "its tensors have 1,099,511,627,776 elements together, up to 'x' with 1,099,511,627,776; expected at most "
        "17,179,869,184. Give its inputs smaller sizes, or compile it in parts",
    ),
    "sizes whose product is no number of 64 bits": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"])], (1 << 62, 1 << 62, 1, 1)),
        "expected at most 17,179,869,184. Give its inputs smaller sizes, or compile it in parts",
    ),
    "a sum that repeats both operands": (
        lambda: model(
            [helper.make_node("Add", ["x", "c"], ["y"])], (1 << 20, 8, 1, 1), c=np.ones((1, 8, 6, 6), np.float32)
        ),
        "node 'y' (Add): computes 301,989,888 elements; expected at most 67,108,864 in a tensor. Give the model's "
        "inputs smaller sizes",
    ),
    "ConstantOfShape": (
        lambda: model(
            [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])],
            s=np.array([1, 16, 8 << 20, 8]),
            sizes=(1, 16, 1, 8),
        ),
        "node 'c' (ConstantOfShape): computes 1,073,741,824 elements from constants, 1,073,741,824 with those before "
        "it; expected at most 67,108,880. Make it an input, or let it be broadcast where it is read",
    ),
    "Tile": (
        lambda: model(
            [helper.make_node("Tile", ["c", "s"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])],
            c=np.ones((1, 1, 1, 1), np.float32),
            s=np.array([1, 16, 8, 10**7]),
            sizes=(1, 16, 8, 1),
        ),
        "node 't' (Tile): computes 1,280,000,000 elements from constants",
    ),
    "constants that double": (
        lambda: model(
            [
                *(helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=3) for i in range(30)),
                helper.make_node("Add", ["x", "c30"], ["y"]),
            ],
            c0=np.ones((1, 1, 1, 1), np.float32),
            sizes=(1, 1, 1, 1),
        ),
        "node 'c26' (Concat): computes 67,108,864 elements from constants, 134,217,726 with those before it",
    ),
}


@pytest.mark.parametrize("what", HUGE)
def test_refuses_a_small_model_that_asks_for_much(what: str) -> None:
    make, expected = HUGE[what]
    content = make()
    assert len(content) < 10_000
    with limits(), pytest.raises(CompileError) as refused:
        tilewright.compile(content, BASE16)
    assert expected in str(refused.value)


def test_reads_functions_and_graphs_that_are_few_and_flat() -> None:
    model_checks.require_few_nodes(onnx.ModelProto.FromString(doubling(10)), "a model")
    model_checks.require_few_nodes(onnx.ModelProto.FromString(nested(20)), "a model")


def split(name: str = "cut") -> onnx.NodeProto:
    """A Split into three that says 1."""
    return helper.make_node("Split", ["x"], ["a", "b", "c"], name, axis=1, num_outputs=1)


def with_a_split(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])
    results = [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 2])]
    graph = helper.make_graph(list(nodes), "g", [x], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def inside() -> onnx.NodeProto:
    branch = helper.make_graph([split()], "b", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)])
    return helper.make_node("If", ["x"], ["a"], "if", then_branch=branch, else_branch=branch)


@pytest.mark.parametrize("broken", [with_a_split(split()), with_a_split(inside())], ids=["in the graph", "in a branch"])
def test_a_split_that_ends_the_process_is_refused(broken: onnx.ModelProto) -> None:
    with pytest.raises(CompileError) as caught:
        tilewright.compile(broken, "base16")
    assert str(caught.value) == "node 'cut' (Split): num_outputs = 1 for 3 results; expected as many of both"


def test_nor_is_it_quantised() -> None:
    with pytest.raises(CompileError, match="a Split: num_outputs = 1 for 3 results"):
        tilewright.quantize(with_a_split(split("")), [{"x": np.zeros((1, 6), np.float32)}])
