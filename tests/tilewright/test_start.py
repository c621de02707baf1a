"""The command line starts fast: `--help` and a compilation load no library that they do not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.digits import MODEL

LOADED = "import sys; print(*sorted({libraries!r} & set(sys.modules)))"


def loaded(statement: str, libraries: set[str]) -> list[str]:
    """Which of the libraries a fresh Python has loaded after the statement."""
    code = f"{statement}\n{LOADED.format(libraries=libraries)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_help_loads_no_library_of_arrays_and_models() -> None:
    assert loaded("import tilewright.cli", {"numpy", "onnx", "onnxruntime", "numba", "yaml", "amaranth"}) == []


def test_the_compiler_is_loaded_without_the_simulator_and_the_hardware() -> None:
    found = loaded("import tilewright.commands.compile_report", {"numba", "onnxruntime", "amaranth", "scipy"})
    assert found == []


@pytest.mark.slow
def test_a_compilation_whose_kernels_are_on_disk_loads_neither_numba_nor_scipy_nor_a_reader_of_files() -> None:
    compiled = f"import tilewright; tilewright.compile({str(MODEL)!r}, 'base16')"
    loaded(compiled, set())  # the first one in a fresh checkout compiles the kernels
    assert loaded(compiled, {"numba", "scipy", "elftools", "pdb", "llvmlite"}) == ["llvmlite"]
