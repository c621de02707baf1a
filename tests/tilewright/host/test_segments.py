"""Networks in parts: the same bits as ONNX Runtime on the whole, and the cost of the machine's parts alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import ModelBuilder, conv_model, pool_model, random_inputs, run_onnx
from tests.engines import ENGINES
from tests.mixed_networks import mixed_network, sandwich
from tests.rings import long_beyond
from tests.tilewright.command_line import Command
from tilewright.compiler.errors import CompileError
from tilewright.compiler.partition.parts import cut_into_parts
from tilewright.compiler.partition.source import read_source
from tilewright.errors import InputError


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return mixed_network(np.random.default_rng(4), 12)


@pytest.fixture(scope="module")
def program(model: onnx.ModelProto) -> tilewright.Program:
    return tilewright.compile(model, "base16")


def require_equal_to_onnx_runtime(model: onnx.ModelProto, program: tilewright.Program, seed: int) -> None:
    inputs = random_inputs(model, np.random.default_rng(seed))
    expected, computed = run_onnx(model, inputs), program.run(inputs).outputs
    assert list(computed) == [value.name for value in model.graph.output]
    for name, values in computed.items():
        assert values.dtype == expected[name].dtype
        assert np.array_equal(values, expected[name]), f"seed {seed}, output {name}"


@pytest.mark.parametrize("seed", range(12))
def test_computes_what_onnx_runtime_does(seed: int) -> None:
    model = mixed_network(np.random.default_rng(seed), 8 + seed)
    require_equal_to_onnx_runtime(model, tilewright.compile(model, "base16"), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(20, range(1000, 1060)))
@pytest.mark.parametrize("isa", ["base16", "rect"])
def test_computes_what_onnx_runtime_does_on_many(seed: int, isa: str) -> None:
    model = mixed_network(np.random.default_rng(seed), 8 + seed % 16)
    require_equal_to_onnx_runtime(model, tilewright.compile(model, isa), seed)


def test_the_interpreter_agrees(model: onnx.ModelProto, program: tilewright.Program) -> None:
    inputs = random_inputs(model, np.random.default_rng(0))
    expected, computed = program.run(inputs), program.run(inputs, on="interpreter")
    assert computed.profile is None
    for name, values in expected.outputs.items():
        assert np.array_equal(computed.outputs[name], values)


@pytest.mark.slow
def test_the_hardware_agrees_in_every_bit_and_cycle() -> None:
    model = sandwich()
    program, inputs = tilewright.compile(model, "tiny8"), random_inputs(model, np.random.default_rng(0))
    result = program.run(inputs, on="rtl")
    assert np.array_equal(result.outputs["y"], run_onnx(model, inputs)["y"])
    assert result.profile is not None
    assert result.profile["cycles"] == program.profile()["cycles"]


def test_load_undoes_save(program: tilewright.Program, tmp_path: Path) -> None:
    program.save(tmp_path / "net.npu")
    assert tilewright.Program.load(tmp_path / "net.npu").network == program.network


def test_compiling_twice_gives_the_same_bytes(
    model: onnx.ModelProto, program: tilewright.Program, tmp_path: Path
) -> None:
    program.save(tmp_path / "a.npu")
    tilewright.compile(model, "base16").save(tmp_path / "b.npu")
    assert (tmp_path / "a.npu").read_bytes() == (tmp_path / "b.npu").read_bytes()


def test_no_node_is_in_two_places(model: onnx.ModelProto, program: tilewright.Program) -> None:
    on_machine = [node for layer in program.layers for node in layer.nodes]
    assert program.host_nodes and on_machine
    assert not {node.name for node in program.host_nodes} & set(on_machine)


def test_says_why_a_node_is_on_the_host(program: tilewright.Program) -> None:
    reasons = {node.reason for node in program.host_nodes if node.op_type == "CumSum"}
    assert reasons == {"operator CumSum has no lowering to the machine"}


def test_transfers_are_counted_in_integers() -> None:
    """80 bytes of int8 come to CumSum, 80 go on."""
    program = tilewright.compile(sandwich(), "base16")
    assert [(node.name, node.transfer_bytes) for node in program.host_nodes] == [("cumsum", 160)]
    first, second = program.programs
    assert [tensor.name for tensor in first.outputs] == ["conv1.q.quantize.out"]
    assert [(tensor.name, tensor.dtype) for tensor in second.inputs] == [("cumsum.q.quantize.out", "int8")]


def test_the_profile_is_the_sum_of_the_programs(program: tilewright.Program) -> None:
    profile = program.profile()
    alone = [tilewright.Program(binary).profile() for binary in program.programs]
    assert len(alone) > 1
    for key in ("cycles", "macs"):
        assert profile[key] == sum(one[key] for one in alone)
    assert sum(layer["cycles"] for layer in profile["layers"]) == profile["cycles"]
    for engine in ENGINES:
        of = profile["engines"][engine]
        assert of["busy"] + of["idle"] + sum(of["wait"].values()) + sum(of["stall"].values()) == profile["cycles"]
    assert [node["name"] for node in profile["host_nodes"]] == [node.name for node in program.host_nodes]


def test_a_network_that_the_machine_does_whole_is_one_program() -> None:
    program = tilewright.compile(conv_model(np.random.default_rng(0)), "tiny8")
    assert program.host_nodes == ()
    assert program.programs == (program.binary,)


def test_host_false_refuses(model: onnx.ModelProto) -> None:
    with pytest.raises(CompileError, match="no lowering"):
        tilewright.compile(model, "base16", host=False)


def test_a_float_model_needs_leave() -> None:
    model = _float_model()
    with pytest.raises(CompileError, match="the model is float"):
        tilewright.compile(model, "base16")
    program = tilewright.compile(model, "base16", host_floats=True)
    x = np.array([[-1.0, 2.0]], np.float32)
    assert np.array_equal(program.run({"x": x}).outputs["y"], [[0.0, 2.0]])
    assert program.profile()["cycles"] == 0


def _float_model() -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> float (float[1, 2] x) => (float[1, 2] y) { y = Relu(x) }'
    )
    return model


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "missing input 'x'; the model takes: x; got: nothing"),
        ({"y": np.zeros(1)}, "unknown input 'y'; the model takes: x"),
        (
            {"x": np.zeros((1, 5, 4, 4))},
            "input 'x' is float64; the model takes float32: convert it",
        ),
        (
            {"x": np.zeros((5, 4, 4), np.float32)},
            "input 'x' has shape [5, 4, 4]; the model takes [1, 5, 4, 4]: reshape it",
        ),
    ],
)
def test_refuses_wrong_inputs(
    program: tilewright.Program,
    inputs: dict[str, np.ndarray],
    message: str,
) -> None:
    with pytest.raises(InputError) as error:
        program.run(inputs)
    assert str(error.value) == message


def test_what_the_host_cannot_run_is_refused_when_compiled() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(sandwich())
    node = next(node for node in model.graph.node if node.op_type == "CumSum")
    node.op_type, node.domain = "Nothing", "nobody.knows"
    model.opset_import.append(onnx.helper.make_opsetid("nobody.knows", 1))
    with pytest.raises((CompileError, InputError)):
        tilewright.compile(model, "base16")


def test_one_program_is_asked_of_many(program: tilewright.Program) -> None:
    with pytest.raises(InputError, match=r"^the network is in segments: \d programs, and host nodes in between$"):
        _ = program.binary


def test_parts_run_in_an_order_that_has_what_they_read(model: onnx.ModelProto) -> None:
    source = read_source(model.SerializeToString())
    host = {name for name, node in source.nodes.items() if node.op_type in ("CumSum", "Abs")}
    there = set(source.inputs)
    for part in cut_into_parts(source, host):
        assert set(part.inputs) <= there
        there |= set(part.outputs)
    assert set(source.outputs) <= there


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def model_file(model: onnx.ModelProto, tmp_path: Path) -> Path:
    onnx.save(model, tmp_path / "mixed.onnx")
    return tmp_path / "mixed.onnx"


def test_compile_prints_a_line_per_host_node(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    ended = tilewright("compile", model_file, "--isa", "base16", "-o", tmp_path / "net.npu")
    assert ended.code == 0
    assert "on the host" in ended.out
    assert "(CumSum)" in ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines())


def test_no_host_refuses(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    ended = tilewright("compile", model_file, "--isa", "base16", "-o", tmp_path / "net.npu", "--no-host")
    assert ended.code == 1
    assert "no lowering" in ended.err
    assert not (tmp_path / "net.npu").exists()


@pytest.mark.parametrize("command", ["check", "profile", "disassemble", "run"])
def test_every_command_takes_a_network_in_parts(
    tilewright: Command, program: tilewright.Program, tmp_path: Path, command: str
) -> None:
    program.save(tmp_path / "net.npu")
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 5, 4, 4), np.float32))
    ended = tilewright(command, tmp_path / "net.npu", *(["--input", tmp_path / "in.npz"] if command == "run" else []))
    assert (ended.code, ended.err) == (0, "")
    if command == "disassemble":
        assert ended.out.count("# program ") == len(program.programs)


def test_what_lacks_room_runs_on_the_host() -> None:
    """All layers at once; what is before them stays on the machine."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", (1, 16, 12, 12)), 0.05, name="x.q")
    x = builder.quantize(builder.node("Sigmoid", [x], name="own"), 1 / 256, name="s.q")
    for name in ("pool0", "pool1"):
        pool = builder.node("GlobalMaxPool", [x], name=name)
        builder.output(builder.quantize(pool, 1 / 256, name=f"{name}.q"), name)
    model = builder.build("pools")
    program = tilewright.compile(model, "base16", ["memories.act.kib=1"], effort=0)
    reasons = {node.name: node.reason for node in program.host_nodes}
    needs = "bytes of act, 1024 are free; try --set memories.act.kib="
    assert needs in reasons["pool0"] and needs in reasons["pool1"] and "own" not in reasons
    inputs = random_inputs(model, np.random.default_rng(1))
    outputs = program.run(inputs).outputs
    for name, expected in run_onnx(model, inputs).items():
        np.testing.assert_allclose(outputs[name], expected, atol=1 / 256)


