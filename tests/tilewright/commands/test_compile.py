"""`tilewright compile`: the texts of passes as files, and going on from one of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.accumulator_networks import FROM_ACCUMULATORS, projection
from tests.compiler.columns.networks import narrow_model
from tests.compiler.models import ModelBuilder, add_conv, conv_model, small_cnn
from tests.tilewright.command_line import Command, Ended
from tilewright.compiler.pipeline import pass_names
from tilewright.dumps.files import write_folder

COMPILE = ("compile", "--isa", "tiny8")


def test_verifying_the_passes_changes_nothing_else(model_file: Path, tmp_path: Path, tilewright: Command) -> None:
    plain, verified = tmp_path / "plain.npu", tmp_path / "verified.npu"
    assert tilewright(*COMPILE, model_file, "--effort", 0, "-o", plain).code == 0
    assert tilewright(*COMPILE, model_file, "--effort", 0, "--verify", "-o", verified).code == 0
    assert plain.read_bytes() == verified.read_bytes()


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "conv.onnx"
    onnx.save(conv_model(np.random.default_rng(0)), path)
    return path


@pytest.fixture
def dump_folder(tilewright: Command, model_file: Path, tmp_path: Path) -> Path:
    """The dumps of a convolution; the program is in net.npu beside it."""
    folder = tmp_path / "dumps"
    assert tilewright(*COMPILE, model_file, "--dump-dir", folder, "--constants", "-o", tmp_path / "net.npu").code == 0
    return folder


def require_fault(ended: Ended, message: str) -> None:
    assert (ended.code, ended.err) == (1, f"error: {message}\n")


def files(folder: Path) -> list[str]:
    """Every file in a folder and below, without the pages."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".html"]
    return sorted(str(path.relative_to(folder)) for path in found)


def dumped(folder: Path, name: str) -> Path:
    """The file of a pass."""
    return next(folder.glob(f"[0-9][0-9]-{name}.*"))


# -- dumping -----------------------------------------------------------------------------------------------------------


def test_dumps_a_numbered_file_for_each_pass(dump_folder: Path) -> None:
    assert [Path(name).stem for name in files(dump_folder)] == [
        f"{number:02}-{name}" for number, name in enumerate(pass_names())
    ]
    assert {Path(name).suffix for name in files(dump_folder)} == {".mlir", ".s"}


def test_a_file_says_its_pass_and_machine_in_the_first_line(dump_folder: Path) -> None:
    for name, mark in (("lower", "//"), ("emit", "#")):
        first = dumped(dump_folder, name).read_text().splitlines()[0]
        assert first.startswith(f"{mark} tilewright: after {name}, for tiny8 (")


def test_what_is_printed_is_what_is_dumped(tilewright: Command, model_file: Path, dump_folder: Path) -> None:
    ended = tilewright(*COMPILE, model_file, "--constants", "--dump-after", "fuse", "--dump-after", "emit")
    assert ended.out == dumped(dump_folder, "fuse").read_text() + dumped(dump_folder, "emit").read_text()


def test_each_program_of_a_network_in_parts_has_a_subfolder(tilewright: Command, tmp_path: Path) -> None:
    onnx.save(network_in_parts(), tmp_path / "net.onnx")
    assert tilewright(*COMPILE, tmp_path / "net.onnx", "--dump-dir", tmp_path / "dumps").code == 0
    assert sorted(path.name for path in (tmp_path / "dumps").iterdir()) == ["index.html", "program-1", "program-2"]
    for program in ("program-1", "program-2"):
        assert len(files(tmp_path / "dumps" / program)) == len(pass_names())


