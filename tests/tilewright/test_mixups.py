"""What people type by mistake, one thing in place of another: the whole message, or that it is done all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tilewright as package
from tests.compiler.models import conv_model
from tests.tilewright.command_line import Command
from tilewright.isa.files.loader import shipped_machines

MODEL = "net.onnx: an ONNX model; expected a compiled program. Compile it first: tilewright compile net.onnx "
PROGRAM = "net.npu: a compiled program; expected the .onnx or .tflite file that it was made from"
ARRAYS = "x.npz: an archive, such as one of arrays; expected a model, an .onnx or .tflite file"
HERE = "-o net.npu; or name the machine here, too: --isa MACHINE"
FLOAT = (
    "float: the model is float; expected an int8 one. Quantise it with samples of its inputs: --calibration data.npz, "
    "or --calibration random if only cycles matter\n(compiling float.onnx for tiny8; `tilewright compile` has options)"
)


@pytest.fixture
def folder(tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where net.onnx, a program net.npu of it, float.onnx and x.npz are, and the command is run."""
    monkeypatch.chdir(tmp_path)
    onnx.save(conv_model(np.random.default_rng(0)), "net.onnx")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "float", [value], [result])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), "float.onnx")
    np.savez("x.npz", x=np.zeros((1, 3, 8, 8), np.float32))
    assert tilewright("compile", "net.onnx", "--isa", "tiny8", "-o", "net.npu").code == 0
    return tmp_path


MISTAKES = {
    "run net.onnx": f"{MODEL}--isa MACHINE {HERE}",
    "profile net.onnx": f"{MODEL}--isa MACHINE {HERE}",
    "check net.onnx": f"{MODEL}--isa MACHINE {HERE}",
    "disassemble net.onnx": f"{MODEL}--isa MACHINE {HERE}",
    "profile net.npu --against net.onnx": f"{MODEL}--isa MACHINE {HERE}",
    "profile float.onnx --isa tiny8": FLOAT,
    "compile net.npu --isa tiny8 -o again.npu": PROGRAM,
    "compile x.npz --isa tiny8 -o again.npu": ARRAYS,
    "compare-values net.npu --isa tiny8 --input x.npz": PROGRAM,
    "compare net.onnx net.npu --isa tiny8": PROGRAM,
    "advise net.npu --isa tiny8": PROGRAM,
    "quantize net.npu --calibration random -o int8.onnx": PROGRAM,
    "run net.npu": "a run takes the model's inputs: --input FILE.npz with x float32 1×3×8×8",
    "run net.npu --input net.onnx": (
        "net.onnx: not a .npz file of arrays, or a damaged one; write it with numpy.savez"
    ),
    "compile net.onnx --isa tiny8 --set array.rows=abc -o again.npu": (
        "--set array.rows=abc: array.rows: expected an integer; unknown parameter 'abc'; there are: none"
    ),
    "isa lint ./net.onnx": "net.onnx: is no machine file, which is YAML: byte 3 is not UTF-8\n./net.onnx: 1 fault",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told(folder: Path, tilewright: Command, words: str) -> None:
    before = sorted(folder.iterdir())
    ended = tilewright(*words.split())
    assert ended.err.rstrip("\n") == f"error: {MISTAKES[words]}"
    assert (ended.code, sorted(folder.iterdir())) == (1, before)


@pytest.mark.parametrize("command", ["profile", "check", "disassemble"])
def test_a_model_is_compiled_for_the_machine_that_is_named(folder: Path, tilewright: Command, command: str) -> None:
    ended = tilewright(command, "net.onnx", "--isa", "tiny8", "--set", "dram.bus_bytes=32")
    tilewright("compile", "net.onnx", "--isa", "tiny8", "--set", "dram.bus_bytes=32", "-o", "wide.npu")
    assert ended.out == tilewright(command, "wide.npu").out.replace("wide.npu", "net.onnx")
    assert ended.err == (
        "compiled for tiny8[dram.bus_bytes=32] first; to keep that: tilewright compile net.onnx --isa tiny8 --set "
        "dram.bus_bytes=32 -o net.npu\n"
    )


def test_a_model_runs_on_the_machine_that_is_named(folder: Path, tilewright: Command) -> None:
    ended = tilewright("run", "net.onnx", "--isa", "tiny8", "--input", "x.npz", "--output", "y.npz")
    assert ended.code == 0
    tilewright("run", "net.npu", "--input", "x.npz", "--output", "expected.npz")
    with np.load("y.npz") as outputs, np.load("expected.npz") as expected:
        assert {name: outputs[name].tolist() for name in outputs} == {n: expected[n].tolist() for n in expected}


def completions(monkeypatch: pytest.MonkeyPatch, tilewright: Command, words: str) -> list[str]:
    monkeypatch.setenv("_TILEWRIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"tilewright {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    return tilewright().out.split()


@pytest.mark.parametrize("words", ["compile net.onnx --isa t", "profile net.onnx --isa t", "isa show t"])
def test_a_shell_completes_machines(
    folder: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    (folder / "two.yaml").write_text("extends: tiny8\n")
    (folder / "then").mkdir()
    assert completions(monkeypatch, tilewright, words) == [
        *(name for name in shipped_machines() if name.startswith("t")),
        "two.yaml",
        "then/",
    ]


COMMANDS = ["run", "compile", "quantize", "compare", "advise", "price", "explain", "isa lint", "explore run"]


@pytest.mark.parametrize("words", COMMANDS)
def test_help_names_no_types(tilewright: Command, words: str) -> None:
    ended = tilewright(*words.split(), "--help")
    assert ended.code == 0
    for line in ended.out.splitlines():
        assert "list[" not in line and "<path>" not in line and "<str>" not in line and "<int" not in line


def test_the_package_shows_what_there_is() -> None:
    assert set(package.__all__) <= set(dir(package))
    assert "import_module" not in dir(package)
