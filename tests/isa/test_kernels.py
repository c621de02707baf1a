"""The compiled kernel on disk: found again while the code is the same, and never after any of its files has changed."""

from __future__ import annotations

import importlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.isa.kernels.fingerprint import fingerprint
from tilewright.simulator.kernel import layout
from tilewright.simulator.kernel.run import run_cycles

REPOSITORY = Path(__file__).resolve().parents[2]

PART = """\
from tilewright.isa.kernels.kernel import part_of_kernel
ADDED = 1
@part_of_kernel
def added(a):
    return a + ADDED
"""

ENTRY = """\
from part import added
from tilewright.isa.kernels.kernel import kept_on_disk
@kept_on_disk
def entry(a):
    return 10 * added(a)
print(entry(4), "compiled" if entry.compiled else "loaded")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A function of two files, to be run as `entry.py`."""
    (tmp_path / "part.py").write_text(PART)
    (tmp_path / "entry.py").write_text(ENTRY)
    return tmp_path


def start(folder: Path, script: str = "entry.py", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-B", folder / script],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, **environment: str) -> str:
    output, errors = start(folder, **environment).communicate()
    assert errors == ""
    return output.strip()


def test_the_next_process_loads_what_one_has_compiled(folder: Path) -> None:
    assert [run(folder), run(folder)] == ["50 compiled", "50 loaded"]


def test_a_change_in_another_file_is_compiled(folder: Path) -> None:
    run(folder)
    (folder / "part.py").write_text(PART.replace("a + ADDED", "a - ADDED"))
    assert run(folder) == "30 compiled"
    (folder / "part.py").write_text(PART.replace("ADDED = 1", "ADDED = 2"))
    assert run(folder) == "60 compiled"


def test_two_versions_that_keep_their_code_in_one_folder_each_run_their_own(folder: Path) -> None:
    (folder / "part.py").unlink()
    for added in (1, 2):
        (folder / f"version{added}").mkdir()
        (folder / f"version{added}" / "part.py").write_text(PART.replace("ADDED = 1", f"ADDED = {added}"))
    paths = [f"{folder / f'version{added}'}{os.pathsep}{REPOSITORY}" for added in (1, 2)]
    at_once = [start(folder, PYTHONPATH=path) for path in paths]
    assert [process.communicate()[0] for process in at_once] == ["50 compiled\n", "60 compiled\n"]
    assert [run(folder, PYTHONPATH=path) for path in paths] == ["50 loaded", "60 loaded"]


def test_a_folder_that_cannot_be_written_leaves_the_code_in_the_user_s_cache(folder: Path, tmp_path: Path) -> None:
    (folder / "__pycache__").write_text("no folder can be made here")
    user = {"TILEWRIGHT_CACHE": str(tmp_path / "user")}
    assert [run(folder, **user), run(folder, **user)] == ["50 compiled", "50 loaded"]


def test_without_any_folder_it_compiles_and_says_so(folder: Path) -> None:
    (folder / "__pycache__").write_text("no folder can be made here")
    output, errors = start(folder, TILEWRIGHT_CACHE=str(folder / "__pycache__")).communicate()
    assert output.strip() == "50 compiled"
    assert "parts of Tilewright are compiled in every run, which takes seconds each time" in errors
    assert "set TILEWRIGHT_CACHE to a folder that can be written to" in errors


def test_says_on_a_terminal_that_it_compiles(folder: Path) -> None:
    """Once, however many kernels there are; nothing when they are loaded."""
    (folder / "second.py").write_text(ENTRY.replace("10 * added", "20 * added"))
    (folder / "both.py").write_text("import entry, second\n")
    for expected in ("compiling the inner loops of Tilewright, once: up to a minute", ""):
        ours, theirs = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}"}
        command = [sys.executable, "-B", folder / "both.py"]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
        os.write(theirs, b"\n")  # so that there is something to read
        said = os.read(ours, 10_000).decode()
        os.close(ours)
        os.close(theirs)
        assert said.strip() == expected


