"""The command line: what works, and every bad input as one or two lines, exit code 1, and nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.compiler.models import conv_model
from tests.compiler.tile_programs import WORDS
from tests.tilewright.command_line import Command, Ended
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.binary.elf import load, save
from tilewright.isa.binary.elf_writer import tool_version
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program
from tilewright.terminal.progress import warn_of_build

X = np.arange(16 * WORDS, dtype=np.int8).reshape(1, 16, WORDS, 1)


@pytest.fixture
def copy_file(tmp_path: Path, copy_program: Program) -> Path:
    path = tmp_path / "copy.npu"
    save(copy_program, path)
    np.savez(tmp_path / "in.npz", x=X)
    return path


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "conv.onnx"
    onnx.save(conv_model(np.random.default_rng(0)), path)
    return path


def require_fault(ended: Ended, message: str, lines: int = 2) -> None:
    """Exit code 1, exactly this message on standard error, no traceback; hardware may have been built before."""
    said = [line for line in ended.err.splitlines(True) if not line.startswith("building the hardware of ")]
    assert "".join(said) == f"error: {message}\n"
    assert ended.code == 1
    assert len(message.splitlines()) <= lines


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what works --------------------------------------------------------------------------------------------------------


def test_tells_its_version(tilewright: Command) -> None:
    ended = tilewright("--version")
    assert (ended.code, ended.out) == (0, f"tilewright {tool_version()}\n")


def test_compile_fixes_open_sizes(tilewright: Command, tmp_path: Path) -> None:
    model, path, program = conv_model(np.random.default_rng(0)), tmp_path / "open.onnx", tmp_path / "net.npu"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)
    command = ("compile", path, "--isa", "tiny8", "-o", program)
    require_fault(
        tilewright(*command),
        f"{path}: input 'x' has the open shape [batch, 3, 8, 8]; expected numbers. Say them, as in --shape x=1x3x8x8",
    )
    assert tilewright(*command, "--shape", "x=1x3x8x8").code == 0
    assert load(program).inputs[0].shape == (1, 3, 8, 8)


@pytest.mark.parametrize("command", ["run", "profile", "check", "disassemble"])
def test_a_budget_is_raised_where_the_refusal_says(tilewright: Command, tmp_path: Path, command: str) -> None:
    path = tmp_path / "net.npu"
    save(assemble("fill loops(j=1000, k=1000) y=act[0]", load_machine("base16")), path)
    refused = tilewright(command, path, "--budget", "iterations=1M", "--budget", "memory=1M")
    require_fault(
        refused,
        f"{path}: a run takes 78 MiB of memory, the largest part of it for an instruction fill; the budget is 1 MiB: "
        "if you trust the program, raise it with --budget memory=78M",
    )
    assert tilewright(command, path, "--budget", "memory=78M").err == ""


def test_runs_a_program_on_named_arrays(tilewright: Command, copy_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    ended = tilewright("run", copy_file, "--input", tmp_path / "in.npz", "--output", out, "--on", "interpreter")
    assert (ended.code, ended.err) == (0, "")
    with np.load(out) as outputs:
        assert np.array_equal(outputs["out0"], X)


def test_compiles_checks_and_runs_a_model(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    program = tmp_path / "conv.npu"
    assert tilewright("compile", model_file, "--isa", "tiny8", "--output", program).code == 0
    assert tilewright("check", program).out.endswith("no findings\n")
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 3, 8, 8), np.float32))
    ended = tilewright("run", program, "--input", tmp_path / "in.npz", "--on", "interpreter")
    assert ended.code == 0
    assert "result" in ended.out


def test_compiling_twice_gives_the_same_bytes(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    for name in ("a.npu", "b.npu"):
        tilewright("compile", model_file, "--isa", "base16", "--output", tmp_path / name)
    assert (tmp_path / "a.npu").read_bytes() == (tmp_path / "b.npu").read_bytes()


def test_assemble_undoes_disassemble(tilewright: Command, copy_file: Path, tmp_path: Path) -> None:
    tilewright("disassemble", copy_file, "--output", tmp_path / "copy.s")
    ended = tilewright("assemble", tmp_path / "copy.s", "--isa", "base16", "--output", tmp_path / "again.npu")
    assert ended.code == 0
    assert (tmp_path / "again.npu").read_bytes() == copy_file.read_bytes()


def test_json_stands_beside_the_table(tilewright: Command, copy_file: Path, tmp_path: Path) -> None:
    ended = tilewright("check", copy_file, "--json", tmp_path / "check.json")
    assert "2 instructions, no findings" in ended.out
    assert json.loads((tmp_path / "check.json").read_text()) == {"program": str(copy_file), "findings": []}


def test_json_to_the_terminal_replaces_the_table(tilewright: Command) -> None:
    ended = tilewright("isa", "list", "--json", "-")
    assert "base16" in [row["machine"] for row in json.loads(ended.out)]


def test_dumps_a_pass(tilewright: Command, model_file: Path) -> None:
    ended = tilewright("compile", model_file, "--isa", "base16", "--dump-after", "tile")
    assert ended.out.startswith("// tilewright: after tile, for base16 (")
    assert ended.out.splitlines()[1] == '"tile.program"() ({'


def test_reports_every_pass_and_the_profile(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    ended = tilewright("compile", model_file, "--isa", "base16", "--report", tmp_path / "report")
    assert ended.code == 0
    names = [name for name in files(tmp_path / "report") if not name.endswith(".html")]
    assert names[:2] == ["00-import.mlir", "01-forms.mlir"]
    assert names[-2].endswith("-emit.s") and names[-1] == "profile.json"
    profile = json.loads((tmp_path / "report" / "profile.json").read_text())
    assert sum(layer["cycles"] for layer in profile["layers"]) == profile["cycles"]


def test_profiles_in_80_columns(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    tilewright("compile", model_file, "--isa", "base16", "--output", tmp_path / "net.npu")
    ended = tilewright("profile", tmp_path / "net.npu", "--json", tmp_path / "profile.json")
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 80
    cycles = json.loads((tmp_path / "profile.json").read_text())["cycles"]
    assert ended.out.splitlines()[-1].split() == ["total", *[f"{cycles:,}"] * 4]


@pytest.mark.slow
def test_writes_verilog_with_the_register_map(tilewright: Command, tmp_path: Path) -> None:
    ended = tilewright("rtl", "--isa", "tiny8", "--output", tmp_path / "npu.v")
    assert ended.code == 0
    text = (tmp_path / "npu.v").read_text()
    assert text.startswith("// Registers of `tiny8` on AXI4-Lite")
    assert "module npu(" in text


def test_an_unknown_pass_is_wrong_usage(tilewright: Command, model_file: Path) -> None:
    ended = tilewright("compile", model_file, "--isa", "base16", "--dump-after", "tiles")
    assert ended.code == 2
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("words", [["run"], ["--nonsense"], ["nonsense"], ["compile", "x.onnx"]])
def test_wrong_usage_has_exit_code_2(tilewright: Command, words: Sequence[str]) -> None:
    assert tilewright(*words).code == 2


@pytest.mark.parametrize(
    "words", [["isa", "list"], ["isa", "show", "base16"], ["isa", "show", "rect"], ["isa", "lint", "tiny8"]]
)
def test_tables_fit_80_columns(tilewright: Command, words: Sequence[str]) -> None:
    ended = tilewright(*words)
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 80


# -- machines ----------------------------------------------------------------------------------------------------------

BAD_MACHINE = """\
extends: base16
lane: 16
instructions:
  twice:
    engine: vec
    loops: {k: 10}
    from: {a: act}
    to: {y: act}
    do: y = b + b
  wide:
    engine: vec
    loops: {k: 10}
    from: {a: act}
    to: {y: act}
    do: y = a + a
