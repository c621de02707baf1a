"""A network's file may come from anybody: its host parts read no other file, and are checked like its programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, GraphProto, TensorProto, helper

import tilewright
from tests.mixed_networks import mixed_network, sandwich
from tests.tilewright.command_line import Command
from tilewright.errors import InputError
from tilewright.host.check import host_findings, parse_host_model
from tilewright.host.model import HostModel
from tilewright.isa.binary.partitioned_elf import save_any
from tilewright.isa.program.partitioned import HostSegment, NetworkValue, NpuSegment, Partitioned


@pytest.fixture(scope="module")
def network() -> Partitioned:
    """Machine, host, machine."""
    network = tilewright.compile(sandwich(), "base16").network
    assert isinstance(network, Partitioned)
    return network


def with_host(network: Partitioned, **changes: object) -> Partitioned:
    return replace(
        network,
        segments=tuple(replace(s, **changes) if isinstance(s, HostSegment) else s for s in network.segments),  # type: ignore[arg-type]
    )


def changed(network: Partitioned, change: Callable[[onnx.ModelProto], object]) -> Partitioned:
    """The network with another model in its host part."""
    (host,) = (segment for segment in network.segments if isinstance(segment, HostSegment))
    model = onnx.ModelProto.FromString(host.onnx)
    change(model)
    return with_host(network, onnx=model.SerializeToString())


# -- data in other files -----------------------------------------------------------------------------------------------


def external(name: str = "secret") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="secret.txt")
    return tensor


def inner_graph() -> GraphProto:
    return GraphProto(name="inner", initializer=[external()])


def in_function(model: onnx.ModelProto) -> None:
    node = helper.make_node("Constant", [], ["y"], value=external())
    model.functions.append(helper.make_function("mine", "F", [], ["y"], [node], [helper.make_opsetid("", 17)]))


def in_default_of_function(model: onnx.ModelProto) -> None:
    function = helper.make_function("mine", "F", [], [], [], [helper.make_opsetid("", 17)])
    function.attribute_proto.append(helper.make_attribute("t", external()))
    model.functions.append(function)


def in_sparse(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add(values=external())


def without_a_mark(model: onnx.ModelProto) -> None:
    tensor = external()
    tensor.data_location = TensorProto.DEFAULT
    model.graph.initializer.append(tensor)


def attribute(model: onnx.ModelProto, made: AttributeProto) -> None:
    model.graph.node[0].attribute.append(made)


HIDDEN: dict[str, Callable[[onnx.ModelProto], object]] = {
    "initializer": lambda model: model.graph.initializer.append(external()),
    "sparse initializer": in_sparse,
    "attribute": lambda model: attribute(model, helper.make_attribute("t", external())),
    "tensors": lambda model: attribute(model, AttributeProto(name="t", tensors=[external()])),
    "graph": lambda model: attribute(model, helper.make_attribute("g", inner_graph())),
    "graphs": lambda model: attribute(model, AttributeProto(name="g", graphs=[inner_graph()])),
    "function": in_function,
    "default of a function": in_default_of_function,
    "training": lambda model: model.training_info.add(algorithm=inner_graph()),
    "without a mark": without_a_mark,
}


@pytest.mark.parametrize("place", HIDDEN)
def test_data_in_another_file_is_refused_on_load(
    network: Partitioned, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("key!")
    save_any(changed(network, HIDDEN[place]), "net.npu")
    with pytest.raises(InputError) as refused:
        tilewright.Program.load("net.npu")
    assert str(refused.value) == (
        "net.npu: the host's part of the network has the data of tensor 'secret' in another file; "
        "such a network is not run: compile it again"
    )


def test_data_in_another_file_is_not_run_from_memory_either(network: Partitioned) -> None:
    program = tilewright.Program(changed(network, HIDDEN["initializer"]))
    with pytest.raises(InputError, match="in another file"):
        program.run(program.zero_inputs(), unchecked=True)


# -- what check finds --------------------------------------------------------------------------------------------------


def renamed_output(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = model.graph.output[0].name = "other"


def other_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT


def other_shape(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 7


def more_inputs(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


def without_nodes(model: onnx.ModelProto) -> None:
    del model.graph.node[:]


IN, OUT = "'conv1.q.quantize.out'", "'cumsum.q.quantize.out'"

WRONG: dict[str, tuple[Callable[[Partitioned], Partitioned], str]] = {
    "no parts": (lambda n: replace(n, segments=()), "the network has no parts"),
    "host only": (
        lambda n: replace(n, segments=n.segments[1:2]), f"part 0 reads {IN}, which no part before it makes",
    ),
    "machine only": (
        lambda n: replace(n, segments=n.segments[::2]), f"part 1 reads {OUT}, which no part before it makes",
    ),
    "no output": (
        lambda n: replace(n, outputs=(NetworkValue("z", "int8", (1,)),)),
        "the network gives 'z', which no part before it makes",
    ),
    "another output": (
        lambda n: replace(n, outputs=(replace(n.outputs[0], dtype="int64"),)),
        "the network gives 'y' as int64 [1, 5, 4, 4], and it is float32 [1, 5, 4, 4]",
    ),
    "twice": (
        lambda n: replace(n, segments=(*n.segments, n.segments[1])), f"part 3 makes {OUT}, which is there already",
    ),
    "input renamed": (lambda n: with_host(n, inputs=("x",)), "part 1 has no input 'x'"),
    "output renamed": (lambda n: changed(n, renamed_output), f"part 1 has no output {OUT}"),
    "other type": (
        lambda n: changed(n, other_type), f"part 1 reads {IN} as float32 [1, 5, 4, 4], and it is int8 [1, 5, 4, 4]",
    ),
    "other shape": (
        lambda n: changed(n, other_shape), f"part 1 reads {IN} as int8 [1, 7, 4, 4], and it is int8 [1, 5, 4, 4]",
    ),
    "more inputs": (lambda n: changed(n, more_inputs), "part 1 has an input 'more', which the file gives no value"),
    "no nodes": (lambda n: changed(n, without_nodes), "part 1 is not a valid ONNX model: "),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_check_finds(network: Partitioned, fault: str) -> None:
    change, message = WRONG[fault]
    found = [finding.message for finding in host_findings(change(network))]
    assert any(one.startswith(message) for one in found), found


@pytest.mark.parametrize("fault", WRONG)
def test_run_refuses_it_checked_or_not(network: Partitioned, fault: str, tmp_path: Path, tilewright: Command) -> None:
    save_any(WRONG[fault][0](network), tmp_path / "net.npu")
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 5, 4, 4), np.float32))
    assert tilewright("check", tmp_path / "net.npu").code == 1
    run = ("run", tmp_path / "net.npu", "--input", tmp_path / "in.npz", "--on", "interpreter")
    assert "the checker refuses this program" in tilewright(*run).err
    ended = tilewright(*run, "--unchecked")
    assert (ended.code, ended.err.count("\n")) in ((0, 0), (1, 1), (1, 2))


def test_garbage_is_refused_by_every_command(network: Partitioned, tmp_path: Path, tilewright: Command) -> None:
    path = tmp_path / "net.npu"
    save_any(with_host(network, onnx=b"garbage"), path)
    for command in ("run", "check", "profile", "disassemble"):
        ended = tilewright(command, path)
        message = "the host's part of the network is not an ONNX model; compile the network again"
        assert (ended.code, ended.err) == (1, f"error: {path}: {message}\n")


def test_evaluators_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime's error has a tensor's name, which is no text, and so was another error, of which it printed."""
    node = helper.make_node("Relu", ["nowhere"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    model = helper.make_model(helper.make_graph([node], "one", [x], [y]), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    damaged = model.SerializeToString().replace(b"nowhere", b"nowh\xaere")
    with pytest.raises(InputError, match="the host cannot run its part of the network"):
        HostModel(damaged).run(["y"], {"x": np.zeros(1, np.float32)})
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("seed", range(4))
def test_what_is_compiled_has_no_findings(seed: int) -> None:
    program = tilewright.compile(mixed_network(np.random.default_rng(seed), 12), "base16")
    assert any(isinstance(segment, NpuSegment) for segment in program.network.segments)  # type: ignore[union-attr]
    assert program.check() == ()


def test_an_empty_model_has_no_tensors_elsewhere() -> None:
    assert parse_host_model(b"") == onnx.ModelProto()