def test_a_file_that_is_not_whole_is_compiled_anew(folder: Path) -> None:
    run(folder)
    [file] = (folder / "__pycache__").glob("entry.entry-*.kernel")
    whole = file.read_bytes()
    for content in (whole[:-100], b"", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        file.write_bytes(content)
        assert run(folder) == "50 compiled"
        assert file.read_bytes() == whole


def test_what_is_on_disk_runs_without_numba(folder: Path) -> None:
    run(folder)
    (folder / "numba.py").write_text("raise ImportError('numba is not needed')\n")
    assert run(folder) == "50 loaded"


RESULTS = """\
import numpy as np
from typing import NamedTuple
from tilewright.isa.kernels.kernel import kept_on_disk
class Columns(NamedTuple):
    numbers: np.ndarray
    marks: np.ndarray
RECORD = np.dtype([("count", np.int64), ("at", np.uint32), ("rows", np.int64, (3,))], align=True)
@kept_on_disk
def several(columns, record, table, scale, negative):
    total = record.count + record.rows[2] + record.at
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            total += table[row, column] * columns.numbers[row] * scale
    record.count = total
    columns.marks[1] = total > 0
    return columns.marks[0], -total if negative else total
record = np.zeros(1, RECORD)
record[0] = 1, 2, (0, 0, 4)
columns = Columns(np.array([1, 10, 100])[::-1], np.array([True, False]))
table = np.arange(6).reshape(2, 3).T
print(several(columns, record[0], table, 2, True), record["count"][0], columns.marks)
print(several(columns, record[0], np.ascontiguousarray(table), 2, False), several.compiled)
"""


def test_arguments_of_each_kind_arrive_and_results_of_each_kind_return(folder: Path) -> None:
    """Rows of the table are 0 3, 1 4 and 2 5; they count 100, 10 and 1 times, twice: 600 + 100 + 14, and 1 + 2 + 4."""
    (folder / "entry.py").write_text(RESULTS)
    first = "(True, -721) 721 [ True  True]"
    assert run(folder).splitlines() == [first, "(True, 1441) 2"]  # the second form of the table is other code
    assert run(folder).splitlines() == [first, "(True, 1441) 0"]


# -- the kernel itself -------------------------------------------------------------------------------------------------

CONSTANT_OF_FILE = {
    "dispatch": "REFUSED",
    "dma": "RUN_BYTES",
    "engines": "STORE",
    "run": "FAR",
    "systolic": "FIRST_INNER",
    "vector": "SOURCES",
}


def test_every_file_of_the_kernel_is_looked_at() -> None:
    files = {path.stem for path in Path(layout.__file__).parent.glob("*.py")}
    names_none = {"__init__", "compilation", "layout", "nests", "ports"}  # the last two name no constant
    assert files - names_none == set(CONSTANT_OF_FILE)


@pytest.mark.parametrize(("file", "constant"), CONSTANT_OF_FILE.items())
def test_fingerprint_follows_a_constant_of_each_file(file: str, constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(run_cycles.function)
    monkeypatch.setattr(importlib.import_module(f"tilewright.simulator.kernel.{file}"), constant, 77)
    assert fingerprint(run_cycles.function) != before


@pytest.mark.parametrize(
    ("kernel", "constant"),
    [
        ("compiler.emission.kernels.ring.fill", "compiler.emission.kernels.ring.STEP"),
        ("compiler.emission.kernels.schedule.find_order", "compiler.emission.kernels.schedule.LOADS_COMPARED"),
        ("compiler.emission.kernels.schedule.find_order", "compiler.emission.kernels.room.AHEAD"),
        ("compiler.emission.kernels.meetings.find_meetings", "compiler.emission.kernels.meetings.FULL"),
        ("isa.check.order_kernel.find_unordered", "isa.check.order_kernel.READ"),
    ],
)
def test_fingerprints_follow_constants(kernel: str, constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _, name = kernel.rpartition(".")
    function = getattr(importlib.import_module(f"tilewright.{file}"), name).function
    before = fingerprint(function)
    monkeypatch.setattr(f"tilewright.{constant}", 77)
    assert fingerprint(function) != before


def test_a_name_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.simulator.kernel.systolic.FIRST_INNER", [1])
    with pytest.raises(TypeError, match=r"read_weight_row names FIRST_INNER, \[1\]; expected a number or a part"):
        fingerprint(run_cycles.function)


@pytest.mark.slow
def test_a_changed_kernel_in_a_copy_counts_other_cycles(tmp_path: Path) -> None:
    for name in ("isa", "simulator"):
        shutil.copytree(REPOSITORY / name, tmp_path / "tilewright" / name)
    (tmp_path / "tilewright" / "__init__.py").write_text("")
    (tmp_path / "count.py").write_text(
        "from tilewright.isa.files.loader import load_machine\n"
        "from tilewright.isa.machine.encoding import make_instruction\n"
        "from tilewright.isa.program.program import Program, place_regions\n"
        "from tilewright.simulator.cycles import simulate_cycles\n"
        "machine = load_machine('base16')\n"
        "fill = make_instruction(machine.format('fill'), {'trip.k': 10, 'y.k': 1})\n"
        "program = Program(machine, (fill,), b'', 0, (), (), 0, 0)\n"
        "print(simulate_cycles(program, place_regions(program.limits)).cycles)\n"
    )

    def count() -> int:
        output, errors = start(tmp_path, "count.py", PYTHONPATH=str(tmp_path)).communicate()
        assert errors == ""
        return int(output)

    before = count()
    vector = tmp_path / "tilewright" / "simulator" / "kernel" / "vector.py"
    vector.write_text(vector.read_text().replace("v.newest_ready = t + code[i, TO_WRITE]", "v.newest_ready = t + 100"))
    assert count() > before
    assert count() > before
