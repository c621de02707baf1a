"""What `explain` says is so: decisions of the plan, bytes of the program's loads, cycles of real runs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tilewright as tw
from tests.accumulator_networks import FROM_ACCUMULATORS, pooled
from tests.compiler.models import conv_model
from tests.compiler.stripes.networks import block_model
from tests.digits import MODEL, images
from tests.tilewright.command_line import Command
from tilewright.compiler.options import Options
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.explain.explain import explain_layer, explain_network
from tilewright.explain.layers import CHANNELS_OUTER, PIXELS_OUTER
from tilewright.explain.report import print_changes
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.profiles.what_if import Changed
from tilewright.program import Program
from tilewright.values.compiled import Compiled, compile_keeping

FAST = Options(effort=0)

FLOAT = MODEL.with_name("digits.onnx")


def explained(options: Options = FAST, isa: str = "base16") -> dict[str, Any]:
    network, programs = compile_keeping(MODEL, load_machine(isa), options)
    return explain_network(network, programs, [])


def digits(options: Options = FAST) -> tuple[Program, tuple[Compiled, ...]]:
    return compile_keeping(MODEL, load_machine("tiny8"), options)


@pytest.mark.slow
def test_its_layers_and_cycles_are_those_of_the_profile() -> None:
    found = explained()
    profile = tw.compile(str(MODEL), "base16", effort=0).profile()
    assert found["cycles"] == profile["cycles"]
    assert [(of["name"], of["cycles"]) for of in found["layers"]] == [
        (of["name"], of["cycles"]) for of in profile["layers"]
    ]


def test_its_loads_are_all_that_the_program_reads() -> None:
    """All but the instructions themselves, and what a beat holds beside the words asked for."""
    network, programs = digits()
    found = explain_network(network, programs, [])
    loaded = sum(one["bytes"] for layer in found["layers"] for one in layer["loaded"])
    machine = network.machine
    fetched = len(network.binary.text)
    read = network.profile()["dram_bytes"]["read"]
    assert read - fetched - machine.dram.bus_bytes * len(network.binary.instructions) <= loaded <= read - fetched


def test_says_why_tensors_are_not_on_chip() -> None:
    nothing = explained(replace(FAST, tiling=TilingOptions(residency="none")))["through_dram"]
    assert nothing["relu1.out_QuantizeLinear_Output"] == "through DRAM: the program fits with nothing on chip only"
    limited = explained(replace(FAST, tiling=TilingOptions(limits={"act": 64})))["through_dram"]
    assert limited["relu1.out_QuantizeLinear_Output"].endswith(
        "words are more than the 64 of act that the search plans with"
    )
    chosen = explained(replace(FAST, tiling=TilingOptions(off_chip=frozenset({"relu1.out_QuantizeLinear_Output"}))))
    assert chosen["through_dram"] == {
        "relu1.out_QuantizeLinear_Output": "through DRAM: the search measured fewer cycles so"
    }
    assert explained()["through_dram"] == {}


@pytest.mark.parametrize(("points_outer", "order"), [(True, PIXELS_OUTER), (False, CHANNELS_OUTER)])
def test_says_what_is_loaded_again_and_why(points_outer: bool, order: str) -> None:
    """conv2 in two tiles of rows, each in four of channels: with pixels outside, the weights come for each."""
    sizes = {"": 1, "i": 2, "r": 3, "s": 3, "x": 4, "n": 1, "o": 1, "y": 2}
    tiling = TilingOptions(tiles={"conv2": TileSizes(sizes, points_outer)})
    found = explain_layer(*digits(replace(FAST, tiling=tiling)), "conv2")
    assert (found["tiles"]["text"], found["tiles"]["order"]) == ("8 tiles: o 1 of 4, y 2 of 4", order)
    why = "each tile of pixels needs it again, since pixels are the outer loop"
    again = [("conv2.w.data", 2.0, why), ("conv2.p.data", 2.0, why)]
    more = [(one["buffer"], one["times"], one["why"]) for one in found["loaded"] if one["why"]]
    assert more == (again if points_outer else [])


def test_other_tiles_cost_what_such_a_program_takes() -> None:
    network, programs = digits()
    found = explain_layer(network, programs, "conv2")
    assert found["program_cycles"] == network.profile()["cycles"]
    fitting = [other for other in found["other_tiles"] if other["cycles"]]
    assert fitting
    others = [(other["tiles"]["text"], other["tiles"]["order"]) for other in fitting]
    assert (found["tiles"]["text"], found["tiles"]["order"]) not in others
    assert any(other["cycles"] != found["program_cycles"] for other in fitting)
    assert [cover["is_chosen"] for cover in found["covers"]].count(True) == 1


# -- the command -------------------------------------------------------------------------------------------------------

EXPLAIN = ("explain", MODEL, "--isa", "tiny8", "--effort", 0)


def test_a_change_costs_what_the_changed_machine_takes(tilewright: Command, tmp_path: Path) -> None:
    change, file = "dram.bus_bytes=32", tmp_path / "found.json"
    assert tilewright(*EXPLAIN, "--what-if", change, "--what-if", "lanes=5", "--json", file).code == 0
    wide, impossible = json.loads(file.read_text())["what_if"]
    assert wide["cycles"] == tw.compile(str(MODEL), "tiny8", [change], effort=0).profile()["cycles"]
    assert impossible["cycles"] is None
    assert impossible["why_not"].startswith("--set lanes=5: ")


def test_a_changed_machine_is_compared_by_what_each_image_of_a_batch_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 cycles for four images are 500 for each; the other machine takes one image in a run, of 900 cycles."""
    print_changes([asdict(Changed("lanes=4", 900, images=1))], 2000, 4)
    told = capsys.readouterr().out
    assert "cycles for each image" in told and "lanes=4 900 +80.0 %" in " ".join(told.split())


