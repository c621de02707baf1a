"""`tilewright quantize` and `compile --calibration`: what they write and print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import tilewright as api
from tests.compiler.models import run_onnx
from tests.front_ends import norm, sounds
from tests.tilewright.command_line import Command, Ended
from tests.tilewright.quantization.float_networks import CHANNELS, FloatBuilder, cnn, samples
from tilewright.commands.quantize import print_quantize_summary


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    onnx.save(cnn(), tmp_path / "cnn.onnx")
    return tmp_path / "cnn.onnx"


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", image=samples(cnn(), 8)["image"])
    return tmp_path / "data.npz"


def require_fault(ended: Ended, message: str) -> None:
    assert (ended.code, ended.err) == (1, f"error: {message}\n")


# -- quantize ----------------------------------------------------------------------------------------------------------


def test_writes_a_model_that_compiles(tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    assert tilewright("quantize", model_file, "--calibration", data_file, "-o", output).code == 0
    assert output.read_bytes() == api.quantize(model_file, data_file).content
    assert tilewright("compile", output, "--isa", "base16", "-o", tmp_path / "net.npu", "--no-host").code == 0


def test_shows_each_layer_and_those_that_hurt(
    tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "int8.onnx"
    ended = tilewright("quantize", model_file, "--calibration", data_file, "-o", output)
    lines = ended.out.splitlines()
    assert (ended.err, max(map(len, lines)) <= 80 or str(tmp_path) in lines[0]) == ("", True)
    assert "minmax over 8 samples" in " ".join(lines[:3])
    assert any(line.split()[:2] == ["conv1", "Conv+Relu"] for line in lines)
    assert lines[-1].startswith("layers that hurt most: ")


def test_says_that_weights_are_narrower(tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path) -> None:
    command = ("quantize", model_file, "--calibration", data_file, "-o", tmp_path / "w4.onnx", "--weights", "int4")
    assert "int8, int4 weights, minmax over 8 samples" in " ".join(tilewright(*command).out.split())


@pytest.mark.slow
def test_types_are_chosen_for_a_machine(tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path) -> None:
    output, told = tmp_path / "mixed.onnx", tmp_path / "told.json"
    command = ("quantize", model_file, "--calibration", data_file, "-o", output, "--weights", "int4", "--json", told)
    smaller = [part for size in ("array.rows", "array.cols", "lanes") for part in ("--set", f"{size}=8")]
    ended = tilewright(*command, "--mixed", "30", "--isa", "base16-w4", *smaller)
    text = " ".join(ended.out.split())
    assert "int8, int8 and int4 weights, minmax" in text and "with at most 30 dB lost against int8" in text
    wide, mixed, _ = json.loads(told.read_text())["mixed"]["networks"]
    cycles = api.compile(output, "base16-w4", smaller[1::2]).profile()["cycles"]
    assert (mixed["cost"], mixed["cost"] < wide["cost"]) == (cycles, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mixed", "3", "--isa", "base16-w4"), "activations of int8 leave no types to choose from"),
        (("--weights", "int4", "--mixed", "-1", "--isa", "base16-w4"), "a budget of -1 dB; expected 0 or more"),
        (("--weights", "int4", "--mixed", "nan", "--isa", "base16-w4"), "a budget of nan dB; expected 0 or more"),
        (
            ("--weights", "int4", "--mixed", "3", "--isa", "base16-w4", "--saves", "area"),
            "no cost 'area'; there are: cycles, energy",
        ),
        (("--weights", "int4", "--mixed", "3"), "--mixed and --isa go together"),
        (("--isa", "base16-w4"), "--mixed and --isa go together"),
        (("--saves", "energy"), "--saves needs --mixed: it says what is saved on a machine"),
        (("--set", "lanes=4"), "--set needs --mixed: it says what is saved on a machine"),
    ],
)
def test_refuses_a_budget_without_sense(
    tilewright: Command, model_file: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    output = tmp_path / "mixed.onnx"
    ended = tilewright("quantize", model_file, "--calibration", "random", "-o", output, *options)
    assert ended.code in (1, 2) and message in " ".join(ended.err.replace("│", " ").split()) and not output.exists()


def test_json_has_what_the_table_shows(tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path) -> None:
    command = ("quantize", model_file, "--calibration", data_file, "-o", tmp_path / "int8.onnx", "--json", "-")
    found = json.loads(tilewright(*command, "--method", "percentile", "--percentile", "99.9").out)
    quantized = api.quantize(model_file, data_file, method="percentile", percentile=99.9)
    assert {key: found[key] for key in ("method", "activations", "weights", "samples", "seed", "warnings")} == {
        "method": "percentile",
        "activations": "int8",
        "weights": "int8",
        "samples": 8,
        "seed": None,
        "warnings": list(quantized.warnings),
    }
    assert [(layer["name"], layer["operators"]) for layer in found["layers"]] == [
        (layer.name, list(layer.operators)) for layer in quantized.layers
    ]
    assert found["layers"][0]["drop_db"] is None
    assert found["layers"][1]["snr_db"] == round(quantized.layers[1].snr_db or 0, 2)
    assert found["hurting"] == [layer.name for layer in quantized.hurting]


def test_a_range_that_costs_much_is_warned_of_and_strictly_refused(
    tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path
) -> None:
    """Percentile 99.9 of eight samples cuts a quarter of a decade off conv1."""
    output = tmp_path / "int8.onnx"
    command = ("quantize", model_file, "--calibration", data_file, "-o", output)
    cut = ("--method", "percentile", "--percentile", "99.9")
    ended = tilewright(*command, *cut)
    assert ended.code == 0
    assert ended.err.startswith("warning: conv1 (Conv+Relu) loses 13.0 dB by its own range")
    assert "conv1 (14.5)" in " ".join(ended.out.splitlines()[:3])
    output.unlink()
    require_fault(
        tilewright(*command, *cut, "--strict"),
        f"{model_file}: conv1 (Conv+Relu) loses 13.0 dB by its own range; expected at most 6 dB. Try --method minmax, "
        "leave it in float with --keep conv1, or leave out --strict",
    )
    assert not output.exists()
    assert tilewright(*command, "--strict").code == 0


def test_a_curve_in_pieces_is_one_line(tilewright: Command, tmp_path: Path) -> None:
    onnx.save(norm("of a row"), tmp_path / "norm.onnx")
    np.savez(tmp_path / "data.npz", x=sounds())
    ended = tilewright(
        "quantize", tmp_path / "norm.onnx", "--calibration", tmp_path / "data.npz", "-o", tmp_path / "int8.onnx"
    )
    lines = [line.split() for line in ended.out.splitlines()]
    assert [line[0] for line in lines if line and line[-1][-1].isdigit()][-5:] == [
        "x",
        "first",
        "squares",
        "total",
        "apart",
    ]
    assert "in 3 pieces: apart gains 15.1 dB" in ended.out


def test_random_data_is_warned_of(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    command = ("quantize", model_file, "--calibration", "random", "-o", tmp_path / "int8.onnx")
    ended = tilewright(*command, "--seed", "7")
    assert (ended.code, ended.err) == (
        0,
        "warning: calibrated with random data (seed 7): cycles are right, results are not\n",
    )
    assert "(seed 0)" in tilewright(*command).err


def test_fixes_open_sizes(tilewright: Command, tmp_path: Path) -> None:
    b = FloatBuilder()
    path, output = tmp_path / "open.onnx", tmp_path / "int8.onnx"
    onnx.save(b.build(b.conv("conv", b.input(shape=("batch", 3, "h", "w")), 3, CHANNELS)), path)
    command = ("quantize", path, "--calibration", "random", "-o", output)
    require_fault(
        tilewright(*command),
        f"{path}: input 'image' has the open shape [batch, 3, h, w]; expected numbers. Say them, as in --shape "
        "image=1x3x224x224",
    )
    assert not output.exists()
    assert tilewright(*command, "--shape", "image=1x3x8x8").code == 0


def test_refuses_data_that_does_not_fit(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    data, output = tmp_path / "data.npz", tmp_path / "int8.onnx"
    np.savez(data, photo=np.zeros((4, 3, 12, 12), np.float32))
    require_fault(
        tilewright("quantize", model_file, "--calibration", data, "-o", output),
        f"{data}: expected an array for each input, 'image' (float32 [1, 3, 12, 12]); got 'photo'",
    )
    assert not output.exists()


def test_refuses_a_file_that_is_not_there(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    ended = tilewright("quantize", model_file, "--calibration", tmp_path / "no.npz", "-o", tmp_path / "int8.onnx")
    require_fault(ended, f"{tmp_path}/no.npz: No such file or directory")


def test_a_wrong_target_leaves_nothing(tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    ended = tilewright("quantize", model_file, "--calibration", data_file, "-o", tmp_path / "no" / "int8.onnx")
    assert (ended.code, sorted(tmp_path.iterdir())) == (1, before)


def test_a_percentile_needs_its_method(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    command = ("quantize", model_file, "--calibration", "random", "-o", tmp_path / "int8.onnx")
    ended = tilewright(*command, "--percentile", "99.9")
    assert (ended.code, "only --method percentile takes it" in ended.err) == (2, True)


def test_needs_calibration_data(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    ended = tilewright("quantize", model_file, "-o", tmp_path / "int8.onnx")
    assert (ended.code, "--calibration" in ended.err) == (2, True)


def test_a_damaged_model_is_an_error(tilewright: Command, tmp_path: Path) -> None:
    path, whole = tmp_path / "cnn.onnx", cnn().SerializeToString()
    rng = np.random.default_rng(0)
    for number in range(40):
        content = bytearray(whole if number % 2 else whole[: rng.integers(1, len(whole))])
        for position in rng.integers(0, len(content), 4):
            content[position] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(content))
        ended = tilewright("quantize", path, "--calibration", "random", "-o", tmp_path / "int8.onnx")
        assert ended.code in (0, 1), number
        assert ended.code == 0 or ended.err.splitlines()[0].startswith("error: "), (number, ended.err)
        assert len(ended.err.splitlines()) <= 2, (number, ended.err)


# -- compile -----------------------------------------------------------------------------------------------------------


def test_compile_quantises_first(tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path) -> None:
    program = tmp_path / "net.npu"
    command = ("compile", model_file, "--isa", "base16", "--calibration", data_file, "-o", program)
    ended = tilewright(*command)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1].startswith("layers that hurt most: ")
    loaded, quantized = api.Program.load(program), api.quantize(model_file, data_file)
    inputs = samples(cnn(), 1, seed=9)
    expected = next(iter(run_onnx(quantized.model, inputs).values()))
    came = next(iter(loaded.run(inputs).outputs.values()))
    step = np.diff(np.unique(expected)).min()
    assert np.abs(came - expected).max() <= 1.001 * step
    found = json.loads(tilewright(*command, "--json", "-").out)
    assert found["quantization"]["hurting"] == [layer.name for layer in quantized.hurting]


def test_compile_warns_of_random_data(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    command = ("compile", model_file, "--isa", "base16", "--calibration", "random", "-o", tmp_path / "net.npu")
    ended = tilewright(*command, "--seed", "3")
    assert (ended.code, ended.err) == (
        0,
        "warning: calibrated with random data (seed 3): cycles are right, results are not\n",
    )


def test_compile_refuses_data_for_a_quantised_model(
    tilewright: Command, model_file: Path, data_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "int8.onnx"
    api.quantize(model_file, data_file).save(path)
    ended = tilewright("compile", path, "--isa", "base16", "--calibration", data_file, "-o", tmp_path / "net.npu")
    require_fault(ended, f"{path}: is quantised already; expected a float model. Compile it as it is")


def test_compile_refuses_a_float_model_with_advice(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    ended = tilewright("compile", model_file, "--isa", "base16", "-o", tmp_path / "net.npu")
    require_fault(
        ended,
        "float: the model is float; expected an int8 one. Quantise it with samples of its inputs: --calibration "
        "data.npz, or --calibration random if only cycles matter",
    )


def test_shows_one_step_for_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("cell/step0/hidden", 31.0, "cell/step/hidden"), ("cell/step1/hidden", 29.0, "cell/step/hidden")]
    layers = [
        {"name": name, "operators": ["Mul"], "tensor": name, "part": part, "snr_db": ratio, "drop_db": 1.0}
        for name, ratio, part in [*rows, ("head", 28.0, None)]
    ]
    print_quantize_summary("small", {"layers": layers, "hurting": [], "pieces": [], "kept": []})
    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:4]] == [
        ["cell/step1/hidden", "(lowest", "of", "2)", "Mul", "29.0", "1.0"],
        ["head", "Mul", "28.0", "1.0"],
    ]