def network_in_parts() -> onnx.ModelProto:
    """Two convolutions with a node for the host between them."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 8, 4, 4]), 0.1, 0, name="x.q")
    x = add_conv(builder, x, 8, 8, 1, name="conv1")
    x = builder.node("CumSum", [x, builder.constant("axis", np.array(1, np.int64))], name="sums")
    x = add_conv(builder, builder.quantize(x, 0.5, 0, name="sums.q"), 8, 8, 1, name="conv2")
    builder.output(x)
    return builder.build()


def test_a_report_holds_the_same_files_and_the_profile(
    tilewright: Command, model_file: Path, dump_folder: Path, tmp_path: Path
) -> None:
    assert tilewright(*COMPILE, model_file, "--report", tmp_path / "report").code == 0
    assert files(tmp_path / "report") == [*files(dump_folder), "profile.json"]
    assert "cycles" in json.loads((tmp_path / "report" / "profile.json").read_text())


def test_dumps_into_a_folder_that_holds_something(tilewright: Command, model_file: Path, dump_folder: Path) -> None:
    before = files(dump_folder)
    (dump_folder / "notes.txt").write_text("mine")
    dumped(dump_folder, "fuse").write_text("old")
    assert tilewright(*COMPILE, model_file, "--dump-dir", dump_folder).code == 0
    assert files(dump_folder) == [*before, "notes.txt"]
    assert dumped(dump_folder, "fuse").read_text() != "old"


def test_a_file_is_no_folder_for_dumps(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    for option in ("--dump-dir", "--report"):
        for folder in (model_file, model_file / "below"):
            require_fault(tilewright(*COMPILE, model_file, option, folder), f"{model_file}: not a folder")
    assert files(tmp_path) == before


def test_a_folder_that_cannot_be_made_is_named(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    folder = Path("/proc/tilewright-dumps")  # where nobody can make one, not even root
    output = tmp_path / "net.npu"
    require_fault(
        tilewright(*COMPILE, model_file, "--dump-dir", folder, "-o", output), f"{folder}: No such file or directory"
    )
    assert not output.exists()


def test_files_of_a_folder_appear_all_or_not_at_all(tmp_path: Path) -> None:
    too_long = "x" * 1000
    for folder in (tmp_path / "new", tmp_path):
        with pytest.raises(OSError) as refused:
            write_folder(folder, {"first": "text", too_long: "text"})
        assert refused.value.filename == str(folder)
        assert list(tmp_path.iterdir()) == []


# -- going on ----------------------------------------------------------------------------------------------------------


def test_goes_on_from_each_file_to_the_same_program(tilewright: Command, dump_folder: Path, tmp_path: Path) -> None:
    for name in pass_names():
        ended = tilewright(*COMPILE, "--resume-from", dumped(dump_folder, name), "-o", tmp_path / "again.npu")
        assert ended.code == 0, ended.err
        assert (tmp_path / "again.npu").read_bytes() == (tmp_path / "net.npu").read_bytes(), name


def test_an_edit_of_a_file_counts(tilewright: Command, dump_folder: Path, tmp_path: Path) -> None:
    fused, output = dumped(dump_folder, "fuse"), tmp_path / "edited.npu"
    assert ", -128), 127)" in fused.read_text()
    fused.write_text(fused.read_text().replace(", -128), 127)", ", -100), 127)"))
    assert tilewright(*COMPILE, "--resume-from", fused, "-o", output).code == 0
    assert "low=-100" in tilewright("disassemble", output).out


def test_dumps_what_comes_after_under_the_same_numbers(tilewright: Command, dump_folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    ended = tilewright(*COMPILE, "--resume-from", dumped(dump_folder, "tile"), "--dump-dir", again, "--constants")
    assert ended.code == 0
    assert files(again) == files(dump_folder)[pass_names().index("tile") + 1 :]
    assert all((again / name).read_bytes() == (dump_folder / name).read_bytes() for name in files(again))


@pytest.mark.parametrize("content", ["", "\n", "some text\n", "// tilewright: after fuse\n", '"nest.program"() ({\n'])
def test_a_file_without_the_first_line_is_no_dump(tilewright: Command, tmp_path: Path, content: str) -> None:
    path = tmp_path / "some.mlir"
    path.write_text(content)
    require_fault(
        tilewright(*COMPILE, "--resume-from", path, "-o", tmp_path / "net.npu"),
        f"{path}: not the text of a pass; expected a file of --dump-dir, with its first line as it was",
    )
    assert files(tmp_path) == ["some.mlir"]


def test_a_binary_is_no_dump(tilewright: Command, dump_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.mlir"
    path.write_bytes(b"\xff\xfe\x00")
    require_fault(
        tilewright(*COMPILE, "--resume-from", path, "-o", tmp_path / "x.npu"),
        f"{path}: not a text file: byte 0 is not UTF-8",
    )


def test_a_file_that_is_missing_is_named(tilewright: Command, tmp_path: Path) -> None:
    path = tmp_path / "missing.mlir"
    require_fault(tilewright(*COMPILE, "--resume-from", path, "-o", "x.npu"), f"{path}: No such file or directory")


def test_an_unknown_pass_of_a_file_is_named(tilewright: Command, dump_folder: Path) -> None:
    path = dumped(dump_folder, "fuse")
    path.write_text(path.read_text().replace("after fuse", "after fuze", 1))
    require_fault(
        tilewright(*COMPILE, "--resume-from", path, "-o", "x.npu"),
        f"{path}: there is no pass 'fuze'; the passes are: {', '.join(pass_names())}",
    )


@pytest.mark.parametrize("machine", [("base16",), ("tiny8", "--set", "memories.act.kib=128")])
def test_a_file_for_another_machine_is_refused(
    tilewright: Command, dump_folder: Path, tmp_path: Path, machine: tuple[str, ...]
) -> None:
    path = dumped(dump_folder, "import")
    ended = tilewright("compile", "--resume-from", path, "--isa", *machine, "-o", tmp_path / "x.npu")
    assert ended.err.startswith(f"error: {path}: for tiny8 (")
    assert ended.err.endswith("; give the --isa and --set that it was made with\n")
    assert (ended.code, (tmp_path / "x.npu").exists()) == (1, False)


def test_a_fault_of_the_text_is_told_with_its_line(tilewright: Command, dump_folder: Path) -> None:
    path = dumped(dump_folder, "lower")
    first, second, *_ = path.read_text().splitlines()
    path.write_text(f"{first}\n{second}\n  %x = oops\n")
    require_fault(
        tilewright(*COMPILE, "--resume-from", path, "-o", "x.npu"),
        "line 3: expected an operation's name in quotes, got 'oops'",
    )


@pytest.mark.parametrize("more", [("conv.onnx",), ("--shape", "x=1x3"), ("--calibration", "random")])
def test_a_text_takes_the_place_of_a_model(tilewright: Command, dump_folder: Path, more: tuple[str, ...]) -> None:
    ended = tilewright(*COMPILE, "--resume-from", dumped(dump_folder, "tile"), "-o", "x.npu", *more)
    assert ended.code == 2


def test_either_a_model_or_a_text_is_needed(tilewright: Command, tmp_path: Path) -> None:
    assert tilewright(*COMPILE, "-o", tmp_path / "x.npu").code == 2


def test_explains_the_selection(tilewright: Command, tmp_path: Path) -> None:
    onnx.save(conv_model(np.random.default_rng(0), 16, 16, size=8, group=16, name="conv"), tmp_path / "net.onnx")
    ended = tilewright("compile", tmp_path / "net.onnx", "--isa", "dw16", "--explain-selection", "--json", "-")
    rows = json.loads(ended.out)["selection"]
    shown = [(row["form"], row["instructions"], row["words"], row["cost"], row["is_chosen"]) for row in rows]
    assert shown == [  # 6 × 6 results: a cycle for each of nine taps, or for each of three rows of the window
        ("as it is", ["mma", "requantize"], {"mma": 324, "vec": 36}, 324, False),
        ("channel by channel", ["depthwise"], {"vec": 108}, 108, True),
    ]


def test_explains_which_columns_are_joined(tilewright: Command, tmp_path: Path) -> None:
    onnx.save(narrow_model(), tmp_path / "net.onnx")
    compiled = ("compile", tmp_path / "net.onnx", "--effort", "0", "--explain-selection")
    (row,) = json.loads(tilewright(*compiled, "--isa", "wide32", "--json", "-").out)["columns"]
    assert (row["layers"], row["joined"], row["is_chosen"]) == (["first", "second"], 2, True)
    assert row["after"] < 0.7 * row["before"]
    shown = tilewright(*compiled, "--isa", "wide32").out
    assert f"first to second      2        2  {row['before']:,}" in shown
    assert json.loads(tilewright(*compiled, "--isa", "base16", "--json", "-").out)["columns"] == []


def test_explains_what_keeps_sums_from_their_reader(tilewright: Command, tmp_path: Path) -> None:
    """A quarter of 8 KiB, or 512 words, is less than the nine tiles of a 3×3 window, 16 words each."""
    onnx.save(projection(), tmp_path / "net.onnx")
    machine = tmp_path / "mine.yaml"
    machine.write_text(FROM_ACCUMULATORS)
    compiled = ("compile", tmp_path / "net.onnx", "--isa", machine, "--explain-selection", "--json", "-")
    taken, hindered = (
        [(row["form"], row["is_chosen"], row["obstacle"]) for row in json.loads(ended.out)["selection"][-2:]]
        for ended in (tilewright(*compiled), tilewright(*compiled, "--set", "memories.wgt.kib=8"))
    )
    assert taken == [("before shortcut", False, ""), ("in the tiles of shortcut", True, "")]
    assert hindered == [
        ("before shortcut", True, ""),
        (
            "in the tiles of shortcut",
            False,
            "the sums' smallest tile needs 144 words of wgt, more than a quarter of 512",
        ),
    ]


def test_explains_no_selection_that_was_made_before(tilewright: Command, dump_folder: Path, model_file: Path) -> None:
    arguments = (*COMPILE, "--resume-from", dumped(dump_folder, "tile"), "--explain-selection")
    message = "--explain-selection: expected the pass plain-sums to run; resume from an earlier one"
    require_fault(tilewright(*arguments), message)


# -- how hard to search ------------------------------------------------------------------------------------------------


def test_a_tuning_file_is_filled_once_and_then_enough(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    tuning = ("--tuning", tmp_path / "tuning.json")
    assert tilewright(*COMPILE, model_file, *tuning, "-o", tmp_path / "searched.npu").code == 0
    assert tilewright(*COMPILE, model_file, *tuning, "--fail-on-miss", "-o", tmp_path / "replayed.npu").code == 0
    assert (tmp_path / "replayed.npu").read_bytes() == (tmp_path / "searched.npu").read_bytes()


def test_a_search_that_is_forbidden_is_an_error(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    ended = tilewright(*COMPILE, model_file, "--tuning", path, "--fail-on-miss", "-o", tmp_path / "net.npu")
    require_fault(
        ended,
        f"conv: {path} has no tuning for this network, machine and effort; compile once without --fail-on-miss",
    )
    assert not (tmp_path / "net.npu").exists()


def test_without_effort_nothing_is_searched_for(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    assert tilewright(*COMPILE, model_file, "--effort", 0, "--tuning", path, "-o", tmp_path / "net.npu").code == 0
    assert not path.exists()


def test_effort_has_three_steps(tilewright: Command, model_file: Path, tmp_path: Path) -> None:
    assert tilewright(*COMPILE, model_file, "--effort", 3, "-o", tmp_path / "net.npu").code == 2


# -- without constants, one layer, pages -------------------------------------------------------------------------------


@pytest.fixture
def short_folder(tilewright: Command, tmp_path: Path) -> Path:
    """The dumps of two convolutions in one program, as they are without being asked for more."""
    onnx.save(small_cnn(np.random.default_rng(0)), tmp_path / "cnn.onnx")
    folder = tmp_path / "short"
    assert tilewright(*COMPILE, tmp_path / "cnn.onnx", "--effort", 0, "--dump-dir", folder).code == 0
    return folder


def test_long_constants_are_left_out(short_folder: Path) -> None:
    for name in ("import", "fuse", "select"):
        text = dumped(short_folder, name).read_text()
        assert text.partition("\n")[0].endswith("; without long constants")
        assert "dense_resource<__elided__>" in text
        assert max(len(found) for found in re.findall(r'dense<"0x([0-9A-F]*)', text)) <= 128
    assert "# constants\n" in dumped(short_folder, "emit").read_text()


def test_nothing_goes_on_from_a_text_without_constants(tilewright: Command, short_folder: Path, tmp_path: Path) -> None:
    path = dumped(short_folder, "fuse")
    require_fault(
        tilewright(*COMPILE, "--resume-from", path, "-o", tmp_path / "x.npu"),
        f"{path}: without long constants; dump it with --constants and without --layer to go on from it",
    )


def test_dumps_one_layer(tilewright: Command, tmp_path: Path) -> None:
    """Its nest, its cover, its operations, and the buffers that these name; nothing of other layers."""
    onnx.save(small_cnn(np.random.default_rng(0)), tmp_path / "cnn.onnx")
    words = (*COMPILE, tmp_path / "cnn.onnx", "--effort", 0)
    whole = tilewright(*words, "--dump-after", "tile").out
    (names,) = re.findall(r"layers = (\[.*?\}\])", whole)
    layers = re.findall(r'name = "([^"]*)"', names)
    asked = ("--dump-after", "fuse", "--dump-after", "select", "--dump-after", "tile")
    ended = tilewright(*words, "--layer", layers[1], *asked)
    assert ended.code == 0
    assert ended.out.count(f'{{name = "{layers[1]}"') == 2  # in the nests of fuse and of select
    assert ended.out.count(f'{{nest = "{layers[1]}"') == 1
    assert set(re.findall(r"layer = (\d+)", ended.out)) == {"1"}
    assert ended.out.count("layer = 1") == whole.count("layer = 1")
    tiles = ended.out[ended.out.index("after tile") :]
    used = {name for line in tiles.splitlines() if "layer = 1" in line for name in re.findall(r"%[^\s,()]+", line)}
    assert used == set(re.findall(r"^  (%\S+) = ", tiles, re.MULTILINE))


def test_an_unknown_layer_is_answered_with_those_that_there_are(tilewright: Command, model_file: Path) -> None:
    ended = tilewright(*COMPILE, model_file, "--layer", "conv9", "--dump-after", "fuse")
    assert ended.code == 1
    assert ended.err.startswith("error: no layer 'conv9'; there are: ")


def test_pages_link_layers_and_levels(short_folder: Path) -> None:
    """Every link leads to a file, or to a heading of its page."""
    pages = sorted(short_folder.glob("*.html"))
    assert [page.name for page in pages[:2]] == ["index.html", "layer-000.html"]
    for page in pages:
        text = page.read_text()
        for link in re.findall(r'href="([^"]+)"', text):
            file, _, heading = link.partition("#")
            assert not file or (short_folder / file).is_file(), link
            assert not heading or f'id="{heading}"' in text
    first = pages[1].read_text()
    assert all(f'id="{name}"' in first for name in pass_names())
    assert "nest.compute" in first and "select.cover" in first and "tile." in first


def test_a_list_says_which_passes_run(model_file: Path, tmp_path: Path, tilewright: Command) -> None:
    told = ("compile", model_file, "--isa", "tiny8", "--effort", "0")
    ended = tilewright(*told, "--passes", "-fuse", "--dump-dir", tmp_path / "dumps", "-o", tmp_path / "m.npu")
    assert ended.code == 0 and (tmp_path / "m.npu").exists()
    assert not list((tmp_path / "dumps").glob("*-fuse.mlir")) and list((tmp_path / "dumps").glob("*-lower.mlir"))
    ended = tilewright(*told, "--passes", "-lower", "-o", tmp_path / "no.npu")
    assert (ended.code, (tmp_path / "no.npu").exists()) == (1, False)
    assert "pass 'batches': takes nests, and 'columns' before it gives graph" in ended.err


def test_dumps_are_numbered_in_the_order_of_the_list(model_file: Path, tmp_path: Path, tilewright: Command) -> None:
    names = [name for name in pass_names() if name not in ("fuse", "copies")]
    names.insert(names.index("batches"), "copies")
    told = ("--effort", "0", "--passes", ",".join(names), "--constants", "--dump-dir", tmp_path / "dumps")
    assert tilewright(*COMPILE, model_file, *told).code == 0
    assert [Path(name).stem for name in files(tmp_path / "dumps")] == [
        f"{number:02}-{name}" for number, name in enumerate(names)
    ]
    told = (*told[:-1], tmp_path / "again")
    assert tilewright(*COMPILE, "--resume-from", dumped(tmp_path / "dumps", "copies"), *told).code == 0
    assert files(tmp_path / "again") == files(tmp_path / "dumps")[names.index("copies") + 1 :]