def test_says_how_many_images_a_run_takes() -> None:
    found = explained(replace(FAST, batch=2), "tiny8")
    assert found["images"] == 2 and found["remarks"]["batch"].startswith("2 images in each run of ")


@pytest.fixture
def program_file(tmp_path: Path) -> Path:
    tw.compile(str(MODEL), "tiny8", effort=0).save(tmp_path / "net.npu")
    return tmp_path / "net.npu"


def test_a_model_needs_a_machine(tilewright: Command) -> None:
    ended = tilewright("explain", MODEL)
    assert ended.code == 2
    assert "a model is compiled for a machine: name it" in ended.err


def test_a_float_model_is_quantised_first(tilewright: Command, program_file: Path, tmp_path: Path) -> None:
    data, layer = tmp_path / "data.npz", ("conv2", "--isa", "tiny8", "--effort", 0)
    np.savez(data, image=images()[:8])
    tilewright("quantize", FLOAT, "--calibration", data, "-o", tmp_path / "digits.onnx")
    ended = tilewright("explain", FLOAT, *layer, "--calibration", data)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == tilewright("explain", tmp_path / "digits.onnx", *layer).out
    refused = tilewright("explain", program_file, "--calibration", data)
    assert refused.code == 2 and "is about a float model: give it, too" in refused.err


def test_a_program_with_its_model_is_explained_as_the_model_is(tilewright: Command, program_file: Path) -> None:
    words = ("--effort", 0, "--what-if", "dram.bus_bytes=32")
    of_program = tilewright("explain", program_file, "--model", MODEL, *words)
    assert of_program.code == 0
    assert of_program.out == tilewright("explain", MODEL, "--isa", "tiny8", *words).out