"""


@pytest.mark.parametrize("command", ["lint", "compile"])
def test_all_faults_of_a_machine_at_once(tilewright: Command, model_file: Path, tmp_path: Path, command: str) -> None:
    machine = tmp_path / "bad.yaml"
    machine.write_text(BAD_MACHINE)
    words = {
        "lint": ["isa", "lint", machine],
        "compile": ["compile", model_file, "--isa", machine, "--output", tmp_path / "net.npu"],
    }[command]
    ended = tilewright(*words)
    assert ended.code == 1
    assert "Traceback" not in ended.err
    for place in (
        "bad.yaml:2:7: unknown key 'lane'",
        "bad.yaml:9:9: instructions.twice.do",
        "bad.yaml:15:9: instructions.wide.do",
    ):
        assert place in ended.err
    assert "did you mean 'lanes'?" in ended.err
    assert not (tmp_path / "net.npu").exists()


def test_an_unknown_setting_says_which_exist(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    words = ["compile", model_file, "--isa", "base16", "--output", tmp_path / "net.npu"]
    ended = tilewright(*words, "--set", "memories.akt.kib=64")
    require_fault(
        ended,
        "--set memories.akt.kib=64: memories has no 'akt' (did you mean 'act'?); "
        "it has: memories.act, memories.wgt, memories.acc, memories.par, memories.lut",
    )
    assert files(tmp_path) == ["conv.onnx"]


def test_an_unknown_machine_says_which_exist(tilewright: Command) -> None:
    ended = tilewright("isa", "show", "base17")
    assert ended.err.startswith("error: no machine 'base17' (did you mean 'base16'?); there are base16, ")
    assert ended.code == 1


# -- models ------------------------------------------------------------------------------------------------------------


def compile_fault(tilewright: Command, model: Path, folder: Path) -> Ended:
    ended = tilewright("compile", model, "--isa", "base16", "--output", folder / "net.npu")
    assert not (folder / "net.npu").exists()
    return ended


def test_refuses_a_truncated_model(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    content = model_file.read_bytes()
    model_file.write_bytes(content[: len(content) // 2])
    ended = compile_fault(tilewright, model_file, tmp_path)
    size = len(content) // 2
    require_fault(ended, f"{model_file}: not an ONNX file, or a truncated or damaged one ({size} bytes)")


def test_refuses_an_unknown_operator(tilewright: Command, tmp_path: Path) -> None:
    ended = compile_fault(tilewright, one_node(tmp_path, "Frobnicate"), tmp_path)
    require_fault(ended, "node 'node': unknown operator Frobnicate; opset 17 has none of that name")


def test_refuses_a_float_model(tilewright: Command, tmp_path: Path) -> None:
    ended = compile_fault(tilewright, one_node(tmp_path, "Relu"), tmp_path)
    require_fault(
        ended,
        "one: the model is float; expected an int8 one. Quantise it with samples of its inputs: --calibration "
        "data.npz, or --calibration random if only cycles matter",
    )


def test_refuses_an_unknown_attribute(tilewright: Command, tmp_path: Path) -> None:
    ended = compile_fault(tilewright, one_node(tmp_path, "Relu", slope=0.5), tmp_path)
    require_fault(ended, "node 'node' (Relu): unknown attribute 'slope'; it has: none")


def test_refuses_an_open_shape(tilewright: Command, tmp_path: Path) -> None:
    ended = compile_fault(tilewright, one_node(tmp_path, "Relu", batch="N"), tmp_path)
    require_fault(
        ended,
        f"{tmp_path / 'one.onnx'}: input 'x' has the open shape [N, 4, 4]; expected numbers. "
        "Say them, as in --shape x=1x4x4",
    )


def one_node(folder: Path, op_type: str, batch: int | str = 1, **attributes: float) -> Path:
    """A model x → op → y of one node."""
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], name="node", **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "one.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# -- binaries ----------------------------------------------------------------------------------------------------------


def test_refuses_a_truncated_program(tilewright: Command, copy_file: Path) -> None:
    content = copy_file.read_bytes()
    copy_file.write_bytes(content[:-100])
    size = len(content)
    require_fault(tilewright("check", copy_file), f"{copy_file}: truncated: {size} bytes expected, {size - 100} came")


def test_refuses_a_flipped_bit(tilewright: Command, copy_file: Path, copy_program: Program) -> None:
    content = bytearray(copy_file.read_bytes())
    content[content.index(copy_program.text)] ^= 1
    copy_file.write_bytes(content)
    require_fault(
        tilewright("check", copy_file),
        f"{copy_file}: damaged: wrong checksum of section .text; copy or compile the program again",
    )


def test_refuses_a_program_of_another_machine(tilewright: Command, copy_file: Path) -> None:
    hashes = [load_machine(name).hash[:12] for name in ("base16", "tiny8")]
    require_fault(
        tilewright("check", copy_file, "--isa", "tiny8"),
        f"{copy_file}: built for base16 (hash {hashes[0]}), given tiny8 (hash {hashes[1]}); "
        "compile it for the machine that will run it",
    )


def changed(program: Program, index: int, changes: dict[str, int], path: Path) -> Path:
    """The program with fields of one instruction changed, saved."""
    instructions = list(program.instructions)
    instructions[index] = instructions[index].replace(changes)
    save(replace(program, instructions=tuple(instructions)), path)
    return path


DAMAGE = {
    "deadlock": (
        0,
        {"wait.store": 1},
        "instruction 0 (layer layer0): wait: load_act waits for 1 instructions of store; only 0 are earlier in the "
        "program, so it would wait for ever",
    ),
    "race": (
        1,
        {"wait.load": 0},
        "instruction 1 (layer layer0): race: store_act: y reads word 0x0 of act and may overtake instruction 0 "
        "(load_act), which writes it; wait(load=1) orders them",
    ),
    "region": (
        0,
        {"d.base": 1},
        "instruction 0 (layer layer0): region: load_act: d touches bytes 0x1 to 0x61 of inputs, which holds 0x60; "
        "correct base and strides, or make the region larger (and 1 more)",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_checker_refuses(tilewright: Command, copy_file: Path, damage: str) -> None:
    index, changes, message = DAMAGE[damage]
    changed(load(copy_file), index, changes, copy_file)
    assert tilewright("check", copy_file).code == 1
    out = copy_file.with_name("out.npz")
    ended = tilewright("run", copy_file, "--input", copy_file.with_name("in.npz"), "--output", out)
    require_fault(ended, f"{message}\nthe checker refuses this program; run it unchecked to see what it does")
    assert not out.exists()


FAULTS = {
    "deadlock": "fault WAIT (2) at instruction 0, address 0x1",
    "region": "fault REGION (3) at instruction 0, address 0x2060",
}


@pytest.mark.parametrize("damage", FAULTS)
@pytest.mark.parametrize("on", ["sim", "interpreter", pytest.param("rtl", marks=pytest.mark.slow)])
def test_unchecked_the_machine_stops(tilewright: Command, copy_file: Path, damage: str, on: str) -> None:
    index, changes, _ = DAMAGE[damage]
    changed(load(copy_file), index, changes, copy_file)
    out = copy_file.with_name("out.npz")
    words = ["run", copy_file, "--input", copy_file.with_name("in.npz"), "--output", out, "--on", on, "--unchecked"]
    require_fault(tilewright(*words), FAULTS[damage])
    assert not out.exists()


# -- arrays and files --------------------------------------------------------------------------------------------------


def test_refuses_what_is_not_an_archive(tilewright: Command, copy_file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "in.npz"
    bad.write_bytes(b"not an archive")
    ended = tilewright("run", copy_file, "--input", bad)
    require_fault(ended, f"{bad}: not a .npz file of arrays, or a damaged one; write it with numpy.savez")


def test_refuses_a_wrong_shape(tilewright: Command, copy_file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X[:, :, 0])
    ended = tilewright("run", copy_file, "--input", tmp_path / "in.npz")
    require_fault(ended, "input 'x' has shape [1, 16, 1]; the model takes [1, 16, 6, 1]: reshape it")


def test_names_a_missing_file(tilewright: Command, tmp_path: Path, copy_file: Path) -> None:
    ended = tilewright("run", copy_file, "--input", tmp_path / "none.npz")
    require_fault(ended, f"{tmp_path / 'none.npz'}: No such file or directory")


def test_names_a_folder_that_is_not_there(tilewright: Command, tmp_path: Path, copy_file: Path) -> None:
    out = tmp_path / "nowhere" / "out.npz"
    words = ["run", copy_file, "--input", tmp_path / "in.npz", "--on", "interpreter"]
    require_fault(tilewright(*words, "--output", out), f"{out}: No such file or directory")


def test_names_an_unknown_executor(tilewright: Command, copy_file: Path, tmp_path: Path) -> None:
    ended = tilewright("run", copy_file, "--input", tmp_path / "in.npz", "--on", "fpga")
    require_fault(ended, "no executor 'fpga'; there are: sim, rtl, interpreter")


BAD_WORD = (
    f"bad.s:2:1: unknown instruction 'fil' (did you mean 'fill'?); expected {', '.join(load_machine('base16').formats)}"
)


def test_refuses_assembly_with_an_unknown_word(tilewright: Command, tmp_path: Path) -> None:
    source = tmp_path / "bad.s"
    source.write_text(".machine base16\nfil y=act[0]\n")
    require_fault(tilewright("assemble", source, "--isa", "base16", "--output", tmp_path / "bad.npu"), BAD_WORD)
    assert files(tmp_path) == ["bad.s"]


@pytest.mark.parametrize("words", [(), ("compile",), ("run",), ("isa", "diff"), ("price",)])
def test_help_names_no_type_for_what_takes_no_value(tilewright: Command, words: tuple[str, ...]) -> None:
    ended = tilewright(*words, "--help")
    assert ended.code == 0 and "--help" in ended.out and "bool" not in ended.out


# -- manners -----------------------------------------------------------------------------------------------------------


def test_a_shell_gets_completions(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TILEWRIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tilewright compile --dump")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert tilewright().out.split() == ["--dump-after", "--dump-dir"]


@pytest.mark.parametrize(("is_built", "said"), [(True, ""), (False, "building the hardware of base16, once: ")])
def test_says_that_it_builds_the_hardware_before_it_does(
    is_built: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tilewright.rtl.simulation.build.is_built", lambda machine, has_waves: is_built)
    warn_of_build("sim", load_machine("base16"))
    assert capsys.readouterr().err == ""
    warn_of_build("rtl", load_machine("base16"))
    assert capsys.readouterr().err.startswith(said)
    assert bool(said) is not is_built