def test_without_a_host_what_lacks_room_is_refused_with_enough_memory() -> None:
    model = pool_model(np.random.default_rng(0), "GlobalMaxPool", channels=16, size=12)
    with pytest.raises(CompileError, match=r"try --set memories\.act\.kib=") as refused:
        tilewright.compile(model, "base16", ["memories.act.kib=1"], effort=0, host=False)
    setting = str(refused.value).rpartition("--set ")[2]
    assert not tilewright.compile(model, "base16", [setting], effort=0).host_nodes


@pytest.mark.parametrize("host", [True, False])
def test_a_program_too_long_for_the_waits_becomes_several(host: bool) -> None:
    """Nothing of it is on the host, and each program but the first says why it begins."""
    model = onnx.load("programs/digits/digits_int8.onnx")
    whole = tilewright.compile(model, "tiny8")
    program = tilewright.compile(model, "tiny8", ["wait_bits=5"], host=host)
    assert len(whole.programs) == 1 < len(program.programs)
    assert not program.host_nodes
    for binary in program.programs[1:]:
        assert binary.metadata[binary.layers[0].name].startswith(
            "begins another program: with what is before it, the program has more than 31 instructions for load"
        )
    assert sorted(layer.name for layer in program.layers) == sorted(layer.name for layer in whole.layers)
    inputs = random_inputs(model, np.random.default_rng(0))
    expected = whole.run(inputs).outputs
    assert all(np.array_equal(values, expected[name]) for name, values in program.run(inputs).outputs.items())


def test_a_layer_too_long_for_the_waits_is_refused_without_a_host() -> None:
    model = conv_model(np.random.default_rng(0), 64, 64)
    with pytest.raises(CompileError, match="more than 15 instructions for .*, which wait_bits = 4 cannot count; use a"):
        tilewright.compile(model, "tiny8", ["wait_bits=4"], host=False)


def test_a_layer_too_long_for_the_waits_runs_on_the_host() -> None:
    model = conv_model(np.random.default_rng(0), 64, 64)
    (node,) = tilewright.compile(model, "tiny8", ["wait_bits=4"]).host_nodes
    assert "which wait_bits = 4 cannot count" in node.reason
