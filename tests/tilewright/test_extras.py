"""Extras: what most commands do without, and what is said where one is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest

from tests.digits import FOLDER, MODEL
from tests.mixed_networks import sandwich
from tests.tilewright.command_line import Command
from tilewright import extras
from tilewright.commands import doctor as module
from tilewright.errors import InputError
from tilewright.extras import EXTRAS, missing_package

FOR_DEVELOPERS = {"test", "docs"}
OF_OTHERS = {"all"}
OTHERWISE = {"z3-solver": "z3"}
"""Packages whose modules have other names."""

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from tilewright.cli import main
sys.argv[0] = "tilewright"
main()
"""


def test_the_table_is_that_of_pyproject(repository: Path) -> None:
    said = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {
        extra: {OTHERWISE.get(of, of.replace("-", "_")) for of in (re.split(r"[>=<\[]", line)[0] for line in lines)}
        for extra, lines in said.items()
        if extra not in FOR_DEVELOPERS | OF_OTHERS
    }
    assert names == {extra.name: set(extra.modules) for extra in EXTRAS}
    assert said["all"] == [f"tilewright[{','.join(extra.name for extra in EXTRAS)}]"]


def run_without_extras(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    modules = {module for extra in EXTRAS for module in extra.modules}
    command = [sys.executable, "-c", WITHOUT.format(modules=modules), *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_plain_commands_need_no_extra(tmp_path: Path) -> None:
    model, data = MODEL.absolute(), FOLDER.absolute() / "example.npz"
    for words in (
        ("compile", model, "--isa", "tiny8", "--effort", 0, "-o", "net.npu"),
        ("run", "net.npu", "--input", data),
        ("check", "net.npu"),
        ("profile", "net.npu"),
        ("compare", model, "--isa", "tiny8", "--isa", "base16", "--effort", 0, "--no-price"),
        ("isa", "lint", "tiny8"),
        ("specialise", model, "--isa", "tiny8", "--propose", 1),
    ):
        done = run_without_extras(tmp_path, *words)
        assert (words, done.returncode, done.stderr) == (words, 0, "")


@pytest.mark.slow
def test_a_command_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    model = MODEL.absolute()
    done = run_without_extras(tmp_path, "profile", model, "--isa", "tiny8", "--html", "net.html")
    install = "not installed here; install the extra: pip install 'tilewright[charts]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"error: this needs bokeh, {install}")


@pytest.mark.slow
def test_nodes_on_the_host_need_theirs(tmp_path: Path) -> None:
    """No other evaluator stands in for ONNX Runtime, which might round otherwise."""
    onnx.save(sandwich(), tmp_path / "net.onnx")
    done = run_without_extras(tmp_path, "compile", "net.onnx", "--isa", "tiny8", "--effort", 0, "-o", "net.npu")
    install = "not installed here; install the extra: pip install 'tilewright[host]'"
    assert (done.returncode, done.stderr) == (1, f"error: this needs onnxruntime, {install}\n")
    assert not (tmp_path / "net.npu").exists()


def test_what_is_required_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^this needs onnxruntime, .*'tilewright\[host\]'$"):
        extras.require_module("onnxruntime")


def test_a_module_of_no_extra_is_our_defect() -> None:
    assert missing_package(ModuleNotFoundError("No module named 'nothing'", name="nothing")) is None


def test_doctor_says_what_is_missing(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "optuna" else object())
    monkeypatch.setattr(module.shutil, "which", lambda name: None if name == "perl" else name)
    monkeypatch.setenv("COLUMNS", "80")
    ended = tilewright("doctor")
    lines = ended.out.splitlines()
    assert ended.code == 0 and max(map(len, lines)) <= 80
    assert any("tilewright[search]" in line and "missing: optuna" in line for line in lines)
    assert any("missing: perl" in line for line in lines)
    assert any("tilewright[mcp]" in line and "installed" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extra"), [(("--simulate",), "rtl"), (("--system",), "rtl"), (("--board", "ulx3s-85f"), "rtl")]
)
def test_a_bundle_says_what_it_needs_before_it_writes(tmp_path: Path, words: tuple[str, ...], extra: str) -> None:
    command = "fpga" if "--board" in words else "bundle"
    done = run_without_extras(tmp_path, command, MODEL.absolute(), "--isa", "tiny8", "-o", "out", *words)
    assert done.returncode == 1 and f"pip install 'tilewright[{extra}]'" in done.stderr
    assert not (tmp_path / "out").exists() and "Traceback" not in done.stderr


@pytest.mark.parametrize("module", [module for extra in EXTRAS if extra.name == "system" for module in extra.modules])
def test_each_module_of_a_system_is_asked_for(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(InputError, match=rf"^this needs {module}, .*'tilewright\[system\]'$"):
        extras.require_extra("system")