def test_the_model_of_another_program_is_refused(tilewright: Command, program_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "conv.onnx"
    onnx.save(conv_model(np.random.default_rng(0), 3, 4, 4, 3), other)
    ended = tilewright("explain", program_file, "--model", other, "--effort", 0)
    assert (ended.code, ended.err) == (
        1,
        f"error: {other}: another program comes of it; expected the model of this program, the --shape, --batch, "
        "--calibration and --effort that it was compiled with, and this version: compile it again\n",
    )


def test_what_if_takes_the_model(tilewright: Command, program_file: Path) -> None:
    ended = tilewright("explain", program_file, "--what-if", "dram.bus_bytes=32")
    assert (ended.code, ended.err) == (
        1,
        "error: --what-if compiles again: give the model, too, with --model NET.onnx\n",
    )


def test_an_unknown_layer_is_answered_with_those_that_there_are(tilewright: Command) -> None:
    ended = tilewright(*EXPLAIN, "conv9")
    assert ended.code == 1
    assert ended.err.startswith("error: no layer 'conv9'; there are: conv1, conv2, ")


def test_a_layer_may_be_computed_in_the_tiles_of_its_reader() -> None:
    machine = load_machine_text(FROM_ACCUMULATORS, "from_accumulators")
    network, programs = compile_keeping(pooled().SerializeToString(), machine, FAST)
    found = explain_network(network, programs, [])
    conv, pool = found["layers"]
    assert (conv["instructions"], pool["instructions"]) == (("mma",), ("requantize_pool",))
    assert conv["tiles"]["text"] == "in the tiles of pool"
    assert pool["tensors"]["conv.sums"] == "stays in acc, tile by tile: its reader computes it"
    assert found["through_dram"] == {}
    covers = explain_layer(network, programs, "conv")["covers"]
    assert [(one["form"], one["is_chosen"]) for one in covers[-2:]] == [
        ("before pool", False), ("in the tiles of pool", True)
    ]  # fmt: skip


# -- layers in pieces --------------------------------------------------------------------------------------------------

CHAIN = ("first", "expand", "depthwise", "project")


@pytest.fixture(scope="module")
def in_stripes() -> tuple[Program, tuple[Compiled, ...]]:
    model = block_model(height=24, width=24, channels=96, stride=2)
    return compile_keeping(model.SerializeToString(), load_machine("dw16", ["memories.act.kib=32"]), FAST)


def test_layers_in_stripes_are_those_of_the_network(in_stripes: tuple[Program, tuple[Compiled, ...]]) -> None:
    found, profile = explain_network(*in_stripes, []), in_stripes[0].profile()
    assert [(of["name"], of["cycles"]) for of in found["layers"]] == [
        (of["name"], of["cycles"]) for of in profile["layers"]
    ]
    assert found["remarks"]["stripes"].endswith(f"pass through {', '.join(CHAIN)}")
    first, expand, depthwise, project = found["layers"]
    assert depthwise["instructions"] == ("depthwise",) and project["instructions"] == ("mma", "requantize")
    assert "expand.q.quantize.out" in expand["tensors"]
    assert expand["tensors"].keys() < {*first["tensors"], *depthwise["tensors"]}


@pytest.mark.slow
def test_a_layer_in_stripes_loads_what_its_pieces_do(in_stripes: tuple[Program, tuple[Compiled, ...]]) -> None:
    """Each of its stripes takes all weights of the expansion: 96 · 16 of one byte."""
    layer = explain_layer(*in_stripes, "expand")
    stripes = len({name.split(".")[1] for name in layer["pieces"]})
    assert [(one["bytes"], one["times"]) for one in layer["loaded"] if one["buffer"] == "expand.w.data"] == [
        (96 * 16 * stripes, stripes)
    ]
    assert layer["tiles"]["pieces"] == len(layer["pieces"]) and not layer["other_tiles"]
    pieces = [explain_layer(*in_stripes, name) for name in layer["pieces"][:2]]
    assert all(piece["layer"] == "expand" and piece["cycles"] == layer["cycles"] for piece in pieces)
    assert pieces[0]["other_tiles"] and pieces[0]["tiles"]["pieces"] == 1
    bytes_of = [sum(one["bytes"] for one in of["loaded"]) for of in (layer, *pieces)]
    assert bytes_of[0] > sum(bytes_of[1:]) > 0


@pytest.mark.slow
def test_pieces_of_a_layer_are_told_in_words(tilewright: Command, tmp_path: Path) -> None:
    onnx.save(block_model(height=24, width=24, channels=96, stride=2), tmp_path / "net.onnx")
    words = ("explain", tmp_path / "net.onnx", "--isa", "dw16", "--set", "memories.act.kib=32", "--effort", 0)
    of_layer, of_piece = (tilewright(*words, name) for name in ("project", "project.rows1"))
    assert (of_layer.code, of_layer.err, of_piece.code, of_piece.err) == (0, "", 0, "")
    assert "from project.rows0 to project.rows3. Name a piece for its other tiles" in " ".join(of_layer.out.split())
    assert ", a piece of project, which takes" in " ".join(of_piece.out.split())
    assert "Other tiles" in of_piece.out and "Other tiles" not in of_layer.out
