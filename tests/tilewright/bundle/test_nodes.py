"""Nodes of the host as C: each operator gives what ONNX Runtime gives, and one without C is refused with its node."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.bundle.bundle import PARTS, bundle_files
from tilewright.bundle.nodes.table import OPERATORS
from tilewright.errors import InputError
from tilewright.host.model import HostModel
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NetworkValue, Partitioned
from tilewright.program import Program

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")

SUM_TOLERANCE = 2e-6
"""Of the largest value: what the order of a sum, or the last bits of exp, may change."""

FLOAT = np.float32


@dataclass(frozen=True)
class Case:
    """A node: its operator, operands that are given in a run (shape and type), constant ones, and attributes.

    Constants are by their position; what is given takes the others.
    """

    op_type: str
    given: Sequence[tuple[tuple[int, ...], Any]]
    constants: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    low: float = -4.0
    high: float = 4.0
    outputs: int = 1


def real(*shape: int) -> tuple[tuple[int, ...], Any]:
    return shape, FLOAT


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


RNG = np.random.default_rng(11)
SCALES = RNG.uniform(0.01, 0.1, 5).astype(FLOAT)

CASES = [
    *(Case(name, [real(2, 3, 5), real(3, 1)]) for name in ("Add", "Sub", "Mul", "Max", "Min")),
    Case("Div", [real(4, 5), real(5)], low=0.5),
    Case("Mul", [real(2, 3)], {1: np.array([-1.5], FLOAT)}),
    Case("Add", [real(2, 3)], {0: RNG.uniform(-1, 1, (3,)).astype(FLOAT)}),
    *(Case(name, [real(7, 9)]) for name in ("Neg", "Abs", "Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Identity")),
    Case("LeakyRelu", [real(40)], attributes={"alpha": 0.3}),
    Case("HardSigmoid", [real(40)], attributes={"alpha": 0.3, "beta": 0.4}),
    *(Case(name, [real(300)], low=1e-6, high=9e3) for name in ("Reciprocal", "Sqrt")),
    *(Case(name, [real(300)], low=-9, high=9) for name in ("Exp", "Sigmoid", "Tanh", "Erf")),
    *(Case("Pow", [real(50)], {1: np.array(power, FLOAT)}) for power in (2, 3)),
    Case("Clip", [real(50)], {1: np.array(-1, FLOAT), 2: np.array(2.5, FLOAT)}),
    Case("Clip", [real(50)], {1: np.array(0, FLOAT)}),
    Case("QuantizeLinear", [real(900)], {1: np.array(0.02, FLOAT), 2: np.array(-3, np.int8)}),
    Case("QuantizeLinear", [real(4, 5, 6)], {1: SCALES, 2: np.arange(5, dtype=np.uint8)}),
    Case("QuantizeLinear", [real(4, 6, 5)], {1: SCALES, 2: np.zeros(5, np.int8)}, {"axis": -1}),
    Case("DequantizeLinear", [((90,), np.uint8)], {1: np.array(0.02, FLOAT), 2: np.array(120, np.uint8)}),
    Case("DequantizeLinear", [((90,), np.int32)], {1: np.array(0.02, FLOAT)}),
    Case("DequantizeLinear", [((2, 5, 3), np.int8)], {1: SCALES, 2: np.arange(5, dtype=np.int8)}),
    Case("Transpose", [real(2, 3, 4, 5)], attributes={"perm": [0, 2, 3, 1]}),
    Case("Transpose", [((3, 4), np.int64)]),
    Case("Reshape", [((3, 4), np.int8)], {1: ints(2, 6)}),
    Case("Flatten", [real(2, 3, 4)]),
    Case("Squeeze", [real(2, 1, 4)], {1: ints(1)}),
    Case("Unsqueeze", [real(2, 4)], {1: ints(0, 2)}),
    Case("Expand", [real(2, 1, 4)], {1: ints(3, 2, 5, 4)}),
    Case("Tile", [real(2, 3)], {1: ints(2, 2)}),
    Case("Slice", [real(9, 8)], {1: ints(1, 2), 2: ints(9, 7), 3: ints(0, 1), 4: ints(3, 2)}),
    Case("Slice", [real(9)], {1: ints(-1), 2: ints(-10), 3: ints(0), 4: ints(-1)}),  # backwards: by a table
    Case("Gather", [real(4, 6)], {1: ints(3, 0, 0, 5)}, {"axis": 1}),
    Case("Concat", [real(2, 3), real(2, 1), real(2, 4)], attributes={"axis": 1}),
    Case("Concat", [real(2, 3)], {0: np.array([[5], [7]], FLOAT)}, {"axis": 1}),
    Case("Concat", [((3,), np.int64)], {1: ints(2)}, {"axis": 0}),
    Case("Concat", [((3,), np.int64), ((1,), np.int64)], {1: ints(-2, -(1 << 63), 1 << 40)}, {"axis": 0}),
    Case("Concat", [((2,), np.uint64)], {0: np.array([(1 << 64) - 1], np.uint64)}, {"axis": 0}),
    Case("Concat", [((2,), np.int8)], {0: np.array([-128, 5], np.int8)}, {"axis": 0}),
    Case("Split", [real(6, 4)], {1: ints(1, 5)}, outputs=2),
    Case("DepthToSpace", [real(1, 8, 2, 3)], attributes={"blocksize": 2}),
    Case("SpaceToDepth", [real(1, 2, 4, 6)], attributes={"blocksize": 2}),
    Case("ReduceSum", [real(4, 5, 6)], {1: ints(0, 2)}, {"keepdims": 0}),
    *(Case(name, [real(4, 5, 6)], attributes={"axes": [1]}) for name in ("ReduceMean", "ReduceMax", "ReduceMin")),
    *(Case(name, [real(2, 3, 4, 5)]) for name in ("GlobalAveragePool", "GlobalMaxPool")),
    Case("ArgMax", [real(3, 7, 2)], attributes={"axis": 1, "keepdims": 0}),
    Case("Softmax", [real(3, 11)]),
    Case("Softmax", [real(2, 5, 3)], attributes={"axis": 1}),
    Case("LayerNormalization", [real(3, 16)], {1: RNG.uniform(1, 2, 16).astype(FLOAT), 2: np.ones(16, FLOAT)}),
    Case("LayerNormalization", [real(2, 3, 4)], {1: np.ones((3, 4), FLOAT)}, {"axis": 1, "epsilon": 1e-3}),
    Case("MatMul", [real(2, 3, 4), real(4, 5)]),
    Case("MatMul", [real(1, 2, 3, 4), real(5, 1, 4, 3)]),
    Case("Gemm", [real(3, 4)], {1: RNG.uniform(-1, 1, (5, 4)).astype(FLOAT), 2: np.ones(5, FLOAT)}, {"transB": 1}),
    Case("Gemm", [real(4, 3), real(4, 5)], attributes={"transA": 1}),
]


def model_of(cases: Sequence[Case]) -> onnx.ModelProto:
    """All nodes in one model, each with inputs and outputs of its own."""
    nodes, inputs, constants = [], [], []
    for number, case in enumerate(cases):
        names = iter(f"in{number}_{at}" for at in range(len(case.given)))
        kinds = iter(case.given)
        operands = []
        for position in range(len(case.given) + len(case.constants)):
            if position in case.constants:
                operands.append(f"constant{number}_{position}")
                constants.append(numpy_helper.from_array(case.constants[position], operands[-1]))
            else:
                shape, dtype = next(kinds)
                operands.append(next(names))
                kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
                inputs.append(helper.make_tensor_value_info(operands[-1], kind, shape))
        results = [f"out{number}_{at}" for at in range(case.outputs)]
        nodes.append(helper.make_node(case.op_type, operands, results, name=f"node{number}", **case.attributes))
    ends = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for n in nodes for name in n.output]
    graph = helper.make_graph(nodes, "cases", inputs, ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def program_of(model: onnx.ModelProto) -> Program:
    """A network that the host computes alone."""
    values = []
    for ends in (model.graph.input, model.graph.output):
        values.append(
            tuple(
                NetworkValue(
                    end.name,
                    np.dtype(helper.tensor_dtype_to_np_dtype(end.type.tensor_type.elem_type)).name,
                    tuple(size.dim_value for size in end.type.tensor_type.shape.dim),
                )
                for end in ends
            )
        )
    inputs, outputs = values
    nodes = tuple(HostNode(node.name, node.op_type, "the test wants it", 0) for node in model.graph.node)
    names = [tuple(value.name for value in each) for each in values]
    segment = HostSegment(model.SerializeToString(), names[0], names[1], nodes)
    return Program(Partitioned(load_machine("tiny8"), (segment,), inputs, outputs))


def inputs_of(cases: Sequence[Case], seed: int) -> dict[str, NDArray[Any]]:
    rng, found = np.random.default_rng(seed), {}
    for number, case in enumerate(cases):
        for at, (shape, dtype) in enumerate(case.given):
            if dtype is FLOAT:
                found[f"in{number}_{at}"] = rng.uniform(case.low, case.high, shape).astype(FLOAT)
            else:
                limits = np.iinfo(dtype)
                high = min(limits.max, 1 << 20)
                found[f"in{number}_{at}"] = rng.integers(max(limits.min, -high), high, shape, dtype, endpoint=True)
    return found


def computed(program: Program, inputs: Mapping[str, NDArray[Any]], folder: Path) -> dict[str, NDArray[Any]]:
    """What the C of a network that only the host computes gives."""
    files = bundle_files(program, "net", inputs)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    units = ("net.c", "tilewright_host.c", "tilewright.c", "tilewright_registers.c")
    subprocess.run(["gcc", *WARNINGS, "-O1", "-shared", "-fPIC", "-o", "net.so", *units], cwd=folder, check=True)
    net = ctypes.CDLL(str(folder / "net.so"))
    size = int(files["net.h"].decode().split("ARENA_BYTES ")[1].split("U")[0])
    arena = np.zeros(size + 8, np.uint8)
    for name, values in inputs.items():
        getattr(net, f"net_set_{name}")(ctypes.c_void_p(arena.ctypes.data), ctypes.c_void_p(values.ctypes.data))
    assert net.net_infer(None, None, ctypes.c_void_p(arena.ctypes.data), 1) == 0
    found = {}
    for value in program.outputs:
        found[value.name] = np.zeros([size or 0 for size in value.shape], value.dtype)
        end = ctypes.c_void_p(found[value.name].ctypes.data)
        getattr(net, f"net_get_{value.name}")(ctypes.c_void_p(arena.ctypes.data), end)
    return found


@pytest.mark.slow
def test_each_operator_computes_what_onnx_runtime_computes(tmp_path: Path) -> None:
    model, inputs = model_of(CASES), inputs_of(CASES, 5)
    assert {case.op_type for case in CASES} == set(OPERATORS)
    names = [output.name for output in model.graph.output]
    wanted = HostModel(model.SerializeToString()).run(names, inputs)
    found = computed(program_of(model), inputs, tmp_path)
    for name in names:
        case = CASES[int(name.removeprefix("out").partition("_")[0])]
        if OPERATORS[case.op_type].is_exact or wanted[name].dtype != FLOAT:
            assert np.array_equal(found[name], wanted[name]), (name, case)
        else:
            limit = SUM_TOLERANCE * max(1.0, float(np.abs(wanted[name]).max()))
            off = float(np.abs(found[name] - wanted[name]).max())
            assert off <= limit, (name, case, off)


REFUSED = [
    (Case("Sin", [real(3)]), "the operators that have it are Abs, Add, "),
    (Case("Pow", [real(3)], {1: np.array(2.5, FLOAT)}), "its exponent is neither 2 nor 3"),
    (Case("Clip", [real(3), ((), FLOAT)]), "its lower end is computed in each run, not constant"),
    (Case("Add", [((3,), np.int64), ((3,), np.int64)]), "it is of int64; the C is for float32"),
    (Case("Gather", [real(3, 4), ((2,), np.int64)]), "it is of float32, int64, or an operand"),
    (Case("Gather", [((2,), np.int64)], {0: ints(5, 4, 3)}), "its operand 1, which says how to move, is computed"),
    (Case("Gather", [((3,), np.int64), ((2,), np.int64)]), "its operand 1, which says how to move, is computed"),
    (Case("Gemm", [real(3, 4), real(4, 5)], attributes={"alpha": 0.5}), "it multiplies by alpha 0.5 and beta 1.0"),
]


@pytest.mark.parametrize(("case", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_node_without_c_is_refused_with_its_name_and_the_reason(case: Case, reason: str) -> None:
    program = program_of(model_of([case]))
    with pytest.raises(InputError) as caught:
        bundle_files(program, "net", inputs_of([case], 1))
    start = f"a bundle has no code for 1 node of the host: node0 ({case.op_type}), on the host since the test wants it"
    assert str(caught.value).startswith(f"{start}: there is no C for it, {reason}")
    assert "An instruction that computes it brings it onto the machine" in str(caught.value)


def test_what_is_drawn_in_each_run_is_no_constant() -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["drawn"], "draw", shape=[3]),
        helper.make_node("Add", ["x", "drawn"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "noisy", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(InputError, match="no code for 1 node of the host: draw"):
        bundle_files(program_of(model), "net", {"x": np.zeros(3, FLOAT)})


@pytest.mark.slow
def test_functions_are_as_exact_as_their_header_says(tmp_path: Path) -> None:
    source = PARTS / "tilewright_host.c"
    library = tmp_path / "host.so"
    subprocess.run(["gcc", *WARNINGS, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    host, rng = ctypes.CDLL(str(library)), np.random.default_rng(3)

    def off(name: str, points: NDArray[Any], exact: Any) -> NDArray[Any]:
        function = getattr(host, f"tilewright_{name}")
        function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
        got = np.array([function(point) for point in points.astype(FLOAT)], np.float64)
        return np.asarray(np.abs(got - exact(points.astype(FLOAT).astype(np.float64))))

    positive = np.concatenate([rng.uniform(0, 10, 3000), 10.0 ** rng.uniform(-44, 38, 3000), [0.0]])
    assert not off("sqrt", positive, lambda x: np.sqrt(x.astype(FLOAT)).astype(np.float64)).any()
    powers = rng.uniform(-87, 88, 6000)
    assert (off("exp", powers, np.exp) <= 3e-7 * np.exp(powers.astype(FLOAT).astype(np.float64))).all()
    small = np.concatenate([rng.uniform(-10, 10, 3000), rng.uniform(-0.4, 0.4, 3000)])
    assert (off("tanh", small, np.tanh) <= 3e-7 * np.abs(np.tanh(small)) + 1e-12).all()
    assert (off("erf", small, np.vectorize(erf)) <= 6e-7).all()
